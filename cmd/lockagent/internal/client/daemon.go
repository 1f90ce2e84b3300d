//go:build linux

package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/internal/daemon/follow"
	"github.com/lockagent/lockagent/internal/daemon/refusal"
	"github.com/lockagent/lockagent/internal/daemon/wire"
	"github.com/lockagent/lockagent/internal/place"
	"github.com/lockagent/lockagent/proto/lockagent/v1/lockagentv1connect"
)

// Flag is --socket of each verb that talks to the daemon.
type Flag struct{ Socket string }

// Add adds the flag to cmd.
func (f *Flag) Add(cmd *cobra.Command) {
	cli.ConnectionFlag(
		cmd, &f.Socket, "socket",
		"`path` of the daemon's Unix socket; by default that of this user's daemon if there is one, and else "+place.System,
	)
}

// Open returns the daemon on the socket. It does not connect yet. The settings of the daemon do not count: they may be
// for its user, or its environment, alone.
func (f *Flag) Open(cmd *cobra.Command) (*Daemon, error) {
	path := cmp.Or(f.Socket, place.Current().Find())
	if len(path) > place.MostSocketPath {
		return nil, cli.Usage(
			cli.WithPlace(cmd, "--socket "+place.System),
			"--socket (or $%s) has %d bytes, and the path of a socket has at most %d", cli.Variable("socket"), len(path),
			place.MostSocketPath,
		)
	}
	return New(path), nil
}

// Daemon calls the daemon. Claims have connections of their own.
type Daemon struct {
	Path      string
	Transport *http.Transport
	Locks     lockagentv1connect.LockServiceClient
	Counts    lockagentv1connect.CountServiceClient
	Look      lockagentv1connect.LookServiceClient
	Operate   lockagentv1connect.OperateServiceClient
}

// URL is for the library, which needs one.
const URL = "http://lockagent"

// New returns the daemon on a socket. It does not connect yet.
func New(path string) *Daemon {
	d := &Daemon{Path: path}
	d.Transport = &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return d.Dial(ctx) },
		// A daemon may be silent for ever, such as one that is stopped. A stream that has begun may be quiet for any
		// time. The daemon is not told of the bound: it would end the call with an error of its own at the same moment.
		ResponseHeaderTimeout: follow.AnswerTime,
	}
	client := &http.Client{Transport: d.Transport}
	d.Locks = lockagentv1connect.NewLockServiceClient(client, URL)
	d.Counts = lockagentv1connect.NewCountServiceClient(client, URL)
	d.Look = lockagentv1connect.NewLookServiceClient(client, URL)
	d.Operate = lockagentv1connect.NewOperateServiceClient(client, URL)
	return d
}

// Dial makes a connection to the daemon, for one claim.
func (d *Daemon) Dial(ctx context.Context) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "unix", d.Path)
}

// Close closes the connections that nobody uses.
func (d *Daemon) Close() { d.Transport.CloseIdleConnections() }

// refusedCodes are the exit codes for what the daemon refuses, and for how claims end.
var refusedCodes = []struct {
	code int
	by   []error
}{
	{
		cli.ExitLost,
		[]error{lockagent.ErrLost, lockagent.ErrNotHeld, lockagent.ErrNotOwner, lockagent.ErrReleased, refusal.ErrNoClaim},
	},
	{cli.ExitNotPermitted, []error{lockagent.ErrNotPermitted, refusal.ErrForbidden, refusal.ErrQuota}},
	{cli.ExitUnavailable, []error{
		lockagent.ErrStoreUnavailable, lockagent.ErrTooFewReplicas, lockagent.ErrUnconfirmed, lockagent.ErrClosed,
		lockagent.ErrNotGranted,
		refusal.ErrDraining, refusal.ErrJournal,
	}},
	{cli.ExitUsage, []error{
		lockagent.ErrBadName, lockagent.ErrBadOption, lockagent.ErrWrongKind, lockagent.ErrWrongType, lockagent.ErrUpgrade,
		lockagent.ErrReentry, lockagent.ErrLeaseTooShort, lockagent.ErrNoTokens,
	}},
	{cli.ExitBug, []error{lockagent.ErrInternal}},
}

// Refused is the error for a daemon that said no, and nil if err is none of its words.
func Refused(err error) error {
	for _, r := range refusedCodes {
		if slices.ContainsFunc(r.by, func(by error) bool { return errors.Is(err, by) }) {
			return &cli.Failure{Code: r.code, Err: err}
		}
	}
	return nil
}

// Gone reports whether a call failed because the connection to the daemon ended.
func Gone(err error) bool {
	return slices.ContainsFunc(
		[]error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE, net.ErrClosed},
		func(by error) bool { return errors.Is(err, by) },
	)
}

// NoSocket is the error of a call to a path where there is no socket. A daemon that leaves its claims to the next one
// leaves its socket as well. So nobody waits for a daemon there.
type NoSocket string

func (s NoSocket) Error() string { return "no daemon listens on " + string(s) }

// Failed is the error of a call to the daemon, or nil if there is none.
func (d *Daemon) Failed(err error) error {
	if err == nil {
		return nil
	}
	told := wire.Refused(err)
	if f := Refused(told); f != nil {
		return f
	}
	switch {
	case errors.Is(err, fs.ErrPermission):
		return &cli.Failure{
			Code: cli.ExitNotPermitted,
			Err:  fmt.Errorf("you may not connect to the daemon on %s: its mode and its group say who may", d.Path),
		}
	case errors.Is(err, fs.ErrNotExist):
		return &cli.Failure{
			Code: cli.ExitNoDaemon, Err: NoSocket(d.Path), Try: "lockagent serve --socket " + cli.ShellWord(d.Path),
		}
	case errors.Is(err, syscall.ECONNREFUSED):
		return &cli.Failure{
			Code: cli.ExitNoDaemon, Err: fmt.Errorf("no daemon listens on %s", d.Path),
			Try: "lockagent serve --socket " + cli.ShellWord(d.Path),
		}
	case Gone(err):
		return &cli.Failure{
			Code: cli.ExitNoDaemon,
			Err:  fmt.Errorf("the daemon on %s ended before it answered, and may have done what it was asked", d.Path),
			Try:  "lockagent doctor    (says whether it runs again)",
		}
	case errors.Is(err, context.DeadlineExceeded):
		return &cli.Failure{
			Code: cli.ExitUnavailable,
			Err:  fmt.Errorf("the daemon on %s gave no answer in time, and may still do what it was asked", d.Path),
			Try:  "lockagent doctor    (says what is wrong)",
		}
	case errors.Is(err, context.Canceled):
		return &cli.Failure{Code: cli.ExitNoDaemon, Err: fmt.Errorf("interrupted before the daemon on %s answered", d.Path)}
	}
	if raw, ok := errors.AsType[*url.Error](told); ok { // the URL is none of the user's
		told = raw.Err
	}
	return &cli.Failure{
		Code: cli.ExitNoDaemon, Err: fmt.Errorf("the daemon on %s does not answer as it should: %w", d.Path, told),
		Try: "lockagent doctor    (says what is wrong)",
	}
}
