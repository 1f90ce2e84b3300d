package redisstore

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// dialer makes the connections of a store. They end with the store, whatever the
// client or the server is doing, and it tells when one was made or lost.
type dialer struct {
	network string
	life    context.Context // done when the store is closed
	changed func()          // called when a connection was made or lost

	mu    sync.Mutex // guards what follows
	conns map[*conn]bool
}

func newDialer(network string, life context.Context, changed func()) *dialer {
	return &dialer{network: network, life: life, changed: changed, conns: make(map[*conn]bool)}
}

// dial has the signature that the client wants.
func (d *dialer) dial(ctx context.Context, addr string, base *net.Dialer, config *tls.Config) (net.Conn, error) {
	return d.connect(ctx, addr, base, config, false)
}

// dialDirect is dial for a client with the options of direct.
func (d *dialer) dialDirect(ctx context.Context, addr string, base *net.Dialer, config *tls.Config) (net.Conn, error) {
	probed := *base
	probed.KeepAlive = keepAlive
	return d.connect(ctx, addr, &probed, config, true)
}

func (d *dialer) connect(ctx context.Context, addr string, base *net.Dialer, config *tls.Config, direct bool) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.life, cancel)()

	var raw net.Conn
	var err error
	if config != nil {
		raw, err = (&tls.Dialer{NetDialer: base, Config: config}).DialContext(ctx, d.network, addr)
	} else {
		raw, err = base.DialContext(ctx, d.network, addr)
	}
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: raw, dialer: d, direct: direct}
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

// cutSilent closes the connections on which nothing was heard for a time although
// something was asked. The way to the server may be gone without anybody telling;
// a new connection then often finds another.
func (d *dialer) cutSilent(atLeast time.Duration) {
	d.mu.Lock()
	var silent []*conn
	for c := range d.conns {
		if asked := c.asked.Load(); asked != nil && time.Since(*asked) >= atLeast {
			silent = append(silent, c)
		}
	}
	d.mu.Unlock()
	for _, c := range silent {
		_ = c.Close()
	}
}

// interrupt ends the exchange that is under way on a direct connection, and does not wait.
// Its client then closes the connection.
func (d *dialer) interrupt() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for c := range d.conns {
		if c.direct {
			_ = c.SetReadDeadline(time.Unix(1, 0)) // long ago
		}
	}
}

// conn is one connection.
type conn struct {
	net.Conn
	dialer *dialer
	forget func() bool // ends what waits for the end of the store
	once   sync.Once
	// asked is when something was sent for the first time since something was
	// received; nil if nothing was. A send that meets a receipt may be overlooked:
	// then the next one counts.
	asked  atomic.Pointer[time.Time]
	direct bool
	// peeker looks at a connection that nobody reads from while nothing is asked;
	// nil for others.
	peeker *peeker
}

func (c *conn) Write(b []byte) (int, error) {
	if c.asked.Load() == nil {
		if c.peeker != nil && c.peeker.isLost() {
			return 0, errUnsent
		}
		now := time.Now()
		c.asked.CompareAndSwap(nil, &now)
	}
	return c.Conn.Write(b)
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.asked.Store(nil)
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
