package main

import (
	"os"
	"syscall"
)

// dataSync makes a file's data durable, its timestamps not.
func dataSync(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }
