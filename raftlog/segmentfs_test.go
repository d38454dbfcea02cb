package raftlog

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	walfs "github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
	"pgregory.net/rapid"
)

// TestSegmentFilesReadAlike: whatever is appended, and wherever the file is opened again, a segment
// reads as one that raft-wal's own file system wrote, and keeps its size.
func TestSegmentFilesReadAlike(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		dir := filepath.Join(root, fmt.Sprint(n))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		size := rapid.Int64Range(1, 3*zeroAhead).Draw(t, "size")
		var want []byte
		f := must(segmentFS{walfs.New()}.Create(dir, "s", uint64(size)))
		for int64(len(want)) < size && rapid.IntRange(0, 9).Draw(t, "more") > 0 {
			part := bytes.Repeat([]byte{byte(1 + len(want)%255)}, rapid.IntRange(1, 1<<18).Draw(t, "len"))
			part = part[:min(int64(len(part)), size-int64(len(want)))]
			if _, err := f.WriteAt(part, int64(len(want))); err != nil {
				t.Fatal(err)
			}
			want = append(want, part...)
			if err := f.Sync(); err != nil {
				t.Fatal(err)
			}
			if rapid.IntRange(0, 4).Draw(t, "reopen") == 0 {
				if err := f.Close(); err != nil {
					t.Fatal(err)
				}
				f = must(segmentFS{walfs.New()}.OpenWriter(dir, "s"))
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		got := must(os.ReadFile(filepath.Join(dir, "s")))
		if int64(len(got)) != size || !bytes.HasPrefix(got, want) || len(bytes.Trim(got[len(want):], "\x00")) > 0 {
			t.Fatalf("%d bytes of %d, %d written", len(got), size, len(want))
		}
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// BenchmarkStoreLog is one durable entry of 4 KiB, with raft-wal's own file system and with ours.
func BenchmarkStoreLog(b *testing.B) {
	for name, v := range map[string]types.VFS{"files=plain": walfs.New(), "files=zeroed": segmentFS{walfs.New()}} {
		b.Run(name, func(b *testing.B) {
			dir := b.TempDir()
			w, err := wal.Open(dir, wal.WithSegmentFiler(segment.NewFiler(dir, v)))
			if err != nil {
				b.Fatal(err)
			}
			defer w.Close()
			i := uint64(0)
			data := make([]byte, 4096)
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				i++
				if err := w.StoreLog(&raft.Log{Index: i, Term: 1, Data: data}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
