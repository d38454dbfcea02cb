package projection

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// JSON Patch (RFC 6902) as the published client applies it: npm fast-json-patch 3.1.1,
// applyPatch(document, patch, validate = true), behind an enforcement that drops operations of
// an unknown kind. Where that library departs from the RFC, so does this: an index may have
// leading zeros when adding or testing, moving or copying to an index past the end appends, and
// adding a member to a document that is a scalar does nothing, successfully. One departure is
// not followed: moving or copying a missing value to the root makes the client's document
// undefined, which is no JSON; here the patch does not apply.

// patchOp is one operation, taken apart.
type patchOp struct {
	op         string
	path, from []string // reference tokens, unescaped
	value      []byte
}

// Bounds of a document, so that copying onto itself cannot fill the memory, nor nesting the stack.
const (
	maxDocumentBytes = 4 << 20
	maxDocumentDepth = 1024
)

// parsePatch reports false for what the client's enforcement rejects.
func parsePatch(raw []byte) ([]patchOp, bool) {
	var ops []patchOp
	it := elements(raw)
	for {
		v, ok := it.next()
		if !ok {
			return ops, !it.bad
		}
		if !isObject(v) {
			return nil, false
		}
		op, known, ok := parseOp(v)
		if !ok {
			return nil, false
		}
		if known {
			ops = append(ops, op)
		}
	}
}

func parseOp(raw []byte) (op patchOp, known, ok bool) {
	var path, from []byte
	it := members(raw)
	for {
		name, v, more := it.next()
		if !more {
			break
		}
		switch string(nameBytes(name)) {
		case "op":
			op.op = ""
			if isString(v) {
				op.op = string(keyBytes(v))
			}
		case "path":
			path = v
		case "from":
			from = v
		case "value":
			op.value = v
		}
	}
	switch op.op {
	case "add", "replace", "test":
		ok = op.value != nil
	case "remove":
		ok = true
	case "move", "copy":
		op.from, ok = pointer(from)
	default:
		return op, false, true
	}
	pathOK := false
	op.path, pathOK = pointer(path)
	return op, true, ok && pathOK
}

// pointer splits a JSON Pointer (RFC 6901); the root is no token.
func pointer(raw []byte) ([]string, bool) {
	if !isString(raw) {
		return nil, false
	}
	s := string(keyBytes(raw))
	if s == "" {
		return nil, true
	}
	if s[0] != '/' {
		return nil, false
	}
	tokens := strings.Split(s[1:], "/")
	for i, t := range tokens {
		if strings.IndexByte(t, '~') < 0 {
			continue
		}
		for j := 0; j < len(t); j++ {
			if t[j] == '~' && (j+1 == len(t) || (t[j+1] != '0' && t[j+1] != '1')) {
				return nil, false
			}
		}
		tokens[i] = strings.ReplaceAll(strings.ReplaceAll(t, "~1", "/"), "~0", "~")
	}
	return tokens, true
}

// apply applies the operations in order, all of them or, when it reports false, none.
func (d *document) apply(ops []patchOp) bool {
	size := d.size
	d.undo, d.cut = nil, nil
	for _, op := range ops {
		if !d.one(op) {
			for _, undo := range slices.Backward(d.undo) {
				undo()
			}
			d.size, d.undo = size, nil
			return false
		}
	}
	for _, o := range d.cut {
		o.compact()
	}
	d.undo, d.cut = nil, nil
	return true
}

func (d *document) one(op patchOp) bool {
	if banned(op.path) || banned(op.from) {
		return false
	}
	if len(op.path) == 0 {
		return d.atRoot(op)
	}
	switch op.op {
	case "add":
		if len(op.path) == 1 && d.root.obj == nil && !d.root.isArray && !isContainer(d.root.raw) {
			return !isNull(d.root.raw)
		}
		if d.find(op.path[:len(op.path)-1], true) == nil {
			return false
		}
		return d.add(op.path, leaf(op.value), false)
	case "replace":
		return d.find(op.path, true) != nil && d.replace(op.path, leaf(op.value))
	case "remove":
		return d.find(op.path, true) != nil && d.remove(op.path)
	case "test":
		n := d.find(op.path, false)
		return n != nil && equal(n, &node{raw: op.value})
	}
	src := d.find(op.from, true)
	if src == nil || d.find(op.path[:len(op.path)-1], false) == nil {
		return false
	}
	if op.op == "copy" {
		return d.add(op.path, src.clone(), true)
	}
	// Moving the root into itself would make a cycle.
	return len(op.from) > 0 && d.remove(op.from) && d.add(op.path, src, true)
}

// banned reports whether the client refuses to walk the path, for JavaScript's sake.
func banned(path []string) bool {
	for i, t := range path {
		if t == "__proto__" || (t == "prototype" && i > 0 && path[i-1] == "constructor") {
			return true
		}
	}
	return false
}

