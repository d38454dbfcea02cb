package projection

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func patched(t fataler, doc, patch string) (string, bool) {
	ops, ok := parsePatch([]byte(patch))
	if !ok {
		return doc, false
	}
	d := newDocument([]byte(doc))
	ok = d.apply(ops)
	got := string(d.appendJSON(nil))
	if exact := d.root.sizeOf(); ok && (d.size > exact+2*len(ops)+len(got)/2+16 || exact > d.size+len(doc)+16) {
		t.Fatalf("size %d, exactly %d: %s", d.size, exact, got)
	}
	return got, ok
}

// The examples of RFC 6902, appendix A, and the client's departures from it.
func TestPatch(t *testing.T) {
	t.Parallel()
	const fails = ""
	for _, c := range []struct{ doc, patch, want string }{
		{`{"foo":"bar"}`, `[{"op":"add","path":"/baz","value":"qux"}]`, `{"foo":"bar","baz":"qux"}`},
		{`{"foo":["bar","baz"]}`, `[{"op":"add","path":"/foo/1","value":"qux"}]`, `{"foo":["bar","qux","baz"]}`},
		{`{"baz":"qux","foo":"bar"}`, `[{"op":"remove","path":"/baz"}]`, `{"foo":"bar"}`},
		{`{"foo":["bar","qux","baz"]}`, `[{"op":"remove","path":"/foo/1"}]`, `{"foo":["bar","baz"]}`},
		{`{"baz":"qux","foo":"bar"}`, `[{"op":"replace","path":"/baz","value":"boo"}]`, `{"baz":"boo","foo":"bar"}`},
		{`{"foo":{"bar":"baz","waldo":"fred"},"qux":{"corge":"grault"}}`, `[{"op":"move","from":"/foo/waldo","path":"/qux/thud"}]`,
			`{"foo":{"bar":"baz"},"qux":{"corge":"grault","thud":"fred"}}`},
		{`{"foo":["all","grass","cows","eat"]}`, `[{"op":"move","from":"/foo/1","path":"/foo/3"}]`, `{"foo":["all","cows","eat","grass"]}`},
		{`{"baz":"qux","foo":["a",2,"c"]}`, `[{"op":"test","path":"/baz","value":"qux"},{"op":"test","path":"/foo/1","value":2}]`, `{"baz":"qux","foo":["a",2,"c"]}`},
		{`{"baz":"qux"}`, `[{"op":"test","path":"/baz","value":"bar"}]`, fails},
		{`{"foo":"bar"}`, `[{"op":"add","path":"/child","value":{"grandchild":{}}}]`, `{"foo":"bar","child":{"grandchild":{}}}`},
		{`{"foo":"bar"}`, `[{"op":"add","path":"/baz","value":"qux","xyz":123}]`, `{"foo":"bar","baz":"qux"}`},
		{`{"foo":"bar"}`, `[{"op":"add","path":"/baz/bat","value":"qux"}]`, fails},
		{`{"/":9,"~1":10}`, `[{"op":"test","path":"/~01","value":10}]`, `{"/":9,"~1":10}`},
		{`{"/":9,"~1":10}`, `[{"op":"test","path":"/~01","value":"10"}]`, fails},
		{`{"foo":["bar"]}`, `[{"op":"add","path":"/foo/-","value":["abc","def"]}]`, `{"foo":["bar",["abc","def"]]}`},
		// Numbers keep their digits, values their form, and equality is JavaScript's.
		{`{"n":12345678901234567890,"m":1.50}`, `[{"op":"test","path":"/m","value":1.5},{"op":"copy","from":"/n","path":"/k"}]`, `{"n":12345678901234567890,"m":1.50,"k":12345678901234567890}`},
		{`{"s":"\u0061\ud83d\ude00"}`, `[{"op":"test","path":"/s","value":"a😀"},{"op":"add","path":"/\ud83d","value":1}]`, `{"s":"\u0061\ud83d\ude00","\ud83d":1}`},
		{`{"a":{"x":1,"y":[]}}`, `[{"op":"test","path":"/a","value":{"y":[],"x":1.0}}]`, `{"a":{"x":1,"y":[]}}`},
		// All or nothing, in every kind of change.
		{`{"a":1,"l":[1,2]}`, `[{"op":"add","path":"/b","value":1},{"op":"remove","path":"/a"},{"op":"add","path":"/l/0","value":0},{"op":"remove","path":"/l/2"},{"op":"replace","path":"/l/0","value":9},{"op":"replace","path":"","value":7},{"op":"remove","path":"/x"}]`, fails},
		// Removing and adding again puts a member at the end.
		{`{"a":1,"b":2}`, `[{"op":"remove","path":"/a"},{"op":"add","path":"/a","value":3}]`, `{"b":2,"a":3}`},
		// The client's own: unknown operations drop out, "-" and leading zeros, copies past the end.
		{`{"a":1}`, `[{"op":"wish","path":"/a"},{"path":"/a"}]`, `{"a":1}`},
		{`[1,2]`, `[{"op":"add","path":"/01","value":0}]`, `[1,0,2]`},
		{`[1,2]`, `[{"op":"replace","path":"/01","value":0}]`, fails},
		{`[1,2]`, `[{"op":"add","path":"/3","value":0}]`, fails},
		{`[1,2]`, `[{"op":"copy","from":"/0","path":"/7"}]`, `[1,2,1]`},
		{`[1,2]`, `[{"op":"remove","path":"/-"}]`, fails},
		{`{"a":{}}`, `[{"op":"move","from":"/a","path":"/a/b"}]`, fails},
		{`{"a":{}}`, `[{"op":"move","from":"","path":"/a/b"}]`, fails},
		{`{"a":{}}`, `[{"op":"copy","from":"","path":"/a/b"}]`, `{"a":{"b":{"a":{}}}}`},
		{`{"a":{}}`, `[{"op":"remove","path":""}]`, `null`},
		{`{"x":[1,2]}`, `[{"op":"copy","from":"/x/01","path":""}]`, `2`},
		{`{"x":[1,2]}`, `[{"op":"copy","from":"/y","path":""}]`, fails},
		{`5`, `[{"op":"add","path":"/a","value":1}]`, `5`},
		{`null`, `[{"op":"add","path":"/a","value":1}]`, fails},
		{`{}`, `[{"op":"add","path":"/__proto__","value":1}]`, fails},
		{`5`, `[{"op":"add","path":"/a/b","value":1}]`, fails},
		// Malformed.
		{`{}`, `{}`, fails},
		{`{}`, `[1]`, fails},
		{`{}`, `[{"op":"add","path":"/a"}]`, fails},
		{`{}`, `[{"op":"add","path":"a","value":1}]`, fails},
		{`{}`, `[{"op":"add","path":"/~2","value":1}]`, fails},
		{`{}`, `[{"op":"move","path":"/a"}]`, fails},
	} {
		got, ok := patched(t, c.doc, c.patch)
		switch {
		case c.want == fails && (ok || got != c.doc):
			sameJSON(t, c.patch, []byte(got), []byte(c.doc), false)
			if ok {
				t.Errorf("%s applied to %s", c.patch, c.doc)
			}
		case c.want != fails && (!ok || got != c.want):
			t.Errorf("%s on %s = %s, %v; want %s", c.patch, c.doc, got, ok, c.want)
		}
	}
}

