package events

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lockagent/lockagent"
)

// warnEvery is how often at most an error of a connection is logged as a warning.
const warnEvery = 10 * time.Second

// InProcess makes connections to a NATS server in this process. An embedded
// server is one.
type InProcess interface {
	InProcessConn() (net.Conn, error)
}

// Connection says how to reach NATS. Exactly one of URL and InProcess must be
// set.
type Connection struct {
	// URL is the address of a server, or several addresses of one cluster with
	// commas between them: "nats://user:password@host:4222", or tls://, ws://,
	// wss://. A user without a password is taken for a token.
	URL string

	// InProcess is a server in this process.
	InProcess InProcess

	// Logger gets what goes wrong with the connection. Defaults to [slog.Default].
	Logger *slog.Logger
}

// check returns what is wrong with c, and sets its defaults.
func (c *Connection) check() error {
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if (c.URL == "") == (c.InProcess == nil) {
		return &lockagent.OptionError{Option: "connection", Reason: "set either URL or InProcess"}
	}
	if c.URL == "" {
		return nil
	}
	for _, text := range strings.Split(c.URL, ",") {
		if err := checkURL(strings.TrimSpace(text)); err != nil {
			return err
		}
	}
	return nil
}

// checkURL never quotes what may contain a password or a token.
func checkURL(text string) error {
	if !strings.Contains(text, "://") {
		return fmt.Errorf("%w: it has no scheme; use nats://host:4222", ErrBadURL)
	}
	u, err := url.Parse(text)
	if err != nil {
		return fmt.Errorf("%w: it is not of the form nats://user:password@host:4222; percent-encode special characters in the password", ErrBadURL)
	}
	switch u.Scheme {
	case "nats", "tls", "ws", "wss":
	default:
		return fmt.Errorf("%w: unknown scheme %q; use nats, tls, ws or wss", ErrBadURL, u.Scheme)
	}
	if u.Hostname() == "" {
		return fmt.Errorf("%w: it has no host; use %s://host:4222", ErrBadURL, u.Scheme)
	}
	return nil
}

// checkStream returns an error for a name that not every server and file system
// takes for a stream.
func checkStream(name string) error {
	for _, c := range []byte(name) {
		if !plain(c) {
			return &lockagent.OptionError{Option: "Stream", Reason: fmt.Sprintf("%q is not made of letters, digits, '_' and '-'", name)}
		}
	}
	return nil
}

// dial connects to NATS. Every connection tries for ever to come back.
func (c *Connection) dial(name string, more ...nats.Option) (*nats.Conn, error) {
	options := []nats.Option{
		nats.Name(name),
		nats.Timeout(2 * time.Second),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(200 * time.Millisecond),
		nats.ReconnectJitter(100*time.Millisecond, 100*time.Millisecond),
		// An operator may correct a password while we run.
		nats.IgnoreAuthErrorAbort(),
		// The queue is the buffer: what the client library would buffer, it would
		// send without an acknowledgement and out of order.
		nats.ReconnectBufSize(-1),
		// A server that hangs is noticed within seconds: by default a write to it
		// blocks for a minute.
		nats.FlusherTimeout(2 * time.Second),
		nats.PingInterval(5 * time.Second),
		nats.MaxPingsOutstanding(2),
		// By default errors are printed to stderr.
		nats.ErrorHandler(c.errorHandler()),
	}
	if c.InProcess != nil {
		options = append(options, nats.InProcessServer(c.InProcess))
	}
	nc, err := nats.Connect(c.URL, append(options, more...)...)
	if err != nil {
		return nil, fmt.Errorf("events: connect to NATS: %w", err)
	}
	return nc, nil
}

// errorHandler logs what the client library complains about. A wrong password or
// a missing permission makes it complain about every attempt and every event, of
// which one in a while is enough.
func (c *Connection) errorHandler() nats.ErrHandler {
	var last atomic.Int64 // when a warning was logged, in nanoseconds
	return func(_ *nats.Conn, _ *nats.Subscription, err error) {
		level, now, before := slog.LevelDebug, time.Now().UnixNano(), last.Load()
		if now-before > int64(warnEvery) && last.CompareAndSwap(before, now) {
			level = slog.LevelWarn
		}
		c.Logger.Log(context.Background(), level, "events: NATS connection", "err", err)
	}
}
