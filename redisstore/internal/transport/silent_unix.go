//go:build unix

package transport

import "syscall"

// silent reports whether there is nothing to read from a socket. The end of the
// connection counts as something to read.
func silent(fd uintptr) bool {
	var b [1]byte
	_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return err == syscall.EAGAIN || err == syscall.EINTR
}
