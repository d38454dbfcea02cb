//go:build unix && !linux

package supervise

import "syscall"

// childAttr puts a child in a process group of its own, so that Ctrl-C in the terminal reaches the
// supervisor alone. This system cannot tie the child's life to the supervisor's.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
