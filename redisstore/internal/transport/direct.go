package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/redis/rueidis"
)

// line is a connection of a lane, for one exchange at a time. Whoever makes the exchange writes and reads the
// connection: that is faster than a goroutine that reads. The client library does so if it neither pipelines by itself
// nor keeps connections alive. Nobody notices between exchanges that the connection was lost. So the line looks at it
// before each exchange.
type line struct {
	node   *Node
	client rueidis.Client
	guard  *guard  // of the last connection that the client has made; nil if there was none
	made   bool    // the client; before, it does not dial
	leaver *leaver // of the exchange under way; nil if its context does not end

	credentials rueidis.AuthCredentials // of the connection that the client makes
}

// exchange sends commands in one go, and reads a reply to each of them. A deadline bounds it. If the connection was
// lost before, exchange makes another one. If ctx ends first, exchange gives up the connection. All replies are then
// errLeft, also those that have come before: the client keeps none of an exchange that failed. The client takes back
// commands that were answered.
type exchange func(ctx context.Context, deadline time.Time, commands rueidis.Commands, replies []Reply)

func newLine(n *Node) *line {
	l, c := &line{node: n}, n.config
	l.client, _ = rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{n.addr},
		AuthCredentialsFn: func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
			return l.credentials, nil
		},
		SelectDB:      n.login.database,
		ClientName:    c.ClientName,
		ClientSetInfo: rueidis.DisableClientSetInfo, // not every user may
		DialCtxFn:     l.dial,
		Dialer:        net.Dialer{Timeout: c.Dial, KeepAlive: -1}, // the probes of the client would meet an exchange
		// How long a server may take to greet, and to answer an exchange.
		ConnWriteTimeout:  c.Silence,
		DisableRetry:      true, // whoever asked decides whether to ask again
		DisableCache:      true,
		ForceSingleClient: true, // makes a client even if it cannot dial
		// The client has no goroutine for a connection that is not shared. Its goroutine would panic at an answer that
		// it does not expect.
		DisableAutoPipelining: true, BlockingPoolSize: 1,
		ReadBufferEachConn: readBuffer, WriteBufferEachConn: 1 << 16,
	})
	l.made = true
	return l
}

func (l *line) dial(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
	if !l.made {
		return nil, errUnsent
	}
	var err error
	if l.credentials.Username, l.credentials.Password, err = l.node.credentials(ctx); err != nil {
		return nil, err
	}
	c, err := l.node.dialer.dial(ctx, addr, true)
	if err != nil {
		return nil, err
	}
	l.leaver.takes(c)
	if err := l.node.meet(ctx, c, l.credentials.Username, l.credentials.Password); err != nil {
		_ = c.Close()
		return nil, err
	}
	l.guard = newGuard(c)
	return l.guard, nil
}

func (l *line) exchange(ctx context.Context, deadline time.Time, commands rueidis.Commands, replies []Reply) {
	if ctx.Done() == nil || ctx == l.node.life { // a node that is given up cuts all of its connections
		l.do(ctx, deadline, commands, replies)
		return
	}
	if ctx.Err() != nil { // the client would count a connection less
		unanswered(replies[:0], len(replies), errLeft)
		return
	}
	l.leaver = new(leaver)
	if l.guard != nil {
		l.leaver.takes(l.guard.conn)
	}
	stop := context.AfterFunc(ctx, l.leaver.leave)
	l.do(ctx, deadline, commands, replies)
	if !stop() {
		l.leaver.leave() // before the next exchange: the other goroutine may come late
		for i := range replies {
			if replies[i].err != nil {
				replies[i].err = errLeft
			}
		}
	}
	l.leaver = nil
}

func (l *line) do(ctx context.Context, deadline time.Time, commands rueidis.Commands, replies []Reply) {
	bounded := &bounded{ctx, deadline}
	l.once(bounded, commands, replies)
	if errors.Is(replies[0].err, errUnsent) {
		l.once(bounded, commands, replies) // with another connection
	}
}

func (l *line) once(ctx context.Context, commands rueidis.Commands, replies []Reply) {
	if len(commands) == 1 {
		replies[0] = replyOf(l.client.Do(ctx, commands[0]))
		return
	}
	for i, r := range l.client.DoMulti(ctx, commands...) {
		replies[i] = replyOf(r)
	}
}

// leaver cuts the connection of an exchange when its caller leaves. It never touches another connection. A nil leaver
// does nothing.
type leaver struct {
	mu   sync.Mutex // guards what follows
	conn *conn      // of the exchange; nil before there is one
	left bool
}

// takes names the connection of the exchange.
func (l *leaver) takes(c *conn) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn = c; l.left {
		_ = c.Conn.Close() // not its own Close: the client calls that when it notices
	}
}

func (l *leaver) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left = true; l.conn != nil {
		_ = l.conn.Conn.Close()
	}
}

// errLeft says that the caller of an exchange left before its end.
var errLeft = errors.New("the caller left before the answer")

// replyOf is a reply that the client library has read. Scripts answer with text or a number.
func replyOf(r rueidis.RedisResult) Reply {
	m, err := r.ToMessage()
	switch refusal := (*rueidis.RedisError)(nil); {
	case rueidis.IsRedisNil(err):
		return Reply{kind: '_'}
	case errors.As(err, &refusal):
		return Reply{kind: '-', text: refusal.Error()}
	case err != nil:
		return Reply{err: err}
	case m.IsInt64():
		n, _ := m.AsInt64()
		return Reply{kind: ':', text: strconv.FormatInt(n, 10)}
	case m.IsString():
		text, _ := m.ToString()
		return Reply{kind: '$', text: text}
	}
	return Reply{err: errStrange}
}

// bounded is a context with another deadline, and no timer for it: the client library sets the deadline on the
// connection.
type bounded struct {
	context.Context
	deadline time.Time
}

func (b *bounded) Deadline() (time.Time, bool) { return b.deadline, true }

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
