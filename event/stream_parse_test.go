package event

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestSplitMessages(t *testing.T) {
	t.Parallel()
	for body, want := range map[string][]string{
		`{"a":[1, 2]}`:                          {`{"a":[1, 2]}`},
		` [ ] `:                                 {},
		`[[1,2], [3]]`:                          {`[1,2]`, `[3]`},
		`[[[1,2,3]]]`:                           {`[[1,2,3]]`},
		`[1 ,true,null , "a]\",b" ,{ "x":"}"}]`: {`1`, `true`, `null`, `"a]\",b"`, `{ "x":"}"}`},
		`12345678901234567890`:                  {`12345678901234567890`},
		"\n\"s\"\t":                             {`"s"`},
	} {
		got, err := SplitMessages([]byte(body))
		if err != nil || len(got) != len(want) {
			t.Errorf("%s: %q, %v", body, got, err)
			continue
		}
		for i := range want {
			if string(got[i]) != want[i] {
				t.Errorf("%s: message %d is %s, not %s", body, i, got[i], want[i])
			}
		}
	}
	var syntax *SyntaxError
	for _, body := range []string{"", " ", "[", "[1,]", "[1 2]", "{", "x", "1 2", "\"\xff\"", strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1)} {
		if _, err := SplitMessages([]byte(body)); !errors.As(err, &syntax) {
			t.Errorf("%.20q: %v", body, err)
		}
	}
	if _, err := SplitMessages([]byte(`["` + strings.Repeat("x", MaxEventBytes) + `"]`)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a large message: %v", err)
	}
}

// Whatever an array holds comes out as it went in, byte for byte.
func TestSplitMessagesKeepsBytes(t *testing.T) {
	t.Parallel()
	values := []string{`0`, `-1.50e+7`, `"é\u00e9\\"`, `{ "b" : 1, "a" : [ ] }`, `[ [ ] , "," ]`, `null`, `"]"`}
	rapid.Check(t, func(t *rapid.T) {
		picked := rapid.SliceOfN(rapid.SampledFrom(values), 0, 8).Draw(t, "values")
		space := rapid.SampledFrom([]string{"", " ", "\r\n\t"}).Draw(t, "space")
		body := []byte("[" + space + strings.Join(picked, space+","+space) + space + "]")
		if !json.Valid(body) {
			t.Fatalf("bad test body %s", body)
		}
		got, err := SplitMessages(body)
		if err != nil || len(got) != len(picked) {
			t.Fatalf("%s: %q, %v", body, got, err)
		}
		for i := range picked {
			if !bytes.Equal(got[i], []byte(picked[i])) {
				t.Fatalf("%s became %s", picked[i], got[i])
			}
		}
	})
}
