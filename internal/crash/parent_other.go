//go:build !linux

package crash

import "syscall"

// dieWithParent is Linux's alone: elsewhere a killed test process leaves its nodes behind.
func dieWithParent() *syscall.SysProcAttr { return nil }
