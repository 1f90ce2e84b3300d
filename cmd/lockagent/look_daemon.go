//go:build linux

package main

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/daemon/wire"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// list visits the locks that the daemon knows and that are asked for, until visit returns false.
func (d *daemonClient) list(ctx context.Context, req *lockagentv1.ListRequest, visit func(*lockagentv1.Lock) bool) error {
	for {
		page, err := d.look.List(ctx, req)
		if err != nil {
			return d.failed(err)
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

// ofKind makes a call about a lock, with its kind. The first of these that there is counts:
//
//   - the kind that was given;
//   - the kind that the daemon knows;
//   - the kind of lockagent lock. If the store refuses it, the call is made again with the kind that the store tells.
func (d *daemonClient) ofKind(
	ctx context.Context, name lockagent.Name, given kindFlag, call func(lockagentv1.Kind) error,
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
	if err != nil {
		return d.failed(err)
	}
	return nil
}

// named visits what the daemon knows under a name, once for each kind, until visit returns false. A user who may look
// at nothing visits nothing, and is not refused: this is a part of verbs that are about something else.
func (d *daemonClient) named(ctx context.Context, name lockagent.Name, visit func(*lockagentv1.Lock) bool) error {
	found, err := d.look.List(ctx, &lockagentv1.ListRequest{Name: string(name), OnlyVisible: true})
	if err != nil {
		return d.failed(err)
	}
	for _, l := range found.GetLocks() {
		if l.GetName() == string(name) && !visit(l) { // an older daemon tells of others, too
			break
		}
	}
	return nil
}

// holder says who holds a lock as ls does, if a program of this host does. Otherwise it is who was told, by the name in
// the store.
func (d *daemonClient) holder(ctx context.Context, name lockagent.Name, told string) string {
	text := told
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_ = d.named(ctx, name, func(l *lockagentv1.Lock) bool { // without an answer the other name has to do
		v := viewOf(l)
		if len(v.Holders) > 0 {
			text = v.holder()
		}
		return len(v.Holders) == 0
	})
	return oneLine(text)
}

// denied puts the holder as ls has it into an error about a lock that somebody holds.
func (d *daemonClient) denied(err error) error {
	if e, ok := errors.AsType[*lockagent.HeldError](err); ok {
		e.Holder = d.holder(context.Background(), e.Name, e.Holder)
	}
	if e, ok := errors.AsType[*lockagent.WaitError](err); ok && e.Holder != "" {
		e.Holder = d.holder(context.Background(), e.Name, e.Holder)
	}
	return err
}
