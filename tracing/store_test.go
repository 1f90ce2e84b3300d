package tracing

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockagent/lockagent"
)

// canned answers every call with the same.
type canned struct {
	yes    bool
	err    error
	ctx    context.Context // of the last call
	closed bool
	woken  int
	heard  int
	resets int
}

func (c *canned) Acquire(ctx context.Context, _ lockagent.AcquireRequest, done func(lockagent.AcquireReply, error)) {
	c.ctx = ctx
	done(lockagent.AcquireReply{Granted: c.yes}, c.err)
}

func (c *canned) Renew(ctx context.Context, _ lockagent.RenewRequest, done func(lockagent.RenewReply, error)) {
	c.ctx = ctx
	done(lockagent.RenewReply{Held: c.yes}, c.err)
}

func (c *canned) Release(ctx context.Context, _ lockagent.ReleaseRequest, done func(lockagent.ReleaseReply, error)) {
	c.ctx = ctx
	done(lockagent.ReleaseReply{Released: c.yes}, c.err)
}

func (c *canned) Break(ctx context.Context, _ lockagent.BreakRequest, done func(lockagent.BreakReply, error)) {
	c.ctx = ctx
	done(lockagent.BreakReply{Broken: c.yes}, c.err)
}

func (c *canned) Inspect(ctx context.Context, _ lockagent.Name, done func(lockagent.Inspection, error)) {
	c.ctx = ctx
	done(lockagent.Inspection{Held: c.yes}, c.err)
}

func (c *canned) Identity() string { return "" }

func (c *canned) Subscribe(_ lockagent.Name, wake func()) func() {
	wake()
	return func() { c.woken++ }
}

func (c *canned) Listen(_ lockagent.AgentID, hear func(lockagent.Message)) func() {
	hear(lockagent.Message{})
	return func() { c.heard++ }
}

func (c *canned) OnReset(f func(lockagent.Reset)) func() {
	f(lockagent.Reset{})
	return func() { c.resets++ }
}

func (c *canned) Close() error {
	c.closed = true
	return errors.New("closing")
}

// calls makes each call once and checks that the answer comes through.
var calls = []struct {
	operation string
	yes, no   string
	do        func(t *testing.T, ctx context.Context, s lockagent.Store) (yes bool, err error)
}{
	{"acquire", "granted", "held", func(_ *testing.T, ctx context.Context, s lockagent.Store) (yes bool, err error) {
		s.Acquire(ctx, lockagent.AcquireRequest{Name: "l"}, func(r lockagent.AcquireReply, e error) { yes, err = r.Granted, e })
		return yes, err
	}},
	{"renew", "confirmed", "denied", func(_ *testing.T, ctx context.Context, s lockagent.Store) (yes bool, err error) {
		s.Renew(ctx, lockagent.RenewRequest{Name: "l"}, func(r lockagent.RenewReply, e error) { yes, err = r.Held, e })
		return yes, err
	}},
	{"release", "released", "over", func(_ *testing.T, ctx context.Context, s lockagent.Store) (yes bool, err error) {
		s.Release(ctx, lockagent.ReleaseRequest{Name: "l"}, func(r lockagent.ReleaseReply, e error) { yes, err = r.Released, e })
		return yes, err
	}},
	{"break", "broken", "free", func(_ *testing.T, ctx context.Context, s lockagent.Store) (yes bool, err error) {
		s.Break(ctx, lockagent.BreakRequest{Name: "l"}, func(r lockagent.BreakReply, e error) { yes, err = r.Broken, e })
		return yes, err
	}},
	{"inspect", "held", "free", func(_ *testing.T, ctx context.Context, s lockagent.Store) (yes bool, err error) {
		s.Inspect(ctx, "l", func(r lockagent.Inspection, e error) { yes, err = r.Held, e })
		return yes, err
	}},
}

