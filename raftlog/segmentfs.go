package raftlog

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	walfs "github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/types"
)

// zeroAhead is how far ahead of the log's end its file is filled with zeros.
const zeroAhead = 1 << 20

// segmentFS is raft-wal's file system, but for how its segments are written. The WAL preallocates
// a segment, and then each sync that first writes to a block must also record in the file system's
// journal that the block is in use, which doubles what a sync costs. So zeros are written a megabyte
// ahead, and data is synced without metadata (fdatasync) into blocks that are in use already. etcd's
// WAL zeroes its files for the same reason (wal/file_pipeline.go).
//
// Nothing changes in what a file reads as: what lies behind its end is zero either way.
type segmentFS struct{ *walfs.FS }

// Create implements types.VFS.
func (s segmentFS) Create(dir, name string, size uint64) (types.WritableFile, error) {
	f, err := s.FS.Create(dir, name, size)
	if err != nil {
		return nil, err
	}
	return newSegmentFile(f.(*walfs.File), int64(size), f.Sync), nil
}

// OpenWriter implements types.VFS.
func (s segmentFS) OpenWriter(dir, name string) (types.WritableFile, error) {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("segment %s: %w", name, err)
	}
	return newSegmentFile(f, st.Size(), f.Sync), nil
}

// osFile is the part of *os.File that a segment is written through.
type osFile interface {
	types.WritableFile
	Fd() uintptr
}

// segmentFile is one segment being written. The WAL writes from one goroutine.
type segmentFile struct {
	osFile
	size   int64 // as preallocated; never grown from here
	zeroed int64 // everything below was written once
	// first is the sync that a new file needs once: of its metadata and its directory.
	first  func() error
	synced atomic.Bool
}

func newSegmentFile(f osFile, size int64, first func() error) *segmentFile {
	return &segmentFile{osFile: f, size: size, first: first}
}

var zeros [zeroAhead]byte

// WriteAt implements io.WriterAt.
func (f *segmentFile) WriteAt(b []byte, off int64) (int, error) {
	end := off + int64(len(b))
	if end > f.zeroed && off >= f.zeroed-zeroAhead {
		if n := min(zeroAhead, f.size-end); n > 0 {
			if _, err := f.osFile.WriteAt(zeros[:n], end); err != nil {
				return 0, err
			}
			f.zeroed = end + n
		}
	}
	return f.osFile.WriteAt(b, off)
}

// Sync makes what was written durable.
func (f *segmentFile) Sync() error {
	if !f.synced.Load() {
		if err := f.first(); err != nil {
			return err
		}
		f.synced.Store(true)
		return nil
	}
	return datasync(f.osFile)
}
