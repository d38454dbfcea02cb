package main

import (
	"io"
	"testing"
)

// TestSpool: every reader gets the whole input, as it comes, and Close ends one that waits.
func TestSpool(t *testing.T) {
	t.Parallel()
	in, w := io.Pipe()
	s := newSpool(in)
	for range 2 {
		r, _ := s.open()
		must(t)(io.WriteString(w, "a\n"))
		if b := make([]byte, 2); must(t)(io.ReadFull(r, b)) != 2 || string(b) != "a\n" {
			t.Errorf("read %q", b)
		}
		r.Close()
		if _, err := r.Read(make([]byte, 1)); err == nil {
			t.Error("a closed reader reads")
		}
	}
	w.Close()
	r, _ := s.open()
	if b, err := io.ReadAll(r); string(b) != "a\na\n" || err != nil {
		t.Errorf("read %q, %v", b, err)
	}
}

func must(t *testing.T) func(int, error) int {
	return func(n int, err error) int {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
}
