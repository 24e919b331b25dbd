package cluster

import "syscall"

// attributes have the kernel end a child with its test, however the test ends.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
