//go:build linux

package socket

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"

	"github.com/lockagent/lockagent/internal/daemon/quota"
)

// listenBounded listens on a network with a quota of two connections for each user. It returns what connects, with
// the connection as it was accepted, or nil if it was refused.
func listenBounded(
	t *testing.T, under net.Listener, user func(net.Conn) (uint32, error),
) (dial func() (accepted net.Conn)) {
	t.Helper()
	refused := make(chan uint32, 1)
	quotas := quota.New(quota.Config{
		Bound: func(quota.Kind) quota.Bound { return quota.Bound{Each: 2} }, Privileged: func(uint32) bool { return false },
	})
	l := Bound(under, user, func(uid uint32) (leave func(), err error) {
		if err := quotas.Take(uid, quota.Connections); err != nil {
			refused <- uid
			return nil, err
		}
		return sync.OnceFunc(func() { quotas.Leave(uid, quota.Connections) }), nil
	})
	accepted := make(chan net.Conn)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		<-ended
	})
	return func() net.Conn {
		t.Helper()
		client, err := net.Dial(l.Addr().Network(), l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() })
		select {
		case conn := <-accepted:
			t.Cleanup(func() { _ = conn.Close() })
			return conn
		case uid := <-refused:
			if n, err := client.Read(make([]byte, 1)); err == nil {
				t.Errorf("a refused client of user %d reads %d bytes", uid, n)
			}
			return nil
		}
	}
}

func listenUnix(t *testing.T) net.Listener {
	t.Helper()
	l, err := Listen(Config{Path: somewhere(t)})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestConnectionsAreBounded(t *testing.T) {
	dial := listenBounded(t, listenUnix(t), User)
	first := dial()
	if dial() == nil || dial() != nil || dial() != nil {
		t.Error("a user has not two connections")
	}
	_ = first.Close()
	_ = first.Close()
	if dial() == nil {
		t.Error("a connection that is closed keeps its place")
	}
	if dial() != nil {
		t.Error("a connection that is closed twice leaves two places")
	}
}

// Who has made a connection is asked for each, before it says anything. All who are not known are one.
func TestConnectionsAreThoseOfTheirUsers(t *testing.T) {
	under, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stranger := errors.New("a stranger")
	type client struct {
		uid     uint32
		unknown error
	}
	connects := make(chan client, 1)
	dial := listenBounded(t, under, func(net.Conn) (uint32, error) {
		who := <-connects
		return who.uid, who.unknown
	})
	for _, who := range []client{{1000, nil}, {0, stranger}, {0, nil}} {
		for range 2 {
			connects <- who
			conn := dial()
			if conn == nil {
				t.Fatalf("%v is refused", who)
			}
			if got, err := UserOf(conn); !errors.Is(err, who.unknown) || err == nil && got != who.uid {
				t.Errorf("%v is %d, %v", who, got, err)
			}
		}
		connects <- who
		if dial() != nil {
			t.Errorf("%v has one too many", who)
		}
	}
	if _, err := UserOf(&net.TCPConn{}); err == nil {
		t.Error("a connection that nobody has counted has a user")
	}
}

// The server of net/http closes one half of a connection first, so that its last words arrive.
func TestHalfOfABoundedConnectionCloses(t *testing.T) {
	conn := listenBounded(t, listenUnix(t), User)()
	if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Error(err)
	}
	if _, err := conn.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("a half that is closed writes: %v", err)
	}
}

func TestABoundedConnectionHasItsPeer(t *testing.T) {
	dial := listenBounded(t, listenUnix(t), User)
	conn := dial()
	p, ok := FromContext(ConnContext(context.Background(), conn))
	if !ok || p.PID != os.Getpid() || p.UID != uint32(os.Geteuid()) {
		t.Errorf("it is %+v, %v", p, ok)
	}
	if uid, err := UserOf(conn); uid != uint32(os.Geteuid()) || err != nil {
		t.Errorf("it is of user %d, %v", uid, err)
	}
}

func TestRoomForConnections(t *testing.T) {
	for descriptors, want := range map[uint64][2]int{
		100:        {50, 25},
		1024:       {768, 128},
		1 << 20:    {1<<20 - 1<<17, 1 << 16},
		^uint64(0): {1<<31 - 1 - (1<<31-1)/8, (1<<31 - 1) / 16},
	} {
		connections, processes := roomOf(descriptors)
		if got := [2]int{connections, processes}; got != want {
			t.Errorf("%d descriptors have room for %d, want %d", descriptors, got, want)
		}
	}
	if connections, processes, err := Room(); connections <= 0 || processes <= 0 || err != nil {
		t.Errorf("%d, %d, %v", connections, processes, err)
	}
}
