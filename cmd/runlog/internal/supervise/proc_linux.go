package supervise

import "syscall"

// childAttr puts a child in a process group of its own, so that Ctrl-C in the terminal reaches the
// supervisor alone, and has the kernel kill it when the supervisor dies.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
