package api

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/daemon/claims"
	"github.com/lockagent/lockagent/internal/daemon/wire"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
	"github.com/lockagent/lockagent/proto/lockagent/v1/lockagentv1connect"
)

// operates is the OperateService.
type operates struct{ Config }

var _ lockagentv1connect.OperateServiceHandler = (*operates)(nil)

// maxDrain bounds how long a call to drain waits.
const maxDrain = time.Hour

// operator returns the client, if it may break the lock of a name.
func (o *operates) operator(ctx context.Context, name string) (claims.Client, error) {
	client, err := o.client(ctx)
	if err == nil {
		err = o.Access.Operate(ctx, lockagent.Name(name))
	}
	return client, err
}

// Break implements [lockagentv1connect.OperateServiceHandler].
func (o *operates) Break(ctx context.Context, req *lockagentv1.BreakRequest) (*lockagentv1.BreakResponse, error) {
	client, err := o.operator(ctx, req.GetName())
	if err != nil {
		return nil, wire.Refuse(err)
	}
	name := lockagent.Name(req.GetName())
	kind := wire.ToKind(req.GetKind())
	token := lockagent.Token(req.GetToken())
	by := o.signature(client, req.GetReason())
	var broken <-chan lockagent.Result[bool]
	if token == 0 {
		broken = o.Agent.Break(name, kind, by)
	} else {
		broken = o.Agent.BreakHold(name, kind, token, by)
	}
	select {
	case r := <-broken:
		if token != 0 && errors.Is(r.Err, lockagent.ErrNotHeld) {
			r.Err = fmt.Errorf(
				"%w: no client of this daemon holds %q with the token %d; look who does, or leave the token out",
				lockagent.ErrNotHeld, name, token,
			)
		}
		if r.Err != nil {
			return nil, wire.Refuse(r.Err)
		}
		if r.Value {
			o.Logger.InfoContext(
				o.trace(ctx), "a lock was broken",
				"lock", name, "user", o.UserName(client.UID), "uid", client.UID, "reason", req.GetReason(),
			)
		}
		return &lockagentv1.BreakResponse{Broken: r.Value}, nil
	case <-ctx.Done():
		return nil, wire.Refuse(context.Cause(ctx))
	}
}

// signature says who breaks a lock and why, for its holders and for the event log.
func (o *operates) signature(by claims.Client, reason string) string {
	who := o.Who(&claims.Request{Client: by}).String()
	if reason != "" {
		who += ": " + reason
	}
	return strings.ToValidUTF8(who[:min(len(who), lockagent.MaxNameLen)], "")
}

// Drain implements [lockagentv1connect.OperateServiceHandler].
func (o *operates) Drain(ctx context.Context, req *lockagentv1.DrainRequest) (*lockagentv1.DrainResponse, error) {
	client, err := o.operator(ctx, "")
	if err != nil {
		return nil, wire.Refuse(err)
	}
	timeout, err := wire.ToDuration("timeout", req.GetTimeout())
	if err == nil && (timeout < 0 || timeout > maxDrain) {
		err = &lockagent.OptionError{Option: "timeout", Reason: fmt.Sprintf("%v is not between 0 and %v", timeout, maxDrain)}
	}
	if err == nil && req.GetUndo() && req.GetWait() {
		err = &lockagent.OptionError{Option: "wait", Reason: "a drain is taken back at once; leave it out"}
	}
	if err == nil && req.GetUndo() {
		return o.undrain(ctx, client, timeout)
	}
	if err != nil {
		return nil, wire.Refuse(err)
	}
	if !req.GetWait() {
		o.Logger.InfoContext(
			o.trace(ctx), "no new claims are taken from now on", "user", o.UserName(client.UID), "uid", client.UID,
		)
		o.Book.Drain(timeout)
	}
	waits, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return &lockagentv1.DrainResponse{Left: int32(o.Book.Await(waits)), Undone: !o.Book.Drains()}, nil
}

// undrain takes a drain back.
func (o *operates) undrain(
	ctx context.Context, client claims.Client, timeout time.Duration,
) (*lockagentv1.DrainResponse, error) {
	if timeout != 0 {
		return nil, wire.Refuse(&lockagent.OptionError{
			Option: "timeout", Reason: "a drain is taken back at once; leave the timeout out",
		})
	}
	if err := o.Book.Undrain(); err != nil {
		return nil, wire.Refuse(err)
	}
	o.Logger.InfoContext(o.trace(ctx), "new claims are taken again", "user", o.UserName(client.UID), "uid", client.UID)
	n := o.Book.Counts()
	return &lockagentv1.DrainResponse{Left: int32(n.Held + n.Waiting), Undone: true}, nil
}