func (d *document) atRoot(op patchOp) bool {
	switch op.op {
	case "add", "replace":
		d.setRoot(leaf(op.value))
	case "remove":
		d.setRoot(leaf([]byte("null")))
	case "move", "copy":
		n := d.find(op.from, false)
		if n == nil {
			return false
		}
		d.setRoot(n.clone())
	case "test":
		return equal(d.root, &node{raw: op.value})
	}
	return true
}

func (d *document) setRoot(n *node) {
	old := d.root
	d.undo = append(d.undo, func() { d.root = old })
	d.root, d.size = n, n.sizeOf()
}

// find returns the value at path, or nil. Strictly, an index is a number without leading zeros
// below the length; otherwise it is what the client makes of the token.
func (d *document) find(path []string, strict bool) *node {
	n := d.root
	for _, t := range path {
		n.open()
		switch {
		case n.obj != nil:
			n = n.obj.get(t)
		case n.isArray:
			i, ok := index(t, len(n.arr))
			if !ok || i < 0 || i >= len(n.arr) || (strict && strconv.Itoa(i) != t) {
				return nil
			}
			n = n.arr[i]
		default:
			return nil
		}
		if n == nil {
			return nil
		}
	}
	n.open()
	return n
}

// index reads a token as the client reads an array index: "-" is the length, and digits wrap
// around at 32 bits, as JavaScript's ~~ does.
func index(t string, length int) (int, bool) {
	if t == "-" {
		return length, true
	}
	for i := range len(t) {
		if t[i] < '0' || t[i] > '9' {
			return 0, false
		}
	}
	if t == "" {
		return 0, true
	}
	v, err := strconv.ParseFloat(t, 64)
	if err != nil {
		return 0, true // infinite
	}
	return int(int32(uint32(uint64(math.Mod(v, 1<<32))))), true
}

// add puts n at path, whose parent must be there. With clamp, an index past the end appends.
func (d *document) add(path []string, n *node, clamp bool) bool {
	parent := d.find(path[:len(path)-1], false)
	if parent == nil {
		return false
	}
	t := path[len(path)-1]
	switch {
	case parent.obj != nil:
		return d.setMember(parent.obj, t, n, len(path))
	case parent.isArray:
		i, ok := index(t, len(parent.arr))
		if !ok || (i > len(parent.arr) && !clamp) {
			return false
		}
		if i < 0 {
			i = max(0, len(parent.arr)+i)
		}
		i = min(i, len(parent.arr))
		parent.arr = slices.Insert(parent.arr, i, n)
		d.undo = append(d.undo, func() { parent.arr = slices.Delete(parent.arr, i, i+1) })
		return d.grow(n.sizeOf()+1, n, len(path))
	}
	return false
}

func (d *document) setMember(o *objectNode, key string, n *node, depth int) bool {
	if i, ok := o.index[key]; ok {
		old := o.members[i].value
		o.members[i].value = n
		d.undo = append(d.undo, func() { o.members[i].value = old })
		return d.grow(n.sizeOf()-old.sizeOf(), n, depth)
	}
	name := quote(key)
	o.set(key, name, n)
	d.undo = append(d.undo, func() {
		delete(o.index, key)
		o.members = o.members[:len(o.members)-1]
	})
	return d.grow(n.sizeOf()+len(name)+2, n, depth)
}

func (d *document) replace(path []string, n *node) bool {
	parent := d.find(path[:len(path)-1], true)
	t := path[len(path)-1]
	if parent.obj != nil {
		return d.setMember(parent.obj, t, n, len(path))
	}
	i, _ := index(t, len(parent.arr))
	old := parent.arr[i]
	parent.arr[i] = n
	d.undo = append(d.undo, func() { parent.arr[i] = old })
	return d.grow(n.sizeOf()-old.sizeOf(), n, len(path))
}

// remove takes away what find found strictly.
func (d *document) remove(path []string) bool {
	parent := d.find(path[:len(path)-1], true)
	t := path[len(path)-1]
	if parent.isArray {
		i, _ := index(t, len(parent.arr))
		old := parent.arr[i]
		parent.arr = slices.Delete(parent.arr, i, i+1)
		d.undo = append(d.undo, func() { parent.arr = slices.Insert(parent.arr, i, old) })
		d.size -= old.sizeOf() + 1
		return true
	}
	o := parent.obj
	i := o.index[t]
	o.members[i].dead = true
	delete(o.index, t)
	d.cut = append(d.cut, o)
	d.undo = append(d.undo, func() { o.members[i].dead, o.index[t] = false, i })
	d.size -= o.members[i].value.sizeOf() + len(o.members[i].name) + 2
	return true
}

// grow accounts for n, put at a depth; it reports false when the document becomes too much.
func (d *document) grow(by int, n *node, depth int) bool {
	d.size += by
	return d.size <= maxDocumentBytes && depth+n.depth() <= maxDocumentDepth
}
