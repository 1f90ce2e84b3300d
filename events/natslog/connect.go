package natslog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
)

const (
	// warnEvery is how often at most an error of a connection is logged as a warning.
	warnEvery = 10 * time.Second

	// dialTimeout bounds each attempt to reach one server.
	dialTimeout = 2 * time.Second

	// reconnectPause is the shortest pause between two attempts to connect again.
	reconnectPause = 200 * time.Millisecond
)

// InProcess makes connections to a NATS server in this process. An embedded
// server is one.
type InProcess interface {
	InProcessConn() (net.Conn, error)
}

// Connection says how to reach NATS, and as whom. Exactly one of URL and InProcess
// must be set; everything else has a usable zero value.
//
// There are four ways to say who we are: Creds, Nkey, a user with a password, and
// TokenFile. At most one of them may be used, and none if the URL has a user. A
// client certificate may come on top.
//
// All files must be there at the start, and are read anew each time a connection is made. So a secret or a
// certificate that is replaced is used from the next connection on, without a restart.
type Connection struct {
	// URL is the address of a server, or several addresses of one cluster with
	// commas between them: "nats://user:password@host:4222", or tls://, ws://,
	// wss://. A user without a password is taken for a token.
	URL string

	// InProcess is a server in this process.
	InProcess InProcess

	// Creds is a credentials file: the JWT of a user and its seed, as nsc makes it.
	Creds string

	// Nkey is a file with the seed of a user's nkey. The file must have the same key
	// as long as the connection is in use.
	Nkey string

	// User is the name of a user. UserFile is a file with that name, to be used
	// instead.
	User, UserFile string

	// PasswordFile is a file with the password of the user.
	PasswordFile string

	// TokenFile is a file with a token.
	TokenFile string

	// CA is a file with the certificates, in PEM, of those who may vouch for a
	// server. Defaults to those whom the operating system trusts. This field and the
	// other fields about TLS make the connection use TLS, whatever the URL says.
	CA string

	// Cert is a file with the client's certificate, in PEM. Key is a file with its
	// private key, and defaults to Cert, for a file that has both.
	Cert, Key string

	// ServerName is the name that the server's certificate must have. Defaults to the
	// host in the URL.
	ServerName string

	// TLSFirst begins with TLS, for servers that have handshake_first set.
	TLSFirst bool

	// Domain is the JetStream domain that has the stream. Defaults to that of the
	// server.
	Domain string

	// InboxPrefix begins the subjects of the answers that we are sent. With one of its own for
	// each user, no user needs a permission for the answers to others. Defaults to "_INBOX".
	InboxPrefix string

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
	var errs []error
	if c.URL != "" {
		for text := range strings.SplitSeq(c.URL, ",") {
			errs = append(errs, checkURL(strings.TrimSpace(text)))
		}
	}
	errs = append(errs, checkDomain(c.Domain), checkInbox(c.InboxPrefix))
	if err := errors.Join(append(errs, c.checkIdentity())...); err != nil {
		return err
	}
	return c.readable()
}

// checkURL never quotes what may contain a password or a token.
func checkURL(text string) error {
	if !strings.Contains(text, "://") {
		return fmt.Errorf("%w: it has no scheme; use nats://host:4222", ErrBadURL)
	}
	u, err := url.Parse(text)
	if err != nil {
		return fmt.Errorf(
			"%w: it is not of the form nats://user:password@host:4222; percent-encode special characters in the password",
			ErrBadURL,
		)
	}
	switch u.Scheme {
	case "nats", "tls", "ws", "wss":
	default:
		return fmt.Errorf("%w: its scheme is not known; use nats, tls, ws or wss", ErrBadURL)
	}
	if u.Hostname() == "" {
		return fmt.Errorf("%w: it has no host; use %s://host:4222", ErrBadURL, u.Scheme)
	}
	return nil
}

// checkStream returns an error for a name that not every server and file system
// takes for a stream.
func checkStream(name string) error {
	if name != "" && !events.PlainToken(name) {
		return badOption("Stream", "%q is not made of letters, digits, '_' and '-'", name)
	}
	return nil
}

// checkDomain returns an error for a domain that would be several tokens of a subject.
func checkDomain(domain string) error {
	if domain != "" && !events.PlainToken(domain) {
		return badOption("Domain", "%q is not made of letters, digits, '_' and '-'", domain)
	}
	return nil
}

