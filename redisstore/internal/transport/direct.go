package transport

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"
)

// A track of a lane has a connection of its own, and makes one exchange at a time on it. So
// the leader writes and reads directly, without the goroutines of the
// client in between. The client works like that as long as no call has a context that
// can be cancelled. Nobody probes such a connection while nobody calls, or notices that
// it was lost: it is looked at before each exchange.

// timed is a context with a deadline that nobody is told of: whoever uses it has to
// look.
type timed struct {
	context.Context
	deadline time.Time
}

func (t *timed) Deadline() (time.Time, bool) { return t.deadline, true }
func (t *timed) Done() <-chan struct{}       { return nil }

// errUnsent is the error of an exchange for which the connection had been lost before
// anything was sent.
var errUnsent = errors.New("the connection was lost")

// peeker tells whether a connection on which nothing is expected was lost. One
// goroutine uses it at a time.
type peeker struct {
	met  bool // there was an answer already; before, a server may speak unasked, as TLS has it
	raw  syscall.RawConn
	look func(fd uintptr) bool // made once, because it is used all the time
	lost bool
}

// newPeeker returns nil if the connection cannot be looked at.
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