func TestStoreCalls(t *testing.T) {
	unreachable := fmt.Errorf("wrapped: %w", lockagent.ErrStoreUnavailable)
	for _, call := range calls {
		for _, reply := range []struct {
			yes     bool
			err     error
			outcome string
		}{
			{true, nil, call.yes},
			{false, nil, call.no},
			{false, unreachable, "unavailable"},
			{false, lockagent.ErrWrongType, "wrongtype"},
			{false, lockagent.ErrNotPermitted, "notpermitted"},
			{false, lockagent.ErrClosed, "closed"},
			{false, lockagent.ErrWithdrawn, "withdrawn"},
			{false, errors.New("out of paper"), "error"},
		} {
			t.Run(call.operation+"/"+reply.outcome, func(t *testing.T) {
				r := newRig(t)
				next := &canned{yes: reply.yes, err: reply.err}
				ctx, caller := r.caller()
				yes, err := call.do(t, ctx, Store(next, r.Config))
				if yes != reply.yes || !errors.Is(err, reply.err) {
					t.Errorf("the answer is %v and %v, want %v and %v", yes, err, reply.yes, reply.err)
				}

				span := r.only("store " + call.operation)
				if span.SpanKind != trace.SpanKindClient || span.Parent.SpanID() != caller.SpanID() {
					t.Errorf("the span is of kind %v with the parent %v, want a client's with %v", span.SpanKind, span.Parent.SpanID(), caller.SpanID())
				}
				if trace.SpanContextFromContext(next.ctx).SpanID() != span.SpanContext.SpanID() {
					t.Error("the context of the call does not have its span")
				}
				want := map[string]string{
					"db.operation.name": call.operation, "db.system.name": "redis",
					"lockagent.lock.name": "l", "lockagent.outcome": reply.outcome, "error.type": "(none)",
				}
				status := codes.Unset
				if reply.err != nil {
					want["error.type"], status = reply.outcome, codes.Error
				}
				r.wantAttributes(span, want)
				if span.Status.Code != status {
					t.Errorf("the status is %v, want %v", span.Status, status)
				}

				points := r.points("lockagent.store.call.duration")
				if len(points) != 1 || points[call.operation+"/"+reply.outcome].count != 1 {
					t.Errorf("measured %v, want one %s/%s", points, call.operation, reply.outcome)
				}
				renewals := map[string]point{}
				if call.operation == "renew" {
					outcome := "failed"
					if reply.err == nil {
						outcome = reply.outcome
					}
					renewals[outcome] = point{0, 1}
				}
				r.wantPoints("lockagent.lock.renewals", renewals)
			})
		}
	}
}

func TestOnlyRenewalsNeedAParent(t *testing.T) {
	r := newRig(t)
	s := Store(&canned{yes: true}, r.Config)
	for _, call := range calls {
		if _, err := call.do(t, context.Background(), s); err != nil {
			t.Fatal(err)
		}
		want := 1
		if call.operation == "renew" {
			want = 0
		}
		if got := len(r.ended("store " + call.operation)); got != want {
			t.Errorf("%s has %d spans, want %d", call.operation, got, want)
		}
	}
	r.wantPoints("lockagent.lock.renewals", map[string]point{"confirmed": {0, 1}})
}

func TestNoSystemUnlessConfigured(t *testing.T) {
	r := newRig(t)
	if _, err := calls[0].do(t, context.Background(), Store(&canned{}, Config{TracerProvider: r.sdk})); err != nil {
		t.Fatal(err)
	}
	r.wantAttributes(r.only("store acquire"), map[string]string{"db.system.name": "(none)"})
}

func TestTheRestPassesThrough(t *testing.T) {
	next := &canned{}
	s := Store(next, newRig(t).Config)
	var woken, heard, reset bool
	s.Subscribe("l", func() { woken = true })()
	s.Listen("a", func(lockagent.Message) { heard = true })()
	s.OnReset(func(lockagent.Reset) { reset = true })()
	if err := s.Close(); err == nil || err.Error() != "closing" {
		t.Errorf("close returned %v", err)
	}
	if !woken || !heard || !reset || next.woken != 1 || next.heard != 1 || next.resets != 1 || !next.closed {
		t.Errorf("woken %v, heard %v, reset %v, next %+v", woken, heard, reset, next)
	}
}
