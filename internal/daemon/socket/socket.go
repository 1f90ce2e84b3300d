//go:build linux

package socket

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockagent/lockagent/internal/filelock"
	"github.com/lockagent/lockagent/internal/place"
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
	// Remade is called when somebody has removed the socket file: with nil when it is there again, and before that with
	// the first error. It may be nil.
	Remade func(error)
}

// backlog is how many clients may wait to be accepted. The system lowers it to its own bound.
const backlog = 4096

// Listen listens on a Unix socket. The error is [ErrTaken] if somebody else does. If somebody removes the socket file,
// there is another one a second later.
//
// Beside the socket is a file for the lock that keeps a second daemon away: the path with the ending ".lock". Close
// removes both files, see [Keep].
func Listen(cfg Config) (net.Listener, error) {
	l := &listener{cfg: cfg, ends: make(chan struct{}), watched: make(chan struct{})}
	err := l.listen()
	if err != nil {
		l.unlock()
		return nil, fmt.Errorf("socket: listen on %s: %w", cfg.Path, err)
	}
	go l.watch()
	return l, nil
}

// Keep has the end of a listener leave the socket file for the next daemon. Clients then know that there will be one.
func Keep(of net.Listener) {
	if l, ok := of.(*listener); ok {
		l.keeps.Store(true)
	}
}

// listener owns the files of its socket.
type listener struct {
	cfg   Config
	keeps atomic.Bool

	mu   sync.Mutex        // guards what follows
	now  *net.UnixListener // written by watch only
	made fs.FileInfo       // the socket file
	lock *os.File          // whoever has locked it may replace the socket; nil if this process has not

	close         sync.Once
	ends, watched chan struct{} // closed by Close, and by the end of watch
}

var _ net.Listener = (*listener)(nil)

// listen makes the files, in place of those of a daemon that has ended. The mutex must be held, if others know of the
// listener.
func (l *listener) listen() (err error) {
	path := l.cfg.Path
	if len(path) > place.MostSocketPath {
		return fmt.Errorf(
			"the path has %d bytes, and the system allows %d; choose a shorter one", len(path), place.MostSocketPath,
		)
	}
	if err := l.relock(); err != nil {
		return err
	}
	if err := vacant(path); err != nil {
		return err
	}
	// Nobody knows the socket by this name. It gets its own when it is ready, so there is one at any time.
	name := filepath.Join(filepath.Dir(path), "."+rand.Text()[:8])
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), path)
	defer func() { _ = file.Close() }() // the listener has a duplicate
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: name}); err != nil {
		return hint(err, path)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(name) // that it could not be used says more
		}
	}()
	if l.cfg.Group != 0 {
		if err := os.Chown(name, -1, l.cfg.Group); err != nil {
			return err
		}
	}
	mode := l.cfg.Mode
	if mode == 0 {
		mode = 0o600
	}
	if err := os.Chmod(name, mode); err != nil {
		return err
	}
	made, err := os.Lstat(name)
	if err != nil {
		return err
	}
	if err := unix.Listen(fd, backlog); err != nil {
		return err
	}
	listening, err := net.FileListener(file)
	if err != nil {
		return err
	}
	if err := os.Rename(name, path); err != nil {
		_ = listening.Close()
		return err
	}
	l.now, l.made = listening.(*net.UnixListener), made
	return nil
}

// relock takes the lock, unless this process has it.
func (l *listener) relock() (err error) {
	name := l.cfg.Path + ".lock"
	if l.lock != nil {
		locked, err1 := l.lock.Stat()
		present, err2 := os.Lstat(name)
		if err1 == nil && err2 == nil && os.SameFile(locked, present) {
			return nil
		}
		_ = filelock.Close(l.lock)
	}
	l.lock, err = lockFile(name)
	return err
}

// Accept implements [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
	for {
		l.mu.Lock()
		now := l.now
		l.mu.Unlock()
		conn, err := now.Accept()
		if err == nil {
			return conn, nil
		}
		l.mu.Lock()
		remade := l.now != now
		l.mu.Unlock()
		if !remade {
			return nil, err
		}
	}
}

// Addr implements [net.Listener].
func (l *listener) Addr() net.Addr { return &net.UnixAddr{Name: l.cfg.Path, Net: "unix"} }

// lookEvery is between two looks whether the socket file is there.
const lookEvery = time.Second

// watch makes the socket again when its file is gone.
func (l *listener) watch() {
	defer close(l.watched)
	looks := time.NewTicker(lookEvery)
	defer looks.Stop()
	for failed := false; ; {
		select {
		case <-looks.C:
		case <-l.ends:
			return
		}
		if _, err := os.Lstat(l.cfg.Path); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		err := l.remake()
		if tell := l.cfg.Remade; tell != nil && (err == nil || !failed) {
			tell(err)
		}
		failed = err != nil
	}
}

// remake listens anew.
func (l *listener) remake() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.now
	if err := l.listen(); err != nil {
		return err
	}
	return before.Close() // which ends the wait of Accept
}

// hint adds what to do about a path that cannot be bound.
func hint(err error, path string) error {
	if errors.Is(err, fs.ErrNotExist) {
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

// vacant returns an error unless there is nothing at a path, or a socket on which nobody listens.
func vacant(path string) error {
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
		return nil
	case errors.Is(err, fs.ErrPermission):
		return err
	}
	return fmt.Errorf("%w: somebody listens there already; stop that program first, or use another socket", ErrTaken)
}

// Close implements [net.Listener]. It removes the files of the socket, unless somebody else has put another socket
// there.
func (l *listener) Close() (err error) {
	l.close.Do(func() {
		close(l.ends)
		<-l.watched // so nobody else writes the fields
		if present, failed := os.Lstat(l.cfg.Path); failed == nil && os.SameFile(present, l.made) && !l.keeps.Load() {
			err = os.Remove(l.cfg.Path)
		}
		err = errors.Join(err, l.now.Close())
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
