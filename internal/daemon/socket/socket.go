//go:build linux

package socket

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockagent/lockagent/internal/filelock"
)

// ErrTaken matches the error of [Listen] if somebody else listens on the socket.
var ErrTaken = errors.New("socket: in use")

// Config says where to listen, and who may connect.
type Config struct {
	// Path of the socket. Its directory must exist.
	Path string
	// Mode of the socket file. Whoever may write it may connect. Defaults to 0600.
	Mode fs.FileMode
	// Group is the group of the socket file, or 0 for that of the process.
	Group int
}

// backlog is how many clients may wait to be accepted. The system lowers it to its own bound.
const backlog = 4096

// Listen listens on a Unix socket. The error is [ErrTaken] if somebody else does.
//
// Beside the socket is a file for the lock that keeps a second daemon away: the path with the ending ".lock". Close
// removes both files.
func Listen(cfg Config) (net.Listener, error) {
	l := &listener{path: cfg.Path}
	err := l.listen(cfg)
	if err != nil {
		l.unlock()
		return nil, fmt.Errorf("socket: listen on %s: %w", cfg.Path, err)
	}
	return l, nil
}

// listener owns the files of its socket.
type listener struct {
	*net.UnixListener
	path string
	lock *os.File    // whoever has locked it may replace the socket; nil if this process has not
	made fs.FileInfo // the socket file

	close sync.Once
}

func (l *listener) listen(cfg Config) (err error) {
	if l.lock, err = lockFile(cfg.Path + ".lock"); err != nil {
		return err
	}
	if err := removeStale(cfg.Path); err != nil {
		return err
	}
	// Nobody can connect to a socket that is bound and does not listen yet. So there is time to set its mode.
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), cfg.Path)
	defer func() { _ = file.Close() }() // the listener has a duplicate
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: cfg.Path}); err != nil {
		return hint(err, cfg.Path)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(cfg.Path) // that it could not be used says more
		}
	}()
	if cfg.Group != 0 {
		if err := os.Chown(cfg.Path, -1, cfg.Group); err != nil {
			return err
		}
	}
	mode := cfg.Mode
	if mode == 0 {
		mode = 0o600
	}
	if err := os.Chmod(cfg.Path, mode); err != nil {
		return err
	}
	if l.made, err = os.Lstat(cfg.Path); err != nil {
		return err
	}
	if err := unix.Listen(fd, backlog); err != nil {
		return err
	}
	made, err := net.FileListener(file)
	if err != nil {
		return err
	}
	l.UnixListener = made.(*net.UnixListener)
	return nil
}

// hint adds what to do about a path that cannot be bound.
func hint(err error, path string) error {
	switch {
	case errors.Is(err, unix.EINVAL) && len(path) > 100:
		return fmt.Errorf("%w: the path has %d bytes, and the system allows about 107; choose a shorter one", err, len(path))
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: make the directory %s", err, filepath.Dir(path))
	}
	return err
}

// lockFile opens the file and locks it. The file that is locked may have been removed meanwhile, by the daemon that had
// it locked. Then another file is at the path, or none, and that one counts.
func lockFile(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, hint(err, path)
		}
		if err := filelock.Lock(f); err != nil {
			_ = f.Close()
			if errors.Is(err, filelock.ErrLocked) {
				return nil, fmt.Errorf("%w: another daemon runs there; stop it first, or use another socket", ErrTaken)
			}
			return nil, err
		}
		opened, err1 := f.Stat()
		present, err2 := os.Lstat(path)
		if err1 == nil && err2 == nil && os.SameFile(opened, present) {
			return f, nil
		}
		_ = filelock.Close(f)
		if err1 != nil {
			return nil, err1
		}
	}
}

// dialTime is longer than a connection to a Unix socket takes, which does not wait for the other side.
const dialTime = time.Second

// removeStale removes a socket file on which nobody listens.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return errors.New("something that is no socket is in its place; remove it, or use another path")
	}
	conn, err := net.DialTimeout("unix", path, dialTime)
	switch {
	case err == nil:
		_ = conn.Close()
	case errors.Is(err, unix.ECONNREFUSED):
		return os.Remove(path)
	case errors.Is(err, fs.ErrPermission):
		return err
	}
	return fmt.Errorf("%w: somebody listens there already; stop that program first, or use another socket", ErrTaken)
}

// Close implements [net.Listener]. It removes the files of the socket, unless somebody else has put another socket
// there.
func (l *listener) Close() (err error) {
	l.close.Do(func() {
		if present, failed := os.Lstat(l.path); failed == nil && os.SameFile(present, l.made) {
			err = os.Remove(l.path)
		}
		err = errors.Join(err, l.UnixListener.Close())
		l.unlock()
	})
	return err
}

// unlock removes the lock file before it unlocks it: see lockFile.
func (l *listener) unlock() {
	if l.lock != nil {
		_ = os.Remove(l.lock.Name()) // an empty file that stays does no harm
		_ = filelock.Close(l.lock)
		l.lock = nil
	}
}
