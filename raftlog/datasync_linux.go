package raftlog

import (
	"errors"
	"fmt"
	"syscall"
)

// datasync makes a file's data durable, and of its metadata what is needed to read it.
func datasync(f osFile) error {
	for {
		err := syscall.Fdatasync(int(f.Fd()))
		if !errors.Is(err, syscall.EINTR) {
			if err != nil {
				return fmt.Errorf("fdatasync: %w", err)
			}
			return nil
		}
	}
}
