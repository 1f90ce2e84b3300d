//go:build linux

package main

import (
	"context"
	"slices"
	"strings"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/daemon/wire"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// list visits the locks that the daemon knows and the pattern matches, until visit returns false.
func (d *daemonClient) list(ctx context.Context, pattern string, visit func(*lockagentv1.Lock) bool) error {
	req := &lockagentv1.ListRequest{Pattern: pattern}
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

// kindOf is the kind of a lock: the one that was given, or else as the daemon knows it, or else plain.
func (d *daemonClient) kindOf(ctx context.Context, name lockagent.Name, given kindFlag) (lockagent.LockKind, error) {
	kind := lockagent.LockKind(given)
	if given != "" {
		return kind, nil
	}
	err := d.list(ctx, strings.ReplaceAll(string(name), "*", "**"), func(l *lockagentv1.Lock) bool {
		if l.GetName() == string(name) {
			kind = wire.ToKind(l.GetKind())
		}
		return kind == ""
	})
	return kind, err
}

// nameOf is the lock of a claim, or empty if nobody knows it.
func (d *daemonClient) nameOf(ctx context.Context, id string) (name lockagent.Name, err error) {
	err = d.list(ctx, "", func(l *lockagentv1.Lock) bool {
		if slices.ContainsFunc(append(l.GetHolders(), l.GetWaiters()...), func(c *lockagentv1.Claim) bool { return c.GetClaim() == id }) {
			name = lockagent.Name(l.GetName())
		}
		return name == ""
	})
	return name, err
}
