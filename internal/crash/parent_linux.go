package crash

import "syscall"

// dieWithParent makes a node go when the test process is killed.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
