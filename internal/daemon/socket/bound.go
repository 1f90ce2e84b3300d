//go:build linux

package socket

import (
	"fmt"
	"math"
	"net"
	"sync"

	"golang.org/x/sys/unix"
)

// Bounds are those of the connections of a listener. 0 is no bound.
type Bounds struct {
	// Each is how many connections a user may have.
	Each func() int
	// All is how many connections all users may have.
	All int
	// Reserve is how many more a user may have of whom Privileged says so, of both.
	Reserve    int
	Privileged func(uid uint32) bool
	// Refused is told of each connection that is closed because it is one too many: its user, and the bound. all says that it is the one of all users.
	Refused func(uid uint32, all bool, bound int)
}

// Bound returns l with bounds. A connection that is one too many is closed when it is accepted.
func Bound(l net.Listener, b Bounds) net.Listener {
	return &bounded{Listener: l, bounds: b, open: make(map[uint32]int)}
}

type bounded struct {
	net.Listener
	bounds Bounds

	mu   sync.Mutex // guards what follows
	open map[uint32]int
	all  int
}

// Accept implements [net.Listener].
func (l *bounded) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c, ok := conn.(*net.UnixConn)
		if !ok {
			return conn, nil
		}
		uid := uint32(math.MaxUint32) // of those whom the system does not tell, and who may do nothing
		if cred, err := credOf(c); err == nil {
			uid = cred.Uid
		}
		if l.enter(uid) {
			return &boundConn{UnixConn: c, leave: sync.OnceFunc(func() { l.leave(uid) })}, nil
		}
		_ = c.Close() // nobody has written anything
	}
}

// enter counts a connection, unless it is one too many.
func (l *bounded) enter(uid uint32) bool {
	each, all := l.bounds.Each(), l.bounds.All
	reserve := 0
	if l.bounds.Privileged(uid) {
		reserve = l.bounds.Reserve
	}
	l.mu.Lock()
	tooMany := each > 0 && l.open[uid] >= each+reserve
	ofAll := all > 0 && l.all >= all+reserve
	if !tooMany && !ofAll {
		l.open[uid]++
		l.all++
	}
	l.mu.Unlock()
	switch {
	case tooMany:
		l.bounds.Refused(uid, false, each+reserve)
	case ofAll:
		l.bounds.Refused(uid, true, all+reserve)
	}
	return !tooMany && !ofAll
}

func (l *bounded) leave(uid uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	if l.open[uid]--; l.open[uid] == 0 {
		delete(l.open, uid)
	}
}

// boundConn is a connection that counts until it is closed.
type boundConn struct {
	*net.UnixConn
	leave func()
}

// Close implements [net.Conn].
func (c *boundConn) Close() error {
	err := c.UnixConn.Close() // first: the descriptor is what is bounded
	c.leave()
	return err
}

// Room is how many connections the descriptors of this process allow, and how many processes that it watches. The rest of them is for files, and for
// connections to servers.
func Room() (connections, processes int, err error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0, 0, fmt.Errorf("socket: ask how many descriptors there may be: %w", err)
	}
	connections, processes = roomOf(limit.Cur)
	return connections, processes, nil
}

// roomOf leaves an eighth of the descriptors for others than connections, or 256, but never more than half. Half of those are for processes.
func roomOf(descriptors uint64) (connections, processes int) {
	n := int(min(descriptors, math.MaxInt32))
	rest := min(n/2, max(n/8, 256))
	return n - rest, rest / 2
}
