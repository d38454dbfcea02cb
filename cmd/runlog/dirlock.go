package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// dirLock keeps other processes from a directory of data. It is taken before any store is opened, so
// that a second process is told plainly and touches nothing.
type dirLock struct{ file *os.File }

// lockDir makes the directory where there is none, and locks it.
func lockDir(dir, owner string) (*dirLock, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	free, err := flock(f)
	if err == nil && !free {
		err = fmt.Errorf("%s is running on %s already", owner, dir)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &dirLock{f}, nil
}

// unlock gives the directory back. The file stays: to remove it could take another's lock away.
func (l *dirLock) unlock() error { return l.file.Close() }
