package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/runlog/runlog/event"
)

// gatherAll reads input to its end in batches of at most limit.
func gatherAll(t *testing.T, input string, limit int) (sizes []int, err error) {
	t.Helper()
	ctx := context.Background()
	lines := readLines(ctx, strings.NewReader(input))
	for {
		batch, err := gather(ctx, lines, limit, false)
		if len(batch) > 0 {
			sizes = append(sizes, len(batch))
		}
		if err != nil {
			return sizes, err
		}
	}
}

const anEvent = `{"type":"CUSTOM","name":"n","value":1}` + "\n"

// TestGather: no event is lost or repeated, whatever the batches, and empty lines are none.
func TestGather(t *testing.T) {
	t.Parallel()
	sizes, err := gatherAll(t, strings.Repeat(anEvent+"\n", 24)+strings.TrimSpace(anEvent), 10)
	total := 0
	for _, n := range sizes {
		if total += n; n > 10 {
			t.Errorf("a batch of %d", n)
		}
	}
	if !errors.Is(err, io.EOF) || total != 25 {
		t.Fatalf("%d events, %v", total, err)
	}
}

// TestGatherSize: a batch stays below the limit of a request.
func TestGatherSize(t *testing.T) {
	t.Parallel()
	big := `{"type":"CUSTOM","name":"n","value":"` + strings.Repeat("x", event.MaxBatchBytes/3) + `"}` + "\n"
	sizes, err := gatherAll(t, strings.Repeat(big, 5), 1000)
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	for _, n := range sizes {
		if n > 2 {
			t.Errorf("a batch of %d events of a third of a request", n)
		}
	}
}

// TestGatherBadLine: what came before a bad line is still there to be sent; the line is named.
func TestGatherBadLine(t *testing.T) {
	t.Parallel()
	sizes, err := gatherAll(t, anEvent+anEvent+"\n{\"type\":\n"+anEvent, 10)
	total := 0
	for _, n := range sizes {
		total += n
	}
	if err == nil || !strings.HasPrefix(err.Error(), "line 4: ") || total != 2 {
		t.Fatalf("%d events, %v", total, err)
	}
}

// TestGatherCancelled: a context that ends frees a gather that waits for input.
func TestGatherCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	r, w := io.Pipe()
	defer w.Close()
	lines := readLines(ctx, r)
	cancel()
	if _, err := gather(ctx, lines, 10, false); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

// TestGatherFull: with a producer id, how events are grouped depends on the input alone.
func TestGatherFull(t *testing.T) {
	t.Parallel()
	pr, pw := io.Pipe()
	lines := readLines(t.Context(), pr)
	go func() { // one event at a time, as a slow pipe brings them
		for range 5 {
			fmt.Fprintln(pw, `{"type":"RAW","event":1}`)
		}
		pw.Close()
	}()
	var sizes []int
	for {
		batch, err := gather(t.Context(), lines, 2, true)
		sizes = append(sizes, len(batch))
		if err != nil {
			break
		}
	}
	if fmt.Sprint(sizes) != "[2 2 1]" {
		t.Fatalf("got %v", sizes)
	}
}
