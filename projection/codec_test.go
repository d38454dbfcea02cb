package projection

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/runlog/runlog/event"
	"pgregory.net/rapid"
)

var kinds = []Kind{KindTranscript, KindTools, KindState}

// A checkpoint taken anywhere goes on as the fold itself would, byte for byte, and says the same
// when it is taken again.
func TestCheckpointAnywhere(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		run := anyRun(t)
		cut := rapid.IntRange(0, len(run)).Draw(t, "cut")
		for _, kind := range kinds {
			checkCut(t, kind, run, cut)
		}
	})
}

func TestCheckpointAnywhereInTheCorpus(t *testing.T) {
	t.Parallel()
	for _, r := range readCorpus(t, "real-runs.ndjson") {
		run := records(r.Events)
		for _, kind := range kinds {
			for _, cut := range []int{0, 1, len(run) / 3, len(run) / 2, len(run) - 1} {
				checkCut(t, kind, run, cut)
			}
		}
	}
}

type fataler interface {
	Fatalf(format string, args ...any)
}

func checkCut(t fataler, kind Kind, run []event.Record, cut int) {
	whole := foldAll(kind, run)
	f := foldAll(kind, run[:cut])
	data, err := f.MarshalBinary()
	if err != nil {
		t.Fatalf("%s: marshal at %d: %v", kind, cut, err)
	}
	if again, _ := f.MarshalBinary(); !bytes.Equal(again, data) {
		t.Fatalf("%s: two checkpoints at %d differ", kind, cut)
	}
	g := New(kind)
	if err := g.UnmarshalBinary(data); err != nil {
		t.Fatalf("%s: unmarshal at %d: %v", kind, cut, err)
	}
	clear(data) // the fold keeps no reference to it
	if got, want := g.AppendJSON(nil), f.AppendJSON(nil); !bytes.Equal(got, want) {
		t.Fatalf("%s: the checkpoint at %d holds\n%s, want\n%s", kind, cut, got, want)
	}
	for _, r := range run[cut:] {
		g.Apply(r)
	}
	got, want := g.AppendJSON(nil), whole.AppendJSON(nil)
	if !bytes.Equal(got, want) {
		t.Fatalf("%s: cut at %d\n got %s\nwant %s", kind, cut, got, want)
	}
	if !json.Valid(got) {
		t.Fatalf("%s: not JSON: %s", kind, got)
	}
	restored, _ := g.MarshalBinary()
	direct, _ := whole.MarshalBinary()
	if !bytes.Equal(restored, direct) {
		t.Fatalf("%s: cut at %d: the folds' checkpoints differ\n%q\n%q", kind, cut, restored, direct)
	}
	if a, b := g.Size(), len(got); 4*a < b || a > 4*b+400*(len(run)+1) {
		t.Fatalf("%s: Size says %d of %d bytes", kind, a, b)
	}
}

// A fold that keeps the caller's bytes would see them change.
func TestFoldKeepsNoReference(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		run := anyRun(t)
		for _, kind := range kinds {
			want := foldAll(kind, run).AppendJSON(nil)
			f := New(kind)
			for _, r := range run {
				r.Raw = bytes.Clone(r.Raw)
				f.Apply(r)
				for i := range r.Raw {
					r.Raw[i] = 'X'
				}
			}
			if got := f.AppendJSON(nil); !bytes.Equal(got, want) {
				t.Fatalf("%s:\n got %s\nwant %s", kind, got, want)
			}
		}
	})
}

func TestUnmarshalRefuses(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		f := foldAll(kind, ownRuns(t)[0].records)
		data, err := f.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		want := f.AppendJSON(nil)
		for _, bad := range [][]byte{nil, {byte(kind)}, append([]byte{byte(kind), 99}, data[2:]...), append([]byte{9, 1}, data[2:]...)} {
			if err := f.UnmarshalBinary(bad); !errors.Is(err, ErrVersion) {
				t.Errorf("%s: %v, want ErrVersion", kind, err)
			}
		}
		for cut := 2; cut < len(data); cut++ {
			if err := f.UnmarshalBinary(data[:cut]); !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s cut at %d: %v, want ErrCorrupt", kind, cut, err)
			}
		}
		if err := f.UnmarshalBinary(append(bytes.Clone(data), 0)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: a trailing byte: %v, want ErrCorrupt", kind, err)
		}
		if got := f.AppendJSON(nil); !bytes.Equal(got, want) {
			t.Errorf("%s: a refused checkpoint changed the fold", kind)
		}
	}
}
