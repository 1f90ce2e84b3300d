//go:build linux

package client

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/internal/daemon/wire"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// List visits the locks that the daemon knows and that are asked for, until visit returns false.
func (d *Daemon) List(ctx context.Context, req *lockagentv1.ListRequest, visit func(*lockagentv1.Lock) bool) error {
	for {
		page, err := d.Look.List(ctx, req)
		if err != nil {
			return d.Failed(err)
		}
		for _, l := range page.GetLocks() {
			if !visit(l) {
				return nil
			}
		}
		if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
			return nil
		}
	}
}

// OfKind makes a call about a lock, with its kind. The first of these that there is counts:
//
//   - the kind that was given;
//   - the kind that the daemon knows;
//   - the kind of lockagent lock. If the store refuses it, the call is made again with the kind that the store tells.
func (d *Daemon) OfKind(
	ctx context.Context, name lockagent.Name, given KindFlag, call func(lockagentv1.Kind) error,
) error {
	kind := lockagent.LockKind(given)
	if given == "" {
		err := d.named(ctx, name, func(l *lockagentv1.Lock) bool {
			kind = wire.ToKind(l.GetKind())
			return kind == ""
		})
		if err != nil {
			return err
		}
	}
	err := call(wire.FromKind(cmp.Or(kind, lockagent.ReadWriteLock)))
	if other, ok := errors.AsType[*lockagent.KindError](wire.Refused(err)); ok && kind == "" {
		err = call(wire.FromKind(other.Used))
	}
	return d.Failed(err)
}

// named visits what the daemon knows under a name, once for each kind, until visit returns false. A user who may look
// at nothing visits nothing, and is not refused: this is a part of verbs that are about something else.
func (d *Daemon) named(ctx context.Context, name lockagent.Name, visit func(*lockagentv1.Lock) bool) error {
	found, err := d.Look.List(ctx, &lockagentv1.ListRequest{Name: string(name), OnlyVisible: true})
	if err != nil {
		return d.Failed(err)
	}
	for _, l := range found.GetLocks() {
		if l.GetName() == string(name) && !visit(l) { // an older daemon tells of others, too
			break
		}
	}
	return nil
}

// Holder says who holds a lock as ls does, if a program of this host does. Otherwise it is who was told, by the name in
// the store.
func (d *Daemon) Holder(ctx context.Context, name lockagent.Name, told string) string {
	text := told
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_ = d.named(ctx, name, func(l *lockagentv1.Lock) bool { // without an answer the other name has to do
		v := ViewOf(l)
		if len(v.Holders) > 0 {
			text = v.Holder()
		}
		return len(v.Holders) == 0
	})
	return cli.OneLine(text)
}

// Denied puts the holder as ls has it into an error about a lock that somebody holds.
func (d *Daemon) Denied(err error) error {
	if e, ok := errors.AsType[*lockagent.HeldError](err); ok {
		e.Holder = d.Holder(context.Background(), e.Name, e.Holder)
	}
	if e, ok := errors.AsType[*lockagent.WaitError](err); ok && e.Holder != "" {
		e.Holder = d.Holder(context.Background(), e.Name, e.Holder)
	}
	return err
}
