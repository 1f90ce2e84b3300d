package transport

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"
)

// A track of a lane has a connection of its own, and makes one exchange at a time on it. So
// the leader writes and reads the connection itself. The client library has goroutines for that,
// but leaves them out for a connection with one call at a time, each with a deadline.
// Without them nobody notices between exchanges that the connection was lost. So the
// transport looks at the connection before each exchange.

// timed is a context with a deadline and no timer. It does not cancel anything: the client
// library sets the deadline on the connection.
type timed struct {
	context.Context
	deadline time.Time
}

func (t *timed) Deadline() (time.Time, bool) { return t.deadline, true }
func (t *timed) Done() <-chan struct{}       { return nil }

// errUnsent says that nothing of an exchange was sent, because the connection had been lost
// or replaced.
var errUnsent = errors.New("the connection was lost")

// peeker tells whether a connection was lost. It is for the time when no answer is due: then
// anything to read means that the connection is of no more use. One goroutine uses it at a time.
type peeker struct {
	met  bool // the server has answered; before, a server may speak unasked, for example in TLS
	raw  syscall.RawConn
	look func(fd uintptr) bool // made once, because each exchange uses it
	lost bool
}

// newPeeker returns nil if the connection has no socket to look at.
func newPeeker(c net.Conn) *peeker {
	if tls, of := c.(interface{ NetConn() net.Conn }); of {
		c = tls.NetConn()
	}
	system, of := c.(syscall.Conn)
	if !of {
		return nil
	}
	raw, err := system.SyscallConn()
	if err != nil {
		return nil
	}
	p := &peeker{raw: raw}
	p.look = func(fd uintptr) bool {
		p.lost = !silent(fd)
		return true
	}
	return p
}

func (p *peeker) isLost() bool { return p.met && (p.raw.Read(p.look) != nil || p.lost) }
