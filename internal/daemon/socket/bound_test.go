//go:build linux

package socket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"testing"
)

// listenBounded listens with bounds. It returns what connects, with the connection as it was accepted, or nil, and what was told of refusals.
func listenBounded(t *testing.T, b Bounds) (dial func() (accepted net.Conn), told func() []string) {
	t.Helper()
	path := somewhere(t)
	under, err := Listen(Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	var tells []string
	refused := make(chan struct{}, 100)
	b.Refused = func(uid uint32, all bool, bound int) {
		tells = append(tells, fmt.Sprint(uid == uint32(os.Geteuid()), all, bound))
		refused <- struct{}{}
	}
	l := Bound(under, b)
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
	dial = func() net.Conn {
		t.Helper()
		client, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() })
		select {
		case conn := <-accepted:
			t.Cleanup(func() { _ = conn.Close() })
			return conn
		case <-refused:
			if _, err := client.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Errorf("a refused client reads %v", err)
			}
			return nil
		}
	}
	return dial, func() []string { return tells }
}

func TestConnectionsAreBounded(t *testing.T) {
	for name, c := range map[string]struct {
		bounds Bounds
		most   int
		told   string
	}{
		"of a user":                             {Bounds{Each: func() int { return 2 }, All: 9, Reserve: 3, Privileged: func(uint32) bool { return false }}, 2, "true false 2"},
		"of all users":                          {Bounds{Each: func() int { return 9 }, All: 2, Reserve: 3, Privileged: func(uint32) bool { return false }}, 2, "true true 2"},
		"of those who look after it":            {Bounds{Each: func() int { return 2 }, All: 9, Reserve: 3, Privileged: func(uint32) bool { return true }}, 5, "true false 5"},
		"of them, when others have all of them": {Bounds{Each: func() int { return 0 }, All: 2, Reserve: 3, Privileged: func(uint32) bool { return true }}, 5, "true true 5"},
	} {
		t.Run(name, func(t *testing.T) {
			dial, told := listenBounded(t, c.bounds)
			var open []net.Conn
			for range c.most {
				conn := dial()
				if conn == nil {
					t.Fatalf("connection %d was refused", len(open)+1)
				}
				open = append(open, conn)
			}
			for range 2 {
				if dial() != nil {
					t.Error("one too many")
				}
			}
			if got := told(); !slices.Equal(got, []string{c.told, c.told}) {
				t.Errorf("told %q", got)
			}
			_ = open[0].Close()
			_ = open[0].Close()
			if dial() == nil {
				t.Error("a connection that is closed keeps its place")
			}
			if dial() != nil {
				t.Error("a connection that is closed twice leaves two places")
			}
		})
	}
}

func TestABoundedConnectionHasItsPeer(t *testing.T) {
	dial, _ := listenBounded(t, Bounds{Each: func() int { return 0 }, Privileged: func(uint32) bool { return false }})
	p, ok := FromContext(ConnContext(context.Background(), dial()))
	if !ok || p.PID != os.Getpid() || p.UID != uint32(os.Geteuid()) {
		t.Errorf("it is %+v, %v", p, ok)
	}
}

func TestRoomForConnections(t *testing.T) {
	for descriptors, want := range map[uint64][2]int{100: {50, 25}, 1024: {768, 128}, 1 << 20: {1<<20 - 1<<17, 1 << 16}, ^uint64(0): {1<<31 - 1 - (1<<31-1)/8, (1<<31 - 1) / 16}} {
		connections, processes := roomOf(descriptors)
		if got := [2]int{connections, processes}; got != want {
			t.Errorf("%d descriptors have room for %d, want %d", descriptors, got, want)
		}
	}
	if connections, processes, err := Room(); connections <= 0 || processes <= 0 || err != nil {
		t.Errorf("%d, %d, %v", connections, processes, err)
	}
}
