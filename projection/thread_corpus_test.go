package projection

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/runlog/runlog/event"
)

// Recorded runs of one agent stack, three in a row as a thread: at the end of each run the folds
// hold what the client holds. testdata/corpus-threads.ndjson has digests of that, written by
// conformance/agui ("npm run golden").
func TestThreadsOfTheCorpus(t *testing.T) {
	t.Parallel()
	byName := map[string][]event.Record{}
	for _, r := range readCorpus(t, "real-runs.ndjson") {
		rs := records(r.Events)
		for i, rec := range rs {
			if bytes.Contains(rec.Raw, []byte(`"RUN_FINISHED"`)) || bytes.Contains(rec.Raw, []byte(`"RUN_ERROR"`)) {
				rs = rs[:i+1]
				break
			}
		}
		byName[r.Name] = rs
	}
	golden, err := os.ReadFile("testdata/corpus-threads.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, line := range bytes.Split(bytes.TrimSpace(golden), []byte("\n")) {
		var thread struct{ Runs, Ends []string }
		if err := json.Unmarshal(line, &thread); err != nil {
			t.Fatal(err)
		}
		transcript, state := New(KindTranscript), New(KindState)
		for i, want := range thread.Ends {
			run, ok := byName[thread.Runs[i]]
			if !ok {
				t.Fatalf("the corpus has no run %s", thread.Runs[i])
			}
			BeginRun(transcript, event.RunID(thread.Runs[i]))
			BeginRun(state, event.RunID(thread.Runs[i]))
			for _, r := range run {
				transcript.Apply(r)
				state.Apply(r)
			}
			held := state.AppendJSON(append(transcript.AppendJSON([]byte(`{"messages":`)), `,"state":`...))
			if got := digest(t, append(held, '}')); got != want {
				t.Errorf("%v after run %d: digest %s, want %s of\n%.3000s", thread.Runs, i, got, want, held)
			}
			compared++
		}
	}
	if compared < 400 {
		t.Errorf("only %d ends of runs were compared", compared)
	}
}

// digest is conformance/agui/digest.mjs.
func digest(t testing.TB, raw []byte) string {
	h := sha256.New()
	digestValue(t, h, parseValue(t, raw))
	return hex.EncodeToString(h.Sum(nil))
}

func digestValue(t testing.TB, h hash.Hash, v value) {
	head := func(letter byte, count int) {
		h.Write(binary.BigEndian.AppendUint32([]byte{letter}, uint32(count)))
	}
	text := func(s string) {
		head('s', len(s)/2)
		h.Write([]byte(s))
	}
	switch v.kind {
	case 'n', 't', 'f':
		head(v.kind, 0)
	case '0':
		n, err := strconv.ParseFloat(v.text, 64)
		if err != nil && !isRange(err) {
			t.Fatal(fmt.Errorf("number %s: %w", v.text, err))
		}
		head('d', 0)
		h.Write(binary.BigEndian.AppendUint64(nil, math.Float64bits(n)))
	case '"':
		text(v.text)
	case '[':
		head('a', len(v.elems))
		for _, e := range v.elems {
			digestValue(t, h, e)
		}
	case '{':
		head('o', len(v.fields))
		for _, name := range slices.Sorted(maps.Keys(v.fields)) {
			text(name)
			digestValue(t, h, v.fields[name])
		}
	}
}
