//go:build linux

package socket

import (
	"errors"
	"fmt"
	"math"
	"net"

	"golang.org/x/sys/unix"

	"github.com/lockagent/lockagent/internal/daemon/quota"
)

// Bound returns l with a bound of the connections that each user has. user tells who has made a connection. Those whose
// user it does not know are [quota.Nobody]. hold counts a connection of a user until leave is called. If its error is
// not nil, the connection is one too many, and is closed when it is accepted: nobody has written anything.
func Bound(
	l net.Listener, user func(net.Conn) (uint32, error), hold func(uid uint32) (leave func(), err error),
) net.Listener {
	return &bounded{l, user, hold}
}

type bounded struct {
	net.Listener
	user func(net.Conn) (uint32, error)
	hold func(uid uint32) (leave func(), err error)
}

// Accept implements [net.Listener].
func (l *bounded) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		uid, unknown := l.user(conn)
		if unknown != nil {
			uid = quota.Nobody
		}
		if leave, err := l.hold(uid); err == nil {
			return &boundConn{conn, uid, unknown, leave}, nil
		}
		_ = conn.Close()
	}
}

// boundConn is a connection that counts until it is closed.
type boundConn struct {
	net.Conn
	uid     uint32
	unknown error // why uid is nobody
	leave   func()
}

// Close implements [net.Conn].
func (c *boundConn) Close() error {
	err := c.Conn.Close() // first: the descriptor is what is bounded
	c.leave()
	return err
}

// CloseWrite is for the server of net/http, whose last words would be lost without it.
func (c *boundConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// UserOf returns who has made a connection that a listener of [Bound] has accepted, as its function told.
func UserOf(conn net.Conn) (uid uint32, err error) {
	c, ok := conn.(*boundConn)
	if !ok {
		return 0, errors.New("socket: nobody has asked for the user of the connection")
	}
	return c.uid, c.unknown
}

// Room is how many connections the descriptors of this process allow, and how many processes that it watches. The rest
// of them is for files, and for connections to servers.
func Room() (connections, processes int, err error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0, 0, fmt.Errorf("socket: ask how many descriptors there may be: %w", err)
	}
	connections, processes = roomOf(limit.Cur)
	return connections, processes, nil
}

// roomOf leaves an eighth of the descriptors for others than connections, or 256, but never more than half. Half of
// those are for processes.
func roomOf(descriptors uint64) (connections, processes int) {
	n := int(min(descriptors, math.MaxInt32))
	rest := min(n/2, max(n/8, 256))
	return n - rest, rest / 2
}