// A document cannot be made to outgrow its bounds.
func TestPatchBounds(t *testing.T) {
	t.Parallel()
	d := newDocument([]byte(`{"a":"` + strings.Repeat("x", 1<<20) + `"}`))
	double, _ := parsePatch([]byte(`[{"op":"copy","from":"","path":"/b"}]`))
	n := 0
	for ; d.apply(double); n++ {
		if n > 1000 {
			t.Fatal("copying onto itself has no end")
		}
	}
	if size := len(d.appendJSON(nil)); size > maxDocumentBytes {
		t.Errorf("the document has %d bytes", size)
	}
	deep := newDocument([]byte(`{}`))
	path := ""
	for n = 0; ; n++ {
		ops, _ := parsePatch([]byte(`[{"op":"add","path":"` + path + `/a","value":{}}]`))
		if !deep.apply(ops) {
			break
		}
		if path += "/a"; n > 2*maxDocumentDepth {
			t.Fatal("nesting has no end")
		}
	}
	if n < maxDocumentDepth/2 {
		t.Errorf("only %d levels", n)
	}
}

// Members that come and go leave nothing behind, and the order of the others stays.
func TestPatchForgetsRemovedMembers(t *testing.T) {
	t.Parallel()
	d := newDocument([]byte(`{"first":1,"last":2}`))
	for i := range 1000 {
		ops, _ := parsePatch(fmt.Appendf(nil, `[{"op":"add","path":"/k%d","value":%d},{"op":"remove","path":"/k%d"}]`, i, i, i))
		if !d.apply(ops) {
			t.Fatal("does not apply")
		}
	}
	if got, want := string(d.appendJSON(nil)), `{"first":1,"last":2}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if n := len(d.root.obj.members); n > 16 {
		t.Errorf("%d members are kept", n)
	}
}

// The model: RFC 6902 over decoded values, copied whole for each patch.
func TestPatchAgreesWithTheModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		doc := anyJSON(3).Draw(t, "doc")
		d := newDocument([]byte(doc))
		var model any
		decode(doc, &model)
		for range rapid.IntRange(1, 8).Draw(t, "patches") {
			patch := anyPatch().Draw(t, "patch")
			raw, _ := json.Marshal(patch)
			ops, ok := parsePatch(raw)
			if !ok {
				t.Fatalf("malformed: %s", raw)
			}
			next, applies := modelPatch(model, patch)
			if applies {
				model = next
			}
			if got := d.apply(ops); got != applies {
				t.Fatalf("%s on %s: applied %v, want %v", raw, d.appendJSON(nil), got, applies)
			}
			var v any
			decode(string(d.appendJSON(nil)), &v)
			got, _ := json.Marshal(v)
			want, _ := json.Marshal(model)
			if string(got) != string(want) {
				t.Fatalf("after %s: %s, want %s", raw, got, want)
			}
		}
	})
}

func decode(s string, v any) {
	if err := json.Unmarshal([]byte(s), v); err != nil {
		panic(fmt.Sprintf("%s: %v", s, err))
	}
}

type modelOp struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	From  string `json:"from"`
	Value any    `json:"value"`
}

func anyPatch() *rapid.Generator[[]modelOp] {
	path := rapid.SampledFrom([]string{"", "/a", "/b", "/c", "/a/a", "/a/b", "/a/0", "/0", "/1", "/2", "/-", "/a/-", "/0/a", "/1/0", "/b/1/c"})
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) modelOp {
		op := modelOp{
			Op:   rapid.SampledFrom([]string{"add", "add", "remove", "replace", "move", "copy", "test"}).Draw(t, "op"),
			Path: path.Draw(t, "path"), From: path.Draw(t, "from"),
		}
		decode(anyJSON(2).Draw(t, "value"), &op.Value)
		return op
	}), 1, 3)
}

func modelPatch(doc any, patch []modelOp) (any, bool) {
	raw, _ := json.Marshal(doc)
	decode(string(raw), &doc)
	for _, op := range patch {
		ok := true
		switch op.Op {
		case "add":
			if scalar(doc) && strings.Count(op.Path, "/") == 1 {
				break
			}
			doc, ok = modelAdd(doc, op.Path, op.Value, false)
		case "replace":
			if _, ok = modelGet(doc, op.Path); ok {
				doc, _ = modelRemove(doc, op.Path)
				doc, ok = modelAdd(doc, op.Path, op.Value, false)
			}
		case "remove":
			doc, ok = modelRemove(doc, op.Path)
		case "test":
			var v any
			v, ok = modelGet(doc, op.Path)
			a, _ := json.Marshal(v)
			b, _ := json.Marshal(op.Value)
			ok = ok && string(a) == string(b)
		case "copy", "move":
			var v any
			if v, ok = modelGet(doc, op.From); !ok {
				break
			}
			raw, _ := json.Marshal(v)
			decode(string(raw), &v)
			if op.Op == "move" && op.Path != "" {
				// The client looks for the target before it takes the source away.
				parent := op.Path[:strings.LastIndexByte(op.Path, '/')]
				if _, there := modelGet(doc, parent); !there || op.From == "" {
					return nil, false
				}
				doc, _ = modelRemove(doc, op.From)
			}
			doc, ok = modelAdd(doc, op.Path, v, true)
		}
		if !ok {
			return nil, false
		}
	}
	return doc, true
}

func scalar(v any) bool {
	switch v.(type) {
	case nil, map[string]any, []any:
		return false
	}
	return true
}

func modelGet(doc any, path string) (any, bool) {
	if path == "" {
		return doc, true
	}
	for _, tok := range strings.Split(path[1:], "/") {
		switch d := doc.(type) {
		case map[string]any:
			v, ok := d[tok]
			if !ok {
				return nil, false
			}
			doc = v
		case []any:
			i, err := strconv.Atoi(tok)
			if err != nil || i >= len(d) {
				return nil, false
			}
			doc = d[i]
		default:
			return nil, false
		}
	}
	return doc, true
}

func modelAdd(doc any, path string, v any, clamp bool) (any, bool) {
	return modelEdit(doc, path, v, func(d any, tok string) (any, bool) {
		switch d := d.(type) {
		case map[string]any:
			d[tok] = v
			return d, true
		case []any:
			i, err := strconv.Atoi(tok)
			if tok == "-" || (clamp && i > len(d)) {
				i, err = len(d), nil
			}
			if err != nil || i > len(d) {
				return nil, false
			}
			return slices.Insert(d, i, v), true
		}
		return nil, false
	})
}

func modelRemove(doc any, path string) (any, bool) {
	if _, ok := modelGet(doc, path); !ok {
		return nil, false
	}
	return modelEdit(doc, path, nil, func(d any, tok string) (any, bool) {
		switch d := d.(type) {
		case map[string]any:
			delete(d, tok)
			return d, true
		case []any:
			i, _ := strconv.Atoi(tok)
			return slices.Delete(d, i, i+1), true
		}
		return nil, false
	})
}

// modelEdit rebuilds the containers on the way to path's parent.
func modelEdit(doc any, path string, root any, edit func(parent any, tok string) (any, bool)) (any, bool) {
	if path == "" {
		return root, true
	}
	tok, rest, more := strings.Cut(path[1:], "/")
	if !more {
		return edit(doc, tok)
	}
	child, ok := modelGet(doc, "/"+tok)
	if !ok {
		return nil, false
	}
	child, ok = modelEdit(child, "/"+rest, root, edit)
	if !ok {
		return nil, false
	}
	switch d := doc.(type) {
	case map[string]any:
		d[tok] = child
	case []any:
		i, _ := strconv.Atoi(tok)
		d[i] = child
	}
	return doc, true
}
