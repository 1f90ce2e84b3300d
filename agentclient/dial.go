package agentclient

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"connectrpc.com/connect"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/backend"
	"github.com/lockagent/lockagent/internal/bootclock"
	"github.com/lockagent/lockagent/internal/place"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
	"github.com/lockagent/lockagent/proto/lockagent/v1/lockagentv1connect"
)

// Config configures the locks of a daemon. The zero Config is that of [Dial] without a socket.
type Config struct {
	// Socket is the path of the daemon's socket. Defaults to $LOCKAGENT_SOCKET. Without that it is where the user's
	// daemon listens by default, if there is a socket: $XDG_RUNTIME_DIR/lockagent/agent.sock, or
	// ~/.local/state/lockagent/agent.sock without that variable. Otherwise it is /run/lockagent/agent.sock.
	Socket string

	// Command says what the program does with its locks, for the people who look at the daemon, and for the event log:
	// up to 1024 bytes, of which the log has the first 200. Defaults to none: arguments may hold secrets. The daemon
	// knows the process and its user, and the client tells it the name of the program.
	Command string

	// Claim is how long a grant may lie in its channel before it is given back. Defaults to [channelapi.DefaultClaim].
	Claim time.Duration

	// TraceParent returns the W3C trace context of a caller's context, or empty for none. That of package tracing does.
	// The spans of the daemon for a request are then below the span of its caller. A request whose trace is sampled has
	// a claim of its own. Defaults to none. It is called with a mutex held, and must not wait.
	TraceParent func(context.Context) string

	// Logger gets what no caller could be told. Defaults to slog.Default().
	Logger *slog.Logger
}

// Dial connects to the daemon of this host. socket is the path of its socket, or empty for the default: see [Config].
// The error is [channelapi.ErrStoreUnavailable] if no daemon answers. ctx bounds the call, and nothing else.
func Dial(ctx context.Context, socket string) (*channelapi.Locks, error) {
	return Open(ctx, Config{Socket: socket})
}

// Open is [Dial] with other settings.
func Open(ctx context.Context, cfg Config) (*channelapi.Locks, error) {
	if cfg.Claim < 0 {
		return nil, &lockagent.OptionError{Option: "Config.Claim", Reason: fmt.Sprintf("%v is negative", cfg.Claim)}
	}
	path, err := filepath.Abs(cmp.Or(cfg.Socket, os.Getenv("LOCKAGENT_SOCKET"), place.Current().Find()))
	if err != nil {
		return nil, err
	}
	cfg.Socket = path
	cfg.Claim = cmp.Or(cfg.Claim, channelapi.DefaultClaim)
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	a := newAgent(cfg, bootclock.Now)
	if err := a.start(ctx); err != nil {
		return nil, err
	}
	return channelapi.Over(backend.Backend{
		Agent: a, Identity: func() string { return "unix:" + path }, Claim: cfg.Claim,
	}), nil
}

// services are the clients of the daemon's services, over one connection.
type services struct {
	hangUp func() // closes the connection, even if a stream on it has not ended yet
	lock   lockagentv1connect.LockServiceClient
	// The call Submit of lock, whose answer can be read while commands are sent.
	submit  *connect.Client[lockagentv1.SubmitRequest, lockagentv1.SubmitResponse]
	look    lockagentv1connect.LookServiceClient
	operate lockagentv1connect.OperateServiceClient
	count   lockagentv1connect.CountServiceClient
}

func servicesAt(path string) services {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	until, hangUp := context.WithCancel(context.Background())
	transport := &http.Transport{
		Protocols: &protocols, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
			if err != nil {
				return nil, err
			}
			return &connection{conn, context.AfterFunc(until, func() { _ = conn.Close() })}, nil
		},
	}
	client := &http.Client{Transport: transport}
	const base = "http://lockagent"
	return services{
		hangUp, lockagentv1connect.NewLockServiceClient(client, base),
		connect.NewClient[lockagentv1.SubmitRequest, lockagentv1.SubmitResponse](
			client, base+lockagentv1connect.LockServiceSubmitProcedure,
		),
		lockagentv1connect.NewLookServiceClient(client, base),
		lockagentv1connect.NewOperateServiceClient(client, base), lockagentv1connect.NewCountServiceClient(client, base),
	}
}

// connection is one that ends when its services hang up.
type connection struct {
	net.Conn
	ends func() bool // forgets to end it
}

// Close implements [net.Conn].
func (c *connection) Close() error {
	c.ends()
	return c.Conn.Close()
}
