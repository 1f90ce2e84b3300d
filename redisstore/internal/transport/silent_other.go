//go:build !unix

package transport

// silent cannot tell on this system. So the first exchange on a lost connection fails.
func silent(uintptr) bool { return true }
