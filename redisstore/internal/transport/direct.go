package transport

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"
)

// line is a connection for one exchange at a time. Whoever makes the exchange writes and reads the connection himself: that is faster than
// a goroutine that reads. Nobody notices between exchanges that the connection was lost. So the line looks at it before each exchange.
type line struct {
	node *Node
	wire *wire // nil if there is none
}

// exchange sends commands in one go, and reads a reply to each of them. It is bounded by a deadline. If the connection was lost before, it
// makes another one. If it may not dial, each reply is errUnsent.
type exchange func(deadline time.Time, commands []byte, replies []Reply, mayDial bool)

func (l *line) exchange(deadline time.Time, commands []byte, replies []Reply, mayDial bool) {
	err := errUnsent
	if l.wire != nil {
		err = l.wire.exchange(deadline, commands, replies)
	}
	if errors.Is(err, errUnsent) && mayDial {
		l.drop()
		if l.wire, err = l.node.connectBy(deadline); err == nil {
			err = l.wire.exchange(deadline, commands, replies)
		}
	}
	if err != nil {
		l.drop()
		unanswered(replies[:0], len(replies), err)
	}
}

// drop gives up the connection.
func (l *line) drop() {
	if l.wire != nil {
		_ = l.wire.Close()
		l.wire = nil
	}
}

func (n *Node) connectBy(deadline time.Time) (*wire, error) {
	ctx, cancel := context.WithDeadline(n.life, deadline)
	defer cancel()
	return n.connect(ctx, true)
}

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
