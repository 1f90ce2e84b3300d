//go:build linux

package daemon

import (
	"context"
	"fmt"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/daemon/access"
	"github.com/lockagent/lockagent/internal/daemon/api"
	"github.com/lockagent/lockagent/internal/daemon/quota"
	"github.com/lockagent/lockagent/internal/daemon/refusal"
	"github.com/lockagent/lockagent/internal/daemon/socket"
)

// rules asks the rules about the peer of a connection.
type rules struct{ *access.Access }

var _ api.Access = rules{}

var errNobody = fmt.Errorf("%w: the system does not tell who you are", refusal.ErrForbidden)

// check returns a refusal unless the peer has a right to a name.
func (r rules) check(ctx context.Context, right access.Right, name lockagent.Name) error {
	p, ok := socket.FromContext(ctx)
	if !ok {
		return errNobody
	}
	return r.Check(access.Peer{UID: p.UID, Groups: p.Groups}, right, string(name))
}

// Acquire implements [api.Access].
func (r rules) Acquire(ctx context.Context, name lockagent.Name) error {
	return r.check(ctx, access.Acquire, name)
}

// Hold implements [api.Access].
func (r rules) Hold(ctx context.Context, of ...quota.Kind) (leave func(), err error) {
	uid := uint32(quota.Nobody)
	if p, ok := socket.FromContext(ctx); ok {
		uid = p.UID
	}
	return r.Access.Hold(uid, of...)
}

// Look implements [api.Access].
func (r rules) Look(ctx context.Context, name lockagent.Name) error {
	return r.check(ctx, access.Look, name)
}

// Operate implements [api.Access].
func (r rules) Operate(ctx context.Context, name lockagent.Name) error {
	return r.check(ctx, access.Operate, name)
}

// Use implements [api.Access].
func (r rules) Use(ctx context.Context, owner uint32, name lockagent.Name) error {
	p, ok := socket.FromContext(ctx)
	if !ok {
		return refusal.ErrNoClaim
	}
	return r.Access.Use(access.Peer{UID: p.UID, Groups: p.Groups}, owner, string(name))
}

// Refused implements [api.Access].
func (r rules) Refused(ctx context.Context, err error) error {
	if p, ok := socket.FromContext(ctx); ok {
		return r.Access.Refused(p.UID, err)
	}
	return err
}

// Enter implements [api.Access].
func (r rules) Enter(ctx context.Context, changes bool) error {
	p, ok := socket.FromContext(ctx)
	if !ok {
		return errNobody
	}
	return r.Access.Enter(access.Peer{UID: p.UID, Groups: p.Groups}, toSee(changes))
}

// Sees implements [api.Access].
func (r rules) Sees(ctx context.Context, name lockagent.Name, changes bool) bool {
	p, ok := socket.FromContext(ctx)
	return ok && r.Access.Sees(access.Peer{UID: p.UID, Groups: p.Groups}, toSee(changes), string(name))
}

// toSee is the right to look at names, or to watch their changes.
func toSee(changes bool) access.Right {
	if changes {
		return access.Watch
	}
	return access.Look
}
