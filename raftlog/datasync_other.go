//go:build !linux

package raftlog

// datasync is a whole sync where the system has no call for data alone.
func datasync(f osFile) error { return f.Sync() }
