package projection

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The cases of RFC 7396, appendix A, and what the RFC leaves open.
func TestMergePatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ target, patch, want string }{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`["a","b"]`, `["c","d"]`, `["c","d"]`},
		{`{"a":"b"}`, `["c"]`, `["c"]`},
		{`{"a":"foo"}`, `null`, `null`},
		{`{"a":"foo"}`, `"bar"`, `"bar"`},
		{`{"e":null}`, `{"a":1}`, `{"e":null,"a":1}`},
		{`[1,2]`, `{"a":"b","c":null}`, `{"a":"b"}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
		// No target.
		{``, `{"a":1,"b":null}`, `{"a":1}`},
		// Untouched members keep place and bytes.
		{`{ "z" : 12345678901234567890 , "\u0061":1.50, "m":{"x": 1e2} }`, `{"m":{"y":"\ud83d"},"a":2}`,
			`{"z":12345678901234567890,"\u0061":2,"m":{"x":1e2,"y":"\ud83d"}}`},
		// Of a repeated name the last counts.
		{`{"a":1,"a":2}`, `{"b":1,"b":null,"c":null,"c":3}`, `{"a":2,"c":3}`},
		{`{}`, `{"a":[{"b":null}]}`, `{"a":[{"b":null}]}`},
	} {
		got, err := MergePatch([]byte(c.target), []byte(c.patch))
		if err != nil || string(got) != c.want {
			t.Errorf("MergePatch(%s, %s) = %s, %v; want %s", c.target, c.patch, got, err, c.want)
		}
	}
}

func TestMergePatchRefuses(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"a":`, MaxMergeDepth) + `{}` + strings.Repeat(`}`, MaxMergeDepth)
	for _, c := range []struct {
		target, patch string
		want          error
	}{
		{`{}`, ``, ErrPatchSyntax},
		{`{}`, `{"a":}`, ErrPatchSyntax},
		{`{`, `{}`, ErrPatchSyntax},
		{`{}`, deep, ErrPatchDepth},
	} {
		if got, err := MergePatch([]byte(c.target), []byte(c.patch)); !errors.Is(err, c.want) {
			t.Errorf("MergePatch(%.20s, %.20s) = %.20s, %v; want %v", c.target, c.patch, got, err, c.want)
		}
	}
}

// The RFC's pseudocode over decoded values is the model.
func TestMergePatchAgreesWithTheModel(t *testing.T) {
	t.Parallel()
	var model func(target, patch any) any
	model = func(target, patch any) any {
		p, ok := patch.(map[string]any)
		if !ok {
			return patch
		}
		out := map[string]any{}
		if o, ok := target.(map[string]any); ok {
			out = o
		}
		for k, v := range p {
			if v == nil {
				delete(out, k)
			} else {
				out[k] = model(out[k], v)
			}
		}
		return out
	}
	rapid.Check(t, func(t *rapid.T) {
		target, patch := anyJSON(3).Draw(t, "target"), anyJSON(3).Draw(t, "patch")
		got, err := MergePatch([]byte(target), []byte(patch))
		if err != nil {
			t.Fatal(err)
		}
		var a, b any
		if json.Unmarshal([]byte(target), &a) != nil || json.Unmarshal([]byte(patch), &b) != nil {
			t.Fatalf("bad input %s %s", target, patch)
		}
		want, _ := json.Marshal(model(a, b))
		var v any
		if err := json.Unmarshal(got, &v); err != nil {
			t.Fatalf("%s: %v", got, err)
		}
		if again, _ := json.Marshal(v); !bytes.Equal(again, want) {
			t.Fatalf("MergePatch(%s, %s) = %s, want %s", target, patch, got, want)
		}
	})
}

// anyJSON draws small JSON values whose objects share names.
func anyJSON(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		kind := rapid.IntRange(0, 5).Draw(t, "kind")
		if depth == 0 || kind < 2 {
			return rapid.SampledFrom([]string{"null", "1", "-2.5", `"s"`, "true", `""`, "[]", "{}"}).Draw(t, "leaf")
		}
		var b strings.Builder
		n := rapid.IntRange(0, 3).Draw(t, "n")
		for i := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			if kind > 2 {
				b.WriteString(`"` + []string{"a", "b", "c"}[i] + `":`)
			}
			b.WriteString(anyJSON(depth-1).Draw(t, "value"))
		}
		if kind > 2 {
			return "{" + b.String() + "}"
		}
		return "[" + b.String() + "]"
	})
}
