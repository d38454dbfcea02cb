//go:build !linux

package main

import "os"

// dataSync makes a file durable; this system has no cheaper way to say so.
func dataSync(f *os.File) error { return f.Sync() }
