package projection

// document is a JSON value that can be patched. Values are kept as the bytes they came as and
// taken apart only along the paths that patches walk, so that numbers keep their digits and a
// large state that nobody patches costs a copy.
type document struct {
	root *node
	size int           // of the serialised value, in bytes, within a few
	undo []func()      // of the patch being applied
	cut  []*objectNode // that it removed members from
}

// node is one value: a leaf that keeps its JSON, or an object or array taken apart.
type node struct {
	raw     []byte // of a leaf; immutable, may be shared
	obj     *objectNode
	arr     []*node
	isArray bool
}

// objectNode is an object in member order. Removed members stay in their place, dead, so that
// removing costs nothing and can be undone; see compact.
type objectNode struct {
	members []docMember
	index   map[string]int // by key, of live members
}

type docMember struct {
	name  string // JSON string
	key   string
	value *node
	dead  bool
}

// newDocument holds a copy of raw, which must be a JSON value.
func newDocument(raw []byte) *document {
	return &document{root: leaf(raw), size: len(raw)}
}

func leaf(raw []byte) *node { return &node{raw: append([]byte(nil), raw...)} }

func (d *document) clone() *document {
	return &document{root: d.root.clone(), size: d.size}
}

func (d *document) appendJSON(dst []byte) []byte { return d.root.appendJSON(dst) }

// open takes a leaf apart if it is an object or an array.
func (n *node) open() {
	switch {
	case isObject(n.raw):
		o := &objectNode{index: make(map[string]int)}
		it := members(n.raw)
		for {
			name, value, ok := it.next()
			if !ok {
				break
			}
			o.set(string(nameBytes(name)), quoted(name), &node{raw: value})
		}
		n.raw, n.obj = nil, o
	case isArray(n.raw):
		it := elements(n.raw)
		for {
			value, ok := it.next()
			if !ok {
				break
			}
			n.arr = append(n.arr, &node{raw: value})
		}
		n.raw, n.isArray = nil, true
	}
}

// set gives a member a value; a new member goes to the end. It returns what it replaced.
func (o *objectNode) set(key, name string, value *node) (old *node) {
	if i, ok := o.index[key]; ok {
		old, o.members[i].value = o.members[i].value, value
		return old
	}
	o.index[key] = len(o.members)
	o.members = append(o.members, docMember{name: name, key: key, value: value})
	return nil
}

func (o *objectNode) get(key string) *node {
	if i, ok := o.index[key]; ok {
		return o.members[i].value
	}
	return nil
}

// compact forgets dead members once they outnumber the living.
func (o *objectNode) compact() {
	if len(o.members) < 2*len(o.index)+8 {
		return
	}
	live := o.members[:0]
	for _, m := range o.members {
		if !m.dead {
			o.index[m.key] = len(live)
			live = append(live, m)
		}
	}
	clear(o.members[len(live):])
	o.members = live
}

func (n *node) clone() *node {
	c := &node{raw: n.raw, isArray: n.isArray}
	if n.obj != nil {
		c.obj = &objectNode{index: make(map[string]int, len(n.obj.index))}
		for _, m := range n.obj.members {
			if !m.dead {
				c.obj.set(m.key, m.name, m.value.clone())
			}
		}
	}
	for _, e := range n.arr {
		c.arr = append(c.arr, e.clone())
	}
	return c
}

func (n *node) appendJSON(dst []byte) []byte {
	switch {
	case n.obj != nil:
		dst = append(dst, '{')
		for _, m := range n.obj.members {
			if m.dead {
				continue
			}
			if dst[len(dst)-1] != '{' {
				dst = append(dst, ',')
			}
			dst = append(append(dst, m.name...), ':')
			dst = m.value.appendJSON(dst)
		}
		return append(dst, '}')
	case n.isArray:
		dst = append(dst, '[')
		for i, e := range n.arr {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = e.appendJSON(dst)
		}
		return append(dst, ']')
	}
	return append(dst, n.raw...)
}

// sizeOf returns about how long the value is when serialised.
func (n *node) sizeOf() int {
	size := len(n.raw)
	if n.obj != nil {
		size += 2
		for _, m := range n.obj.members {
			if !m.dead {
				size += len(m.name) + 2 + m.value.sizeOf()
			}
		}
	}
	if n.isArray {
		size += 2
		for _, e := range n.arr {
			size += 1 + e.sizeOf()
		}
	}
	return size
}

// depth returns how many containers nest at the deepest point.
func (n *node) depth() int {
	deepest := depthOf(n.raw)
	if n.obj != nil {
		for _, m := range n.obj.members {
			if !m.dead {
				deepest = max(deepest, 1+m.value.depth())
			}
		}
	}
	for _, e := range n.arr {
		deepest = max(deepest, 1+e.depth())
	}
	return deepest
}
