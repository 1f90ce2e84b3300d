// Package filelock keeps a second process away from a file or a directory, with flock(2). The system gives the lock
// back when the process dies.
package filelock

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// ErrLocked says that the file is locked by another process, or by another open file of this one.
var ErrLocked = errors.New("another process has locked it")

// Lock locks an open file and does not wait. It returns ErrLocked, or an error of the system.
func Lock(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}

// Close unlocks the file and closes it.
//
// To close it is not enough. A child process that another goroutine is starting has a copy of each descriptor until it
// executes its program, and the file would be locked until then.
func Close(f *os.File) error {
	return errors.Join(unix.Flock(int(f.Fd()), unix.LOCK_UN), f.Close())
}
