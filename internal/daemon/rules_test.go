//go:build linux

package daemon

import (
	"context"
	"errors"
	"maps"
	"os/user"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/daemon/access"
	"github.com/lockagent/lockagent/internal/daemon/refusal"
	"github.com/lockagent/lockagent/internal/daemon/wire"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

func TestAccess(t *testing.T) {
	all, err := access.ParsePattern("**")
	if err != nil {
		t.Fatal(err)
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	var told atomic.Int32
	limited, err := access.New(access.Config{
		Directory: Directory{},
		Rules: []access.Rule{
			{Users: []string{me.Username}, Match: all},
			{Match: all, Allow: access.Acquire | access.Look | access.Operate},
		},
		Now: time.Now, Refused: func(uint32, error, uint64) { told.Add(1) },
	})
	if err != nil {
		t.Fatal(err)
	}
	d := run(t, func(cfg *Config) { cfg.Access = limited })
	c := d.client(t)
	refused := func(err error) {
		t.Helper()
		if !errors.Is(wire.Refused(err), refusal.ErrForbidden) || connect.CodeOf(err) != connect.CodePermissionDenied {
			t.Errorf("got %v", err)
		}
	}
	s, err := c.Acquire(background, &lockagentv1.AcquireRequest{Name: "door"})
	if err == nil {
		s.Receive()
		err = s.Err()
		_ = s.Close()
	}
	refused(err)
	_, err = c.Check(background, &lockagentv1.CheckRequest{Name: "door"})
	refused(err)
	_, err = c.look.Get(background, &lockagentv1.GetRequest{Name: "door"})
	refused(err)
	end, err := firstOf(t, func(ctx context.Context) (*connect.ServerStreamForClient[lockagentv1.WatchEvent], error) {
		return c.look.Watch(ctx, &lockagentv1.WatchRequest{})
	})
	end()
	refused(err)
	_, err = c.operate.Break(background, &lockagentv1.BreakRequest{Name: "door"})
	refused(err)
	_, err = c.operate.Drain(background, &lockagentv1.DrainRequest{})
	refused(err)
	if _, ok := client(background); ok {
		t.Error("a request without a connection has a client")
	}
	nobody := rules{limited}
	for what, err := range map[string]error{
		"look": nobody.Look(background, "door"), "enter": nobody.Enter(background, true),
	} {
		if !errors.Is(err, refusal.ErrForbidden) {
			t.Errorf("%s without a connection: %v", what, err)
		}
	}
	if err := nobody.Use(background, 0, "door"); !errors.Is(err, refusal.ErrNoClaim) {
		t.Errorf("a secret without a connection: %v", err)
	}
	if n := told.Load(); n != 1 {
		t.Errorf("%d refusals were told", n)
	}

	if err := limited.Replace([]access.Rule{{Match: all, Allow: access.Acquire}}, access.Limits{}); err != nil {
		t.Fatal(err)
	}
	_, err = c.look.List(background, &lockagentv1.ListRequest{})
	refused(err)
	count := func() (n uint64) {
		for _, r := range limited.Refusals() {
			n += r.Count
		}
		return n
	}
	before := count()
	if got, err := c.look.List(background, &lockagentv1.ListRequest{OnlyVisible: true}); err != nil ||
		len(got.GetLocks()) != 0 || count() != before {
		t.Errorf("what is visible is %v, %v, with %d refusals after %d", got, err, count(), before)
	}

	one, err := access.ParsePattern("a")
	if err != nil {
		t.Fatal(err)
	}
	if err := limited.Replace(
		[]access.Rule{{Match: one, Allow: access.Look}, {Match: all, Allow: access.Acquire}},
		access.Limits{Claims: 1, NameLen: 9},
	); err != nil {
		t.Fatal(err)
	}
	c.acquire(t, &lockagentv1.AcquireRequest{Name: "b"}).granted()
	if got, err := c.look.List(background, &lockagentv1.ListRequest{}); err != nil || len(got.GetLocks()) != 0 {
		t.Errorf("%v, %v", got, err)
	}
	for name, want := range map[string]error{
		"c": refusal.ErrQuota, "a": refusal.ErrForbidden, "0123456789": lockagent.ErrBadName,
	} {
		s, err := c.Acquire(background, &lockagentv1.AcquireRequest{Name: name})
		if err == nil {
			s.Receive()
			err = s.Err()
			_ = s.Close()
		}
		if !errors.Is(wire.Refused(err), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	counts := make(map[string]uint64)
	for _, c := range limited.Refusals() {
		counts[c.Reason] += c.Count
	}
	if want := map[string]uint64{"rights": 8, "claims": 1, "name_length": 1}; !maps.Equal(counts, want) {
		t.Errorf("the refusals are %v, want %v", counts, want)
	}
}
