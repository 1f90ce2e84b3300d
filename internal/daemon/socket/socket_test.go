//go:build linux

package socket

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/lockagent/lockagent/internal/machinetest"
)

func TestMain(m *testing.M) {
	if os.Getenv("SOCKET_TEST_ACTIVATED") != "" {
		os.Exit(beActivated())
	}
	goleak.VerifyTestMain(m)
}

// somewhere is a path for a socket. Paths of sockets must be short.
func somewhere(t *testing.T) string {
	dir, err := os.MkdirTemp("", "sock")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "agent.sock")
}

// listen listens until the test ends. It answers each connection with a byte.
func listen(t *testing.T, cfg Config) net.Listener {
	t.Helper()
	l, err := Listen(cfg)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, l)
	return l
}

func serve(t *testing.T, l net.Listener) {
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("!"))
			_ = c.Close()
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		serving.Wait()
	})
}

// answers checks that somebody serves the socket.
func answers(t *testing.T, path string) {
	t.Helper()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if got, err := io.ReadAll(c); string(got) != "!" {
		t.Fatalf("the socket answers %q, %v", got, err)
	}
}

func missing(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, and it should not exist", path, err)
		}
	}
}

func TestASecondDaemonIsRefusedAndTheFirstUnharmed(t *testing.T) {
	path := somewhere(t)
	first := listen(t, Config{Path: path})
	for range 3 {
		if l, err := Listen(Config{Path: path}); !errors.Is(err, ErrTaken) || !strings.Contains(err.Error(), path) {
			t.Fatalf("the second daemon got %v, %v", l, err)
		}
		answers(t, path)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	missing(t, path, path+".lock")
	listen(t, Config{Path: path})
	answers(t, path)
}

func TestSocketThatADeadDaemonLeftIsReplaced(t *testing.T) {
	path := somewhere(t)
	dead, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	dead.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = dead.Close()
	if err := os.WriteFile(path+".lock", nil, 0o600); err != nil { // which it left, too
		t.Fatal(err)
	}
	listen(t, Config{Path: path})
	answers(t, path)
}

// A program that knows nothing of the lock file, such as systemd, keeps its socket as well.
func TestSocketOfAnotherProgramIsLeftAlone(t *testing.T) {
	path := somewhere(t)
	other, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, other)
	if _, err := Listen(Config{Path: path}); !errors.Is(err, ErrTaken) {
		t.Errorf("got %v", err)
	}
	answers(t, path)
	missing(t, path+".lock")
}

func TestWhatIsNoSocketIsLeftAlone(t *testing.T) {
	path := somewhere(t)
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(Config{Path: path}); err == nil || !strings.Contains(err.Error(), "no socket") {
		t.Errorf("got %v", err)
	}
	if got, _ := os.ReadFile(path); string(got) != "precious" {
		t.Errorf("the file has %q", got)
	}
}

func TestCloseLeavesASocketThatIsNotItsOwn(t *testing.T) {
	path := somewhere(t)
	l := listen(t, Config{Path: path})
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	other, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, other)
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	answers(t, path)
}

// A socket that is kept is there until the next daemon has its own in its place: at no time is there none.
func TestTheNextDaemonReplacesASocketThatIsKept(t *testing.T) {
	path := somewhere(t)
	first := listen(t, Config{Path: path})
	Keep(first)
	stop, missed := make(chan struct{}), make(chan int)
	go func() {
		for n := 0; ; {
			select {
			case <-stop:
				missed <- n
				return
			default:
			}
			if _, err := os.Lstat(path); err != nil {
				n++
			}
		}
	}()
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	missing(t, path+".lock")
	if _, err := net.Dial("unix", path); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("a client gets %v", err)
	}
	for range 50 {
		l := listen(t, Config{Path: path})
		answers(t, path)
		Keep(l)
		_ = l.Close()
	}
	close(stop)
	if n := <-missed; n > 0 {
		t.Errorf("there was no socket at %d looks", n)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("left is %v, %v", left, err)
	}
}

// A socket whose file was removed is made again, with its lock, and its mode.
func TestASocketThatWasRemovedIsMadeAgain(t *testing.T) {
	path := somewhere(t)
	told := make(chan error)
	listen(t, Config{Path: path, Mode: 0o620, Remade: func(err error) { told <- err }})
	for _, remove := range []func(){
		func() { _ = os.Remove(path) },
		func() { _ = os.Remove(path); _ = os.Remove(path + ".lock") },
	} {
		before, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		remove()
		if err := <-told; err != nil {
			t.Fatal(err)
		}
		answers(t, path)
		if got, err := io.ReadAll(before); string(got) != "!" {
			t.Errorf("a connection of before has %q, %v", got, err)
		}
		_ = before.Close()
		if info, err := os.Lstat(path); err != nil || info.Mode().Perm() != 0o620 {
			t.Errorf("%v, %v", info, err)
		}
		if _, err := Listen(Config{Path: path}); !errors.Is(err, ErrTaken) {
			t.Errorf("a second daemon got %v", err)
		}
	}
	// Without its directory it cannot be made.
	if err := os.RemoveAll(filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
	if err := <-told; !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it was told %v", err)
	}
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := <-told; err != nil {
		t.Error(err)
	}
	answers(t, path)
}

