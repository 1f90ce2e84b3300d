package redisserver

import "syscall"

// dieWithParent has a server end even if the test binary is killed before it
// could clean up.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
