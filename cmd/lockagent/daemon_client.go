//go:build linux

package main

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
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/daemon/refusal"
	"github.com/lockagent/lockagent/internal/daemon/wire"
	"github.com/lockagent/lockagent/internal/place"
	"github.com/lockagent/lockagent/proto/lockagent/v1/lockagentv1connect"
)

// daemonFlag is --socket of each verb that talks to the daemon.
type daemonFlag struct{ socket string }

func (f *daemonFlag) add(cmd *cobra.Command) {
	connectionFlag(cmd, &f.socket, "socket", "`path` of the daemon's Unix socket; by default that of this user's daemon if there is one, and else "+place.System)
}

// open returns the daemon on the socket. It does not connect yet. The settings of the daemon do not count: they may be
// for its user, or its environment, alone.
func (f *daemonFlag) open(cmd *cobra.Command) (*daemonClient, error) {
	path := cmp.Or(f.socket, place.Current().Find())
	if len(path) > place.MostSocketPath {
		return nil, usage(withPlace(cmd, "--socket "+place.System), "--socket (or $%s) has %d bytes, and the path of a socket has at most %d",
			variable("socket"), len(path), place.MostSocketPath)
	}
	return newDaemonClient(path), nil
}

// daemonClient calls the daemon. Claims have connections of their own.
type daemonClient struct {
	path      string
	transport *http.Transport
	locks     lockagentv1connect.LockServiceClient
	counts    lockagentv1connect.CountServiceClient
	look      lockagentv1connect.LookServiceClient
	operate   lockagentv1connect.OperateServiceClient
}

// daemonURL is for the library, which needs one.
const daemonURL = "http://lockagent"

func newDaemonClient(path string) *daemonClient { return newBoundedClient(path, silentTime) }

// newBoundedClient is newDaemonClient with another bound for the answers of the daemon.
func newBoundedClient(path string, patience time.Duration) *daemonClient {
	bound := connect.WithInterceptors(bounded(patience))
	d := &daemonClient{path: path}
	d.transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return d.dial(ctx) }}
	client := &http.Client{Transport: d.transport}
	d.locks = lockagentv1connect.NewLockServiceClient(client, daemonURL, bound)
	d.counts = lockagentv1connect.NewCountServiceClient(client, daemonURL, bound)
	d.look = lockagentv1connect.NewLookServiceClient(client, daemonURL, bound)
	d.operate = lockagentv1connect.NewOperateServiceClient(client, daemonURL, bound)
	return d
}

func (d *daemonClient) dial(ctx context.Context) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "unix", d.path)
}

func (d *daemonClient) close() { d.transport.CloseIdleConnections() }

// refusedCodes are the exit codes for what the daemon refuses, and for how claims end.
var refusedCodes = []struct {
	code int
	by   []error
}{
	{exitLost, []error{lockagent.ErrLost, lockagent.ErrNotHeld, lockagent.ErrNotOwner, lockagent.ErrReleased, refusal.ErrNoClaim}},
	{exitNotPermitted, []error{lockagent.ErrNotPermitted, refusal.ErrForbidden, refusal.ErrQuota}},
	{exitUnavailable, []error{
		lockagent.ErrStoreUnavailable, lockagent.ErrTooFewReplicas, lockagent.ErrUnconfirmed, lockagent.ErrClosed, lockagent.ErrNotGranted,
		refusal.ErrDraining, refusal.ErrJournal,
	}},
	{exitUsage, []error{
		lockagent.ErrBadName, lockagent.ErrBadOption, lockagent.ErrWrongKind, lockagent.ErrWrongType, lockagent.ErrUpgrade,
		lockagent.ErrReentry, lockagent.ErrLeaseTooShort, lockagent.ErrNoTokens,
	}},
	{exitBug, []error{lockagent.ErrInternal}},
}

// refused is the error for a daemon that said no, and nil if err is none of its words.
func refused(err error) error {
	for _, r := range refusedCodes {
		if slices.ContainsFunc(r.by, func(by error) bool { return errors.Is(err, by) }) {
			return &failure{code: r.code, err: err}
		}
	}
	return nil
}

// gone reports whether a call failed because the connection to the daemon ended.
func gone(err error) bool {
	return slices.ContainsFunc([]error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE, net.ErrClosed}, func(by error) bool { return errors.Is(err, by) })
}

// noSocket is the error of a call to a path where there is no socket. A daemon that leaves its claims to the next one
// leaves its socket as well. So nobody waits for a daemon there.
type noSocket string

func (s noSocket) Error() string { return "no daemon listens on " + string(s) }

// failed is the error of a call to the daemon.
func (d *daemonClient) failed(err error) error {
	told := wire.Refused(err)
	if f := refused(told); f != nil {
		return f
	}
	if u, ok := errors.AsType[unanswered](err); ok {
		return &failure{exitUnavailable, fmt.Errorf("the daemon on %s gave %w, and may still do what it was asked", d.path, u), "lockagent doctor    (says what is wrong)"}
	}
	switch {
	case errors.Is(err, fs.ErrPermission):
		return &failure{exitNotPermitted, fmt.Errorf("you may not connect to the daemon on %s: its mode and its group say who may", d.path), ""}
	case errors.Is(err, fs.ErrNotExist):
		return &failure{exitNoDaemon, noSocket(d.path), "lockagent serve --socket " + shellWord(d.path)}
	case errors.Is(err, syscall.ECONNREFUSED):
		return &failure{exitNoDaemon, fmt.Errorf("no daemon listens on %s", d.path), "lockagent serve --socket " + shellWord(d.path)}
	case gone(err):
		return &failure{exitNoDaemon, fmt.Errorf("the daemon on %s ended before it answered, and may have done what it was asked", d.path), "lockagent doctor    (says whether it runs again)"}
	case errors.Is(err, context.DeadlineExceeded):
		return &failure{exitNoDaemon, fmt.Errorf("the daemon on %s does not answer in time", d.path), "lockagent doctor    (says what is wrong)"}
	case errors.Is(err, context.Canceled):
		return &failure{exitNoDaemon, fmt.Errorf("interrupted before the daemon on %s answered", d.path), ""}
	}
	if raw, ok := errors.AsType[*url.Error](told); ok { // the URL is none of the user's
		told = raw.Err
	}
	return &failure{exitNoDaemon, fmt.Errorf("the daemon on %s does not answer as it should: %w", d.path, told), "lockagent doctor    (says what is wrong)"}
}