// Another program has put its socket there meanwhile.
func TestASocketThatWasReplacedIsLeftAlone(t *testing.T) {
	path := somewhere(t)
	told := make(chan error, 1)
	l, err := Listen(Config{Path: path, Remade: func(err error) { told <- err }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if err := os.Remove(path + ".lock"); err != nil {
		t.Fatal(err)
	}
	lock, err := lockFile(path + ".lock") // as another daemon that is about to listen
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Close() }()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := <-told; !errors.Is(err, ErrTaken) {
		t.Errorf("it was told %v", err)
	}
	missing(t, path)
}

func TestBadPathsSayWhatToDo(t *testing.T) {
	for path, want := range map[string]string{
		filepath.Join(t.TempDir(), "missing", "agent.sock"): "make the directory",
		filepath.Join("/tmp", strings.Repeat("x", 120)):     "shorter",
	} {
		if _, err := Listen(Config{Path: path}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
		missing(t, path, path+".lock")
	}
}

func TestManyDaemonsAtOnceOverAStaleSocket(t *testing.T) {
	path := somewhere(t)
	for range 20 {
		var starting sync.WaitGroup
		var mu sync.Mutex
		var won []net.Listener
		for range 8 {
			starting.Go(func() {
				l, err := Listen(Config{Path: path})
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					won = append(won, l)
				case !errors.Is(err, ErrTaken):
					t.Error(err)
				}
			})
		}
		starting.Wait()
		if len(won) != 1 {
			t.Fatalf("%d daemons listen", len(won))
		}
		// It dies: its files stay, and its lock is gone.
		dead := won[0].(*listener)
		Keep(dead)
		lock := path + ".lock"
		if err := os.Link(lock, lock+"2"); err != nil {
			t.Fatal(err)
		}
		_ = dead.Close()
		if err := os.Rename(lock+"2", lock); err != nil {
			t.Fatal(err)
		}
	}
}

// A lock file goes with its daemon. Another daemon may have opened it just before.
func TestLockFilesThatComeAndGo(t *testing.T) {
	path := somewhere(t) + ".lock"
	var locked atomic.Int32
	var daemons sync.WaitGroup
	for range 8 {
		daemons.Go(func() {
			for range 2000 {
				f, err := lockFile(path)
				if err != nil {
					continue
				}
				if n := locked.Add(1); n != 1 {
					t.Errorf("%d daemons have the lock", n)
				}
				runtime.Gosched()
				locked.Add(-1)
				(&listener{lock: f}).unlock()
			}
		})
	}
	daemons.Wait()
	missing(t, path)
}

// Whoever can connect finds the mode in place, also in the first instant.
func TestModeIsSetBeforeAnybodyCanConnect(t *testing.T) {
	defer unix.Umask(unix.Umask(0))
	for range 200 {
		path := somewhere(t)
		seen := make(chan fs.FileMode)
		go func() {
			for {
				c, err := net.Dial("unix", path)
				if err != nil {
					continue
				}
				info, _ := os.Lstat(path)
				_ = c.Close()
				seen <- info.Mode()
				return
			}
		}()
		l, err := Listen(Config{Path: path, Mode: 0o620})
		if err != nil {
			t.Fatal(err)
		}
		if mode := <-seen; mode.Perm() != 0o620 {
			t.Errorf("somebody connected when the mode was %v", mode)
		}
		_ = l.Close()
	}
}

func TestGroup(t *testing.T) {
	machinetest.NeedsRoot(t) // who gives a file to any group
	path := somewhere(t)
	listen(t, Config{Path: path, Mode: 0o660, Group: 4242})
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil || st.Gid != 4242 || st.Mode&0o777 != 0o660 {
		t.Errorf("%v: group %d, mode %o", err, st.Gid, st.Mode)
	}
}

func TestPeer(t *testing.T) {
	path := somewhere(t)
	l, err := Listen(Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	p, ok := FromContext(ConnContext(context.Background(), s))
	program, started, err := Process(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	groups, err := os.Getgroups()
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range append(groups, os.Getgid()) {
		if !slices.Contains(p.Groups, uint32(g)) {
			t.Errorf("the groups are %v, and %d is not among them", p.Groups, g)
		}
	}
	p.Groups = nil
	want := Peer{PID: os.Getpid(), UID: uint32(os.Getuid()), GID: uint32(os.Getgid()), Program: program, Started: started}
	if !ok || !reflect.DeepEqual(p, want) {
		t.Errorf("the peer is %+v, want %+v", p, want)
	}
	if !strings.HasPrefix(filepath.Base(os.Args[0]), program) || started == 0 {
		t.Errorf("this process is %q, started at %d", program, started)
	}
	if _, ok := FromContext(context.Background()); ok {
		t.Error("a context without a connection has a peer")
	}
}

func TestProcessWithAStrangeName(t *testing.T) {
	program := filepath.Join(t.TempDir(), "a) b (c")
	if err := os.Symlink("/bin/cat", program); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	name, started, err := Process(cmd.Process.Pid)
	_ = in.Close()
	_ = cmd.Wait()
	if name != "a) b (c" || started == 0 || err != nil {
		t.Errorf("%q, %d, %v", name, started, err)
	}
	if _, _, err := Process(cmd.Process.Pid); err == nil {
		t.Error("a process that has ended has a name")
	}
}
