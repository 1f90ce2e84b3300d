package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// dialer makes the connections to one server. They end with its life, whatever the
// client or the server is doing. It tells when one was made or lost.
type dialer struct {
	network string
	life    context.Context
	silence time.Duration // after which a connection is cut on which an answer is due
	changed func()

	ready atomic.Bool // until then it refuses, so that a client can be made without dialling

	mu    sync.Mutex // guards what follows
	conns map[*conn]bool
}

var errNotYet = errors.New("nobody has asked for a connection yet")

func newDialer(life context.Context, network string, silence time.Duration, changed func()) *dialer {
	return &dialer{network: network, life: life, silence: silence, changed: changed, conns: make(map[*conn]bool)}
}

// dial has the signature that the client wants.
func (d *dialer) dial(ctx context.Context, addr string, base *net.Dialer, config *tls.Config) (net.Conn, error) {
	return d.connect(ctx, addr, base, config, false)
}

// dialDirect is dial for the client of a lane.
func (d *dialer) dialDirect(ctx context.Context, addr string, base *net.Dialer, config *tls.Config) (net.Conn, error) {
	probed := *base
	probed.KeepAlive = keepAlive
	return d.connect(ctx, addr, &probed, config, true)
}

func (d *dialer) connect(ctx context.Context, addr string, base *net.Dialer, config *tls.Config, direct bool) (net.Conn, error) {
	if !d.ready.Load() {
		return nil, errNotYet
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.life, cancel)()

	raw, err := base.DialContext(ctx, d.network, addr)
	if err != nil {
		return nil, err
	}
	if config != nil {
		if raw, err = d.shakeHands(ctx, raw, addr, config); err != nil {
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

// shakeHands puts TLS on top of a connection. A server that hangs does not answer.
func (d *dialer) shakeHands(ctx context.Context, raw net.Conn, addr string, config *tls.Config) (net.Conn, error) {
	if config.ServerName == "" {
		config = config.Clone()
		if config.ServerName, _, _ = net.SplitHostPort(addr); config.ServerName == "" {
			config.ServerName = addr
		}
	}
	ctx, cancel := context.WithTimeout(ctx, d.silence)
	defer cancel()
	secure := tls.Client(raw, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, err
	}
	return secure, nil
}

// cut gives up the connections that were made before an instant. Those of a lane finish their
// exchange: what is under way there has its own answer.
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
		_ = c.Conn.Close() // not its own Close: the client calls that when it notices
	}
}

// conn is one connection.
type conn struct {
	net.Conn
	dialer *dialer
	made   time.Time
	forget func() bool // ends what waits for the end of the dialer's life
	once   sync.Once
	// asked is when something was sent for the first time since something was
	// received, in ns since the connection was made; 0 if nothing was sent. A send that meets a
	// receipt may be overlooked: then the next one counts.
	asked atomic.Int64
	// direct connections belong to a lane, whose exchanges have deadlines of their own.
	direct bool
	stale  atomic.Bool // for no other exchange
	// peeker looks at a connection that nobody reads from while nothing is asked;
	// nil for others.
	peeker *peeker
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

// cutIfSilent closes the connection if nothing was received since something was asked at
// that time.
func (c *conn) cutIfSilent(asked int64) {
	if c.asked.Load() == asked {
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
