package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// dialer makes the connections to one server. At the end of its life it closes them, whatever their
// users and the server are doing.
type dialer struct {
	network string
	base    net.Dialer
	tls     *tls.Config // nil for none
	life    context.Context
	log     *slog.Logger
	silence time.Duration // for how long a server may owe an answer before the connection is cut
	changed func()        // called when a connection was made or lost
	asked   chan struct{} // has an element for each function of the application that runs

	mu    sync.Mutex // guards what follows
	conns map[*conn]bool
}

// mostAsked is how many functions of the application run at a time, to make connections.
const mostAsked = 16

// keepAlive is how long a connection is silent before it is probed.
const keepAlive = 10 * time.Second

func newDialer(life context.Context, config *Config, changed func()) *dialer {
	return &dialer{
		network: config.Network, base: net.Dialer{KeepAlive: keepAlive}, tls: config.TLS,
		life: life, log: config.Logger, silence: config.Silence, changed: changed, conns: make(map[*conn]bool),
		asked: make(chan struct{}, mostAsked),
	}
}

// dial makes a connection: a direct one for a line, or one for a session.
func (d *dialer) dial(ctx context.Context, addr string, direct bool) (*conn, error) {
	dialing, cancel := d.bound(ctx)
	defer cancel()
	raw, err := d.base.DialContext(dialing, d.network, addr)
	if err != nil {
		return nil, err
	}
	if d.tls != nil {
		if raw, err = d.shakeHands(dialing, raw, addr); err != nil {
			return nil, err
		}
	}
	c := &conn{Conn: raw, dialer: d, direct: direct, made: time.Now()}
	if direct {
		c.peeker = newPeeker(raw)
	}
	c.forget = context.AfterFunc(d.life, func() { _ = raw.Close() })
	d.mu.Lock()
	d.conns[c] = true
	d.mu.Unlock()
	d.changed()
	return c, nil
}

// bound returns a context for one attempt to connect, which ends with ctx, at its deadline, and with the life of the
// dialer. It has nothing else of ctx: what gets it may leave a goroutine behind, and a lane uses ctx again.
func (d *dialer) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	bound, cancel := context.WithCancel(d.life)
	done := func() {}
	if deadline, ok := ctx.Deadline(); ok {
		bound, done = context.WithDeadline(bound, deadline)
	}
	stop := context.AfterFunc(ctx, cancel)
	return bound, func() {
		stop()
		done()
		cancel()
	}
}

// shakeHands puts TLS on top of a connection. It has a bound, because a server that hangs
// does not answer.
func (d *dialer) shakeHands(ctx context.Context, raw net.Conn, addr string) (net.Conn, error) {
	config := d.tls
	if config.ServerName == "" {
		config = config.Clone()
		if config.ServerName, _, _ = net.SplitHostPort(addr); config.ServerName == "" {
			config.ServerName = addr
		}
	}
	bounded, cancel := context.WithTimeout(ctx, d.silence)
	defer cancel()
	secure := tls.Client(raw, config)
	_, err := consult(ctx, d, "Config.TLS", func() (struct{}, error) {
		return struct{}{}, secure.HandshakeContext(bounded)
	})
	if err != nil {
		_ = raw.Close()
		if ctx.Err() == nil && speaksNoTLS(err) {
			err = fmt.Errorf("the server speaks no TLS, or not in time: "+
				"if its port has none, write redis:// in place of rediss:// (%v)", err)
		}
		return nil, err
	}
	return secure, nil
}

// speaksNoTLS reports whether the handshake with a server may have failed because the server speaks no TLS. It then
// says something else, or waits for the end of a line, or closes the connection.
func speaksNoTLS(err error) bool {
	var other tls.RecordHeaderError
	return errors.As(err, &other) || errors.Is(err, context.DeadlineExceeded) || isCut(err)
}

// isCut reports whether the error of a connection says that the server has closed it.
func isCut(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) }

// cut gives up the connections that were made before an instant. It closes those of sessions.
// It lets a lane finish the exchange that is under way: the next exchange makes a new connection.
func (d *dialer) cut(before time.Time) {
	d.mu.Lock()
	var old []*conn
	for c := range d.conns {
		if c.made.Before(before) {
			old = append(old, c)
		}
	}
	d.mu.Unlock()
	for _, c := range old {
		if c.direct {
			c.stale.Store(true)
			continue
		}
		_ = c.Conn.Close() // not its own Close: the reader calls that when it notices
	}
}

// conn is one connection.
type conn struct {
	net.Conn
	dialer *dialer
	made   time.Time
	forget func() bool // undoes the closing at the end of the dialer's life
	once   sync.Once
	// asked is the time of the first Write since the last Read, in ns since the connection was made:
	// an answer is due since then. It is 0 if there was no Write since the last Read. A Write during
	// a Read may go unnoticed: the Read sets asked to 0 after it. Then the next Write counts.
	asked atomic.Int64
	// direct connections belong to a line, which bounds its exchanges.
	direct bool
	stale  atomic.Bool // was cut: the exchange under way is the last
	silent atomic.Bool // was cut because an answer was due for too long
	peeker *peeker     // of a direct connection, which nobody reads between exchanges; may be nil
}

func (c *conn) Write(b []byte) (int, error) {
	if c.asked.Load() == 0 {
		if c.stale.Load() || c.peeker != nil && c.peeker.isLost() {
			return 0, errUnsent
		}
		now := max(int64(time.Since(c.made)), 1)
		if c.asked.CompareAndSwap(0, now) && !c.direct {
			time.AfterFunc(c.dialer.silence, func() { c.cutIfSilent(now) })
		}
	}
	return c.Conn.Write(b)
}

// cutIfSilent closes the connection if an answer has been due since asked.
func (c *conn) cutIfSilent(asked int64) {
	if c.asked.Load() == asked {
		c.silent.Store(true)
		_ = c.Conn.Close()
	}
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.asked.Store(0)
		if c.peeker != nil {
			c.peeker.met = true
		}
	}
	if err != nil && c.silent.Load() {
		err = silentError{c.dialer.silence}
	}
	return n, err
}

func (c *conn) Close() error {
	c.once.Do(func() {
		c.forget()
		c.dialer.mu.Lock()
		delete(c.dialer.conns, c)
		c.dialer.mu.Unlock()
		c.dialer.changed()
	})
	return c.Conn.Close()
}