// checkInbox returns an error for a prefix that is not made of plain tokens.
func checkInbox(prefix string) error {
	if prefix == "" {
		return nil
	}
	for token := range strings.SplitSeq(prefix, ".") {
		if !events.PlainToken(token) || len(prefix) > events.MaxPrefix {
			return badOption(
				"InboxPrefix",
				"%q is not made of letters, digits, '_' and '-', in parts with a dot between them; use one such as _INBOX_agent-1",
				prefix,
			)
		}
	}
	return nil
}

// Connect connects to NATS as c says. A program needs it for uses of the event log that this package does
// not offer, such as a consumer that the server remembers. Publishers, readers and forwarders connect by
// it, too. options come on top of c, such as [nats.Name] and [nats.ErrorHandler].
//
// NATS must be there. A connection that is interrupted later tries for ever to come back. Until then nothing is
// buffered: Publish returns [nats.ErrReconnectBufExceeded]. What goes wrong with the connection goes to c.Logger. An
// option replaces what Connect would have set: with an [nats.ErrorHandler] of your own the Logger hears less, and with
// [nats.RetryOnFailedConnect] NATS need not be there.
//
// The caller closes the connection, with its method Close or Drain. It is safe for concurrent use, and so is
// Connect. [Connection.JetStream] returns the JetStream that has the log.
//
// Connect returns a [*lockagent.OptionError] or [ErrBadURL] for a wrong c, and has then not reached for
// the server. It returns [ErrNotPermitted] if NATS refuses us, and otherwise why there is no connection.
func Connect(c Connection, options ...nats.Option) (*nats.Conn, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	complain := c.errorHandler(nil)
	var attempts attempts
	all := []nats.Option{
		nats.Timeout(dialTimeout),
		nats.MaxReconnects(-1),
		nats.CustomReconnectDelay(attempts.pause),
		// An operator may correct a password while we run.
		nats.IgnoreAuthErrorAbort(),
		// The queue of a publisher is the buffer: what the client library would buffer, it would
		// send without an acknowledgement and out of order.
		nats.ReconnectBufSize(-1),
		// A server that hangs is noticed within seconds: by default a write to it
		// blocks for a minute.
		nats.FlusherTimeout(2 * time.Second),
		nats.PingInterval(5 * time.Second),
		nats.MaxPingsOutstanding(2),
		// By default errors are printed to stderr.
		nats.ErrorHandler(complain),
		nats.ReconnectErrHandler(func(nc *nats.Conn, err error) { complain(nc, nil, err) }),
	}
	all = append(all, c.options(func(err error) { complain(nil, nil, err) })...)
	if c.InboxPrefix != "" {
		all = append(all, nats.CustomInboxPrefix(c.InboxPrefix))
	}
	if c.InProcess != nil {
		all = append(all, nats.InProcessServer(c.InProcess))
	}
	nc, err := nats.Connect(c.URL, append(all, options...)...)
	if err != nil {
		return nil, fmt.Errorf("events: connect to NATS: %w", explained(err))
	}
	attempts.nc.Store(nc)
	return nc, nil
}

// JetStream returns the JetStream in c.Domain, or that of the server if c names none. nc is a connection
// that [Connect] has made of c.
func (c Connection) JetStream(nc *nats.Conn) (jetstream.JetStream, error) {
	if c.Domain != "" {
		return jetstream.NewWithDomain(nc, c.Domain)
	}
	return jetstream.New(nc)
}

// attempts tells of attempts to connect again that fail once the server is reached, as a
// TLS handshake may. The client library keeps these errors to itself.
type attempts struct{ nc atomic.Pointer[nats.Conn] }

// pause is called between two attempts.
func (a *attempts) pause(int) time.Duration {
	if nc := a.nc.Load(); nc != nil {
		if err, tell := nc.LastError(), nc.Opts.ReconnectErrCB; err != nil && tell != nil {
			tell(nc, err)
		}
	}
	return reconnectPause + rand.N(reconnectPause/2)
}

// errorHandler logs what the client library complains about, unless tell tells of it. tell may be
// nil. A wrong password or a missing permission makes the library complain about every
// attempt and every event. One warning in a while is enough.
func (c *Connection) errorHandler(tell func(error) (told bool)) nats.ErrHandler {
	var last atomic.Int64 // when a warning was logged, in nanoseconds
	return func(_ *nats.Conn, _ *nats.Subscription, err error) {
		err = explained(err)
		told := tell != nil && tell(err)
		level, now, before := slog.LevelDebug, time.Now().UnixNano(), last.Load()
		if !told && now-before > int64(warnEvery) && last.CompareAndSwap(before, now) {
			level = slog.LevelWarn
		}
		c.Logger.Log(context.Background(), level, "events: NATS connection", "err", err)
	}
}
