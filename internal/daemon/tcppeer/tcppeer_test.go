//go:build linux

package tcppeer

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/lockagent/lockagent/internal/machinetest"
)

// dialEnv has the test binary dial an address, say so, and wait for its end.
const dialEnv = "TCPPEER_TEST_DIAL"

func TestMain(m *testing.M) {
	if to := os.Getenv(dialEnv); to != "" {
		conn, err := net.Dial("tcp", to)
		if err == nil {
			_, _ = conn.Read(make([]byte, 1))
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func listen(t *testing.T, address string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		machinetest.Needs(t, err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// pair is a connection within this process.
func pair(t *testing.T, l net.Listener, to string) (client, accepted net.Conn) {
	t.Helper()
	client, err := net.Dial("tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	accepted, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = client.Close(), accepted.Close() })
	return client, accepted
}

func TestUser(t *testing.T) {
	for name, address := range map[string]string{"IPv4": "127.0.0.1:0", "IPv6": "[::1]:0"} {
		t.Run(name, func(t *testing.T) {
			l := listen(t, address)
			_, accepted := pair(t, l, l.Addr().String())
			if uid, err := User(accepted); err != nil || uid != uint32(os.Geteuid()) {
				t.Errorf("got %d, %v", uid, err)
			}
		})
	}
	t.Run("IPv4 on a listener for both", func(t *testing.T) {
		l := listen(t, "[::]:0")
		_, port, _ := net.SplitHostPort(l.Addr().String())
		_, accepted := pair(t, l, "127.0.0.1:"+port)
		if uid, err := User(accepted); err != nil || uid != uint32(os.Geteuid()) {
			t.Errorf("got %d, %v", uid, err)
		}
	})
}

func TestUserIsThatOfTheOtherProcess(t *testing.T) {
	machinetest.NeedsRoot(t) // who starts a process of another user
	const other = 12345
	l := listen(t, "127.0.0.1:0")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(self) // the other user may not come to where it is
	if err != nil {
		t.Fatal(err)
	}
	copied, err := os.CreateTemp("", "tcppeer")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(copied.Name()) })
	if _, err := copied.Write(program); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(copied.Chmod(0o755), copied.Close()); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(copied.Name())
	cmd.Dir, cmd.Env = "/", []string{dialEnv + "=" + l.Addr().String()}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: other, Gid: other}}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if uid, err := User(accepted); err != nil || uid != other {
		t.Errorf("got %d, %v", uid, err)
	}
	_ = accepted.Close()
	_ = cmd.Wait()
}

// A user may bind a socket to the loopback device. The connection is the user's all the same.
func TestUserOfASocketThatIsBoundToTheLoopbackDevice(t *testing.T) {
	bound := net.Dialer{Control: func(_, _ string, c syscall.RawConn) (err error) {
		return errors.Join(c.Control(func(fd uintptr) {
			err = unix.BindToDevice(int(fd), "lo")
		}), err)
	}}
	for name, address := range map[string]string{"IPv4": "127.0.0.1:0", "IPv6": "[::1]:0"} {
		t.Run(name, func(t *testing.T) {
			l := listen(t, address)
			client, err := bound.Dial("tcp", l.Addr().String())
			if errors.Is(err, unix.EPERM) { // of a kernel before 5.7, unless the user is root
				machinetest.Needs(t, err)
			}
			if err != nil {
				t.Fatal(err)
			}
			accepted, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _, _ = client.Close(), accepted.Close() })
			if uid, err := User(accepted); err != nil || uid != uint32(os.Geteuid()) {
				t.Errorf("got %d, %v", uid, err)
			}
		})
	}
}

// A socket that nobody has any more is root's, says the kernel.
func TestClientThatHasLeftIsNobody(t *testing.T) {
	l := listen(t, "127.0.0.1:0")
	client, accepted := pair(t, l, l.Addr().String())
	_ = client.Close()
	if uid, err := User(accepted); !errors.Is(err, ErrUnknown) {
		t.Errorf("got %d, %v", uid, err)
	}
	if uid, err := User(&net.UnixConn{}); !errors.Is(err, ErrUnknown) {
		t.Errorf("of another network: %d, %v", uid, err)
	}
}

// The same two addresses may belong to the next connection.
func TestOtherConnectionOfTheSameAddresses(t *testing.T) {
	l := listen(t, "127.0.0.1:0")
	_, accepted := pair(t, l, l.Addr().String())
	remote, local, inode, err := ends(accepted)
	if err != nil {
		t.Fatal(err)
	}
	k, err := openKernel()
	if err != nil {
		t.Fatal(err)
	}
	defer k.close()
	if _, err := k.find(remote, local, inode); err != nil {
		t.Error(err)
	}
	if _, err := k.find(remote, local, inode+1); !errors.Is(err, ErrUnknown) {
		t.Errorf("a socket that is not ours has a peer: %v", err)
	}
}

// The kernel also tells of sockets that listen at the address that was asked for, or have ended.
func TestOnlyEstablishedSocketsHaveUsers(t *testing.T) {
	from, to := netip.MustParseAddrPort("127.0.0.1:8080"), netip.MustParseAddrPort("127.0.0.1:54321")
	good := answer{Family: syscall.AF_INET, State: established, ID: idOf(from, to), UID: 1000, Inode: 77}
	changed := func(change func(*answer)) []byte {
		a := good
		change(&a)
		return message(t, unix.SOCK_DIAG_BY_FAMILY, &a)
	}
	for name, c := range map[string]struct {
		said []byte
		good bool
	}{
		"established":    {changed(func(*answer) {}), true},
		"listens":        {changed(func(a *answer) { a.State = 10 }), false},
		"has ended":      {changed(func(a *answer) { a.State = 6 }), false},
		"another port":   {changed(func(a *answer) { a.ID = idOf(from, netip.MustParseAddrPort("127.0.0.1:1")) }), false},
		"no such socket": {message(t, syscall.NLMSG_ERROR, &struct{ Error int32 }{-int32(syscall.ENOENT)}), false},
		"cut":            {message(t, unix.SOCK_DIAG_BY_FAMILY, &good)[:40], false},
		"nothing":        {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := read(c.said, idOf(from, to))
			if c.good && (err != nil || e != entry{1000, 77}) || !c.good && !errors.Is(err, ErrUnknown) {
				t.Errorf("%+v, %v", e, err)
			}
		})
	}
}

func message(t *testing.T, kind uint16, body any) []byte {
	t.Helper()
	said, err := binary.Append(nil, binary.NativeEndian, &unix.NlMsghdr{Type: kind})
	if err == nil {
		said, err = binary.Append(said, binary.NativeEndian, body)
	}
	if err != nil {
		t.Fatal(err)
	}
	return said
}

// A listener is at the address of a connection that there is not.
func TestAListenerIsNoUser(t *testing.T) {
	l := listen(t, "127.0.0.1:0")
	k, err := openKernel()
	if err != nil {
		t.Fatal(err)
	}
	defer k.close()
	if e, err := k.lookUp(
		l.Addr().(*net.TCPAddr).AddrPort(), netip.MustParseAddrPort("127.0.0.1:1"),
	); !errors.Is(err, ErrUnknown) {
		t.Errorf("%+v, %v", e, err)
	}
}

func BenchmarkUser(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	accepted, err := l.Accept()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := User(accepted); err != nil {
			b.Fatal(err)
		}
	}
	_, _, _ = client.Close(), accepted.Close(), l.Close()
}
