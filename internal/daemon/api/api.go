package api

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"

	"connectrpc.com/connect"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/actor"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/natslog"
	"github.com/lockagent/lockagent/internal/daemon/claims"
	"github.com/lockagent/lockagent/internal/daemon/quota"
	"github.com/lockagent/lockagent/internal/daemon/refusal"
	"github.com/lockagent/lockagent/internal/daemon/wire"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
	"github.com/lockagent/lockagent/proto/lockagent/v1/lockagentv1connect"
)

// Access says what clients may do. It finds the client in the context of a request. An error is a refusal.
type Access interface {
	// Acquire is for who makes a claim on a name.
	Acquire(context.Context, lockagent.Name) error
	// Hold counts one more of each of these kinds for the client, until leave is called. An error has been counted as a
	// refusal already.
	Hold(ctx context.Context, of ...quota.Kind) (leave func(), err error)
	// Look is for who looks at a name.
	Look(context.Context, lockagent.Name) error
	// Operate is for who breaks the lock of a name. The empty name stands for the daemon, and for its whole event log.
	Operate(context.Context, lockagent.Name) error
	// Enter is for who looks at many names, or watches their changes: there may be some that it sees.
	Enter(ctx context.Context, changes bool) error
	// Use is for who uses the secret of a claim that a user owns. The error is [refusal.ErrNoClaim].
	Use(ctx context.Context, owner uint32, name lockagent.Name) error
	// Sees reports whether a name is in what the client sees of many: of the list of locks, or of their changes.
	Sees(ctx context.Context, name lockagent.Name, changes bool) bool
	// Refused is told of an error of the claims, and returns it. One about a limit counts as a refusal.
	Refused(context.Context, error) error
}

// Log is the event log of the daemon.
type Log interface {
	// State tells what the log has. That is all that was recorded before the call.
	State(context.Context) (natslog.StreamState, error)
	// Replay and Tail are those of [events.Reader].
	Replay(context.Context, natslog.From, events.Filter, events.Visit) error
	Tail(context.Context, natslog.From, events.Filter, events.Visit) error
}

// Config is what the handlers need. All fields are required but Log and Numbers.
type Config struct {
	Agent  *actor.Agent
	Book   *claims.Book
	Access Access
	Log    Log // nil if there is none
	// Numbers is nil if the daemon remembers none itself.
	Numbers Numbers
	// Client returns the client of a request, from the context of its connection. It reports false if nobody knows who
	// that is.
	Client func(context.Context) (claims.Client, bool)
	// UserName is the name of a user, or empty if it has none.
	UserName func(uid uint32) string
	// Who says which process is behind a request.
	Who func(*claims.Request) lockagent.Who
	// NoCommands has the daemon forget the commands of its clients.
	NoCommands bool
	// Ready returns why no lock can be granted at the moment, or nil.
	Ready func(context.Context) error
	// Life ends all streams when it ends. Other calls go on to their end.
	Life context.Context
	// Logger gets defects, and what operators do.
	Logger *slog.Logger
	// MaxRequest is how many bytes a request may have.
	MaxRequest int
	// Trace returns a context that has the trace of a request, and nothing else.
	Trace func(http.Header) context.Context
}

// New returns the handler of the API.
func New(cfg Config) http.Handler {
	options := []connect.HandlerOption{
		connect.WithReadMaxBytes(cfg.MaxRequest),
		connect.WithCompression("gzip", nil, nil), // it costs more than it saves within one host
		connect.WithRecover(func(_ context.Context, spec connect.Spec, header http.Header, p any) error {
			cfg.Logger.ErrorContext(
				cfg.Trace(header), "lockagent: recovered from a panic",
				"of", spec.Procedure, "panic", p, "stack", string(debug.Stack()),
			)
			return wire.Refuse(lockagent.ErrInternal)
		}),
	}
	mux := http.NewServeMux()
	mux.Handle(
		lockagentv1connect.NewLockServiceHandler(&locks{Config: cfg, links: links{open: make(map[string]*link)}}, options...),
	)
	mux.Handle(lockagentv1connect.NewCountServiceHandler(&counts{cfg}, options...))
	mux.Handle(lockagentv1connect.NewLookServiceHandler(&looks{cfg}, options...))
	mux.Handle(lockagentv1connect.NewOperateServiceHandler(&operates{cfg}, options...))
	for path, handler := range newHealth(cfg.Ready, options) {
		mux.Handle(path, handler)
	}
	return &bounded{&cfg, mux, connect.NewErrorWriter(options...)}
}

// Look returns the handler of the LookService alone, for a part of the daemon that is in the same process. The contexts
// of its calls have the client, as those of requests have.
func Look(cfg Config) lockagentv1connect.LookServiceHandler { return &looks{cfg} }

// Operate is as [Look], for the OperateService.
func Operate(cfg Config) lockagentv1connect.OperateServiceHandler { return &operates{cfg} }

// services are the names of our own services.
func services() []string {
	return []string{
		lockagentv1connect.LockServiceName, lockagentv1connect.LookServiceName, lockagentv1connect.OperateServiceName,
		lockagentv1connect.CountServiceName,
	}
}

// client returns the client of a request, or a refusal.
func (c *Config) client(ctx context.Context) (claims.Client, error) {
	client, ok := c.Client(ctx)
	if !ok {
		return client, fmt.Errorf("%w: the system does not tell who you are", refusal.ErrForbidden)
	}
	return client, nil
}

// traceOf is a context with the trace of a claim, and nothing else: the trace of the claim itself, or else that of the
// call.
func (c *Config) traceOf(ctx context.Context, req *lockagentv1.AcquireRequest) context.Context {
	if parent := req.GetTraceparent(); parent != "" {
		return c.Trace(http.Header{"Traceparent": {parent}})
	}
	return c.trace(ctx)
}

// trace is a context with the trace of a call, and nothing else.
func (c *Config) trace(ctx context.Context) context.Context {
	if info, ok := connect.CallInfoForHandlerContext(ctx); ok {
		return c.Trace(info.RequestHeader())
	}
	return c.Trace(nil) // the call comes from within the process
}
