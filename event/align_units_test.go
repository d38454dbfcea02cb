package event_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/internal/agentrun"
)

// normalOf is the normal form by definition: each unit by itself, as UTF-8 would write it.
func normalOf(units []uint16) []byte {
	var out []byte
	for _, u := range units {
		if utf16.IsSurrogate(rune(u)) {
			out = append(out, 0xe0|byte(u>>12), 0x80|byte(u>>6&0x3f), 0x80|byte(u&0x3f))
		} else {
			out = utf8.AppendRune(out, rune(u))
		}
	}
	return out
}

func checkUnits(t interface{ Fatalf(string, ...any) }, body string) {
	want := agentrun.Units(body)
	got := event.Units([]byte(body))
	if !bytes.Equal(got, normalOf(want)) {
		t.Fatalf("%q: got %x, want %x", body, got, normalOf(want))
	}
	for i := range len(want) + 1 {
		n := len(normalOf(want[:i]))
		rest := event.AfterUnits([]byte(body), n)
		if !gjson.Valid(`"`+string(rest)+`"`) || !slices.Equal(agentrun.Units(string(rest)), want[i:]) {
			t.Fatalf("%q after %d units: got %q", body, i, rest)
		}
	}
}

func TestUnits(t *testing.T) {
	t.Parallel()
	for _, s := range agentrun.Snippets {
		checkUnits(t, s)
	}
	rapid.Check(t, func(t *rapid.T) {
		checkUnits(t, strings.Join(rapid.SliceOfN(rapid.SampledFrom(agentrun.Snippets), 0, 12).Draw(t, "body"), ""))
	})
}

func FuzzUnits(f *testing.F) {
	for _, s := range agentrun.Snippets {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		if len(body) > 1<<10 || !utf8.ValidString(body) || !gjson.Valid(`"`+body+`"`) || strings.Contains(strings.ReplaceAll(strings.ReplaceAll(body, `\\`, ""), `\"`, ""), `"`) {
			return
		}
		checkUnits(t, body)
	})
}

func TestSameJSON(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{`1`, `1.0`, true}, {`1`, `10e-1`, true}, {`100`, `1E2`, true}, {`0`, `-0.0e5`, true}, {`1`, `-1`, false},
		{`12345678901234567890`, `12345678901234567891`, false}, {`1e999999999999`, `1e999999999998`, false},
		{`0.1`, `0.10`, true}, {`{"a":1,"b":[2]}`, "{ \"b\" : [ 2 ] ,\n\"a\":1.0}", true}, {`{"a":1}`, `{"a":2}`, false},
		{`{"a":1,"a":2}`, `{"a":2}`, true}, {`{"a":1}`, `{"a":1,"b":null}`, false}, {`[1,2]`, `[2,1]`, false}, {`[[]]`, `[]`, false},
		{`"\u0061\ud83d\ude00"`, `"a😀"`, true}, {`"\ud83d"`, `"\ud83e"`, false}, {`"1"`, `1`, false}, {`null`, `false`, false},
		{`{"\ud800":1}`, `{"\ud801":1}`, false}, {`["a","b"]`, `["a\",\"b"]`, false},
	} {
		if event.SameJSON([]byte(c.a), []byte(c.b)) != c.same || event.SameJSON([]byte(c.b), []byte(c.a)) != c.same {
			t.Errorf("%s and %s: want same %v", c.a, c.b, c.same)
		}
	}
}
