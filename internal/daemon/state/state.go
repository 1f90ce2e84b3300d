//go:build linux

// Package state keeps the directory of a daemon: its journal, and its event log. Only one daemon at a time has it.
package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/lockagent/lockagent/internal/filelock"
)

// The files in the directory.
const (
	lockName    = "LOCK"
	journalName = "journal"
	eventsName  = "events"
	seenName    = "events.seen"
)

// InUseError says that another daemon has the directory.
type InUseError struct {
	Path string
	PID  int // of the other daemon, or 0 if it does not tell
}

func (e *InUseError) Error() string {
	who := "another daemon"
	if e.PID != 0 {
		who += fmt.Sprintf(", process %d,", e.PID)
	}
	return fmt.Sprintf("state: %s has %s; stop it first, or give this one another directory", who, e.Path)
}

// Error says why a directory cannot be used.
type Error struct {
	Path string
	Err  error // why, and what to do about it
}

func (e *Error) Error() string { return fmt.Sprintf("state: %s cannot be used: %v", e.Path, e.Err) }
func (e *Error) Unwrap() error { return e.Err }

// Dir is the state directory of a daemon. Make one with [Open].
type Dir struct {
	path string
	lock *os.File
}

// Open makes the directory if it is missing, and takes it until Close or the end of the process. The error is an
// [*InUseError] or an [*Error].
func Open(path string) (*Dir, error) {
	lock, err := open(path)
	if inUse, ok := errors.AsType[*InUseError](err); ok {
		return nil, inUse
	}
	if err != nil {
		return nil, &Error{path, hint(path, err)}
	}
	return &Dir{path, lock}, nil
}

func open(path string) (_ *os.File, err error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	if err := check(path); err != nil {
		return nil, err
	}
	name := filepath.Join(path, lockName)
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if errors.Is(err, unix.EROFS) {
		f, err = os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	}
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = filelock.Close(f) // which has nothing in it
		}
	}()
	if err := filelock.Lock(f); errors.Is(err, filelock.ErrLocked) {
		text, _ := io.ReadAll(io.LimitReader(f, 32)) // it is only for the error
		pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
		return nil, &InUseError{path, pid}
	} else if err != nil {
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	// The file has the number of the process. So a disk that is full, or broken, shows now and not later. A daemon that
	// finds a journal goes on with what is held all the same.
	if err := writeNumber(f); err != nil {
		if _, missing := os.Lstat(filepath.Join(path, journalName)); missing != nil {
			return nil, err
		}
	}
	return f, nil
}

func writeNumber(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	if _, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0); err != nil {
		return err
	}
	return f.Sync()
}

// check refuses a directory into which another user could put a journal.
func check(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	owner := info.Sys().(*syscall.Stat_t).Uid
	switch {
	case !info.IsDir():
		return errors.New("it is no directory; name another path")
	case int(owner) != os.Geteuid():
		return fmt.Errorf(
			"it belongs to user %d, and this daemon is user %d; have it belong to that user, or name another directory", owner,
			os.Geteuid(),
		)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("its mode %04o lets others write in it; run: chmod 700 %s", info.Mode().Perm(), path)
	}
	return nil
}

// hint adds what to do about an error of the system.
func hint(path string, err error) error {
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return fmt.Errorf("%w; make room there, or name a directory on another disk", err)
	case errors.Is(err, unix.EROFS), errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w; let user %d write in %s, or name another directory", err, os.Geteuid(), path)
	case errors.Is(err, unix.ENOTDIR):
		return fmt.Errorf("%w; name another path", err)
	}
	return err
}

// LockFile is the file that a daemon has locked whose state is in a directory.
func LockFile(dir string) string { return filepath.Join(dir, lockName) }

// Path is the path of the directory.
func (d *Dir) Path() string { return d.path }

// Journal is the path of the journal.
func (d *Dir) Journal() string { return filepath.Join(d.path, journalName) }

// Events is the directory of the event log.
func (d *Dir) Events() string { return filepath.Join(d.path, eventsName) }

// Close lets another daemon have the directory. The file of the lock stays: without it, two daemons could lock two
// files of one name.
func (d *Dir) Close() error { return filelock.Close(d.lock) }

// replace puts a new file in place of the old one.
func replace(name string, with any) (err error) {
	text, err := json.Marshal(with)
	if err != nil {
		return err
	}
	temporary := name + ".new"
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(temporary, name)
	}
	return err
}
