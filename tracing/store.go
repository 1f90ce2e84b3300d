package tracing

import (
	"context"
	"errors"
	"net"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockagent/lockagent"
)

// operation is a method of the store that is traced.
type operation int

const (
	acquire operation = iota
	renew
	release
	breaking
	inspect
	latch
	permits
	operations
)

func (o operation) String() string {
	return [operations]string{"acquire", "renew", "release", "break", "inspect", "latch", "permits"}[o]
}

// outcome is how a call to the store ended.
type outcome int

const (
	granted outcome = iota
	held
	confirmed
	denied
	released
	over
	broken
	free
	changed
	unchanged
	unavailable // and what follows are errors
	grace
	wrongType
	notPermitted
	noTokens
	closed
	withdrawn
	failed
	outcomes
)

func (o outcome) String() string {
	return [outcomes]string{
		"granted", "held", "confirmed", "denied", "released", "over", "broken", "free", "changed", "unchanged",
		"unavailable", "grace", "wrongtype", "notpermitted", "notokens", "closed", "withdrawn", "error",
	}[o]
}

// outcomeOf is one of two outcomes, or that of an error.
func outcomeOf(err error, yes bool, ifYes, ifNo outcome) outcome {
	switch {
	case err == nil && yes:
		return ifYes
	case err == nil:
		return ifNo
	case errors.Is(err, lockagent.ErrGrace): // it is ErrStoreUnavailable, too
		return grace
	case errors.Is(err, lockagent.ErrStoreUnavailable):
		return unavailable
	case errors.Is(err, lockagent.ErrWrongType):
		return wrongType
	case errors.Is(err, lockagent.ErrNotPermitted):
		return notPermitted
	case errors.Is(err, lockagent.ErrNoTokens):
		return noTokens
	case errors.Is(err, lockagent.ErrClosed):
		return closed
	case errors.Is(err, lockagent.ErrWithdrawn):
		return withdrawn
	}
	return failed
}

// store makes spans and metrics of calls.
type store struct {
	lockagent.Store                    // takes the calls, and those that are not traced
	operator        lockagent.Operator // nil if the store has none
	counters        lockagent.Counters // nil if the store has none
	tracer          tracer
	metrics         *storeMetrics
	starts          [operations][]trace.SpanStartOption
	names           [operations]string
}

var (
	_ lockagent.Store    = (*store)(nil)
	_ lockagent.Operator = (*store)(nil)
	_ lockagent.Counters = (*store)(nil)
)

// Store returns a store that makes spans and metrics of the calls it passes on to
// next, and otherwise is next: closing it closes next. It has the layers of next, see [lockagent.Layer].
func Store(next lockagent.Store, c Config) lockagent.Store {
	s := &store{
		Store:   next,
		tracer:  tracer{configured: c.TracerProvider},
		metrics: newStoreMetrics(c.meter()),
	}
	s.operator, _ = lockagent.Layer[lockagent.Operator](next)
	s.counters, _ = lockagent.Layer[lockagent.Counters](next)
	for op := range operations {
		name, about := c.database(op)
		s.names[op] = name
		s.starts[op] = []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(about...)}
	}
	return s
}

// Unwrap returns the store that takes the calls, see [lockagent.Layer].
func (s *store) Unwrap() lockagent.Store { return s.Store }

// database names an operation, and describes it by the semantic conventions for
// databases.
func (c Config) database(op operation) (name string, about []attribute.KeyValue) {
	name = "store " + op.String()
	about = []attribute.KeyValue{attribute.String("db.operation.name", op.String())}
	if c.System == "redis" { // each operation is a script, which Redis calls a command with
		name = "EVALSHA " + op.String()
		about = []attribute.KeyValue{
			attribute.String("db.operation.name", "EVALSHA"), attribute.String("db.stored_procedure.name", op.String()),
		}
	}
	if c.System != "" {
		about = append(about, attribute.String("db.system.name", c.System))
	}
	return name, append(about, c.server()...)
}

// server describes where a call goes.
func (c Config) server() []attribute.KeyValue {
	if c.Address == "" {
		return nil
	}
	host, service, err := net.SplitHostPort(c.Address)
	if err != nil {
		return []attribute.KeyValue{attribute.String("server.address", c.Address)}
	}
	about := []attribute.KeyValue{attribute.String("server.address", host)}
	if port, err := strconv.Atoi(service); err == nil {
		about = append(about, attribute.Int("server.port", port))
	}
	return about
}

// Acquire implements [lockagent.Store].
func (s *store) Acquire(ctx context.Context, req lockagent.AcquireRequest, done func(lockagent.AcquireReply, error)) {
	c, ok := s.begin(ctx, acquire, req.Name)
	if !ok {
		s.Store.Acquire(ctx, req, done)
		return
	}
	s.Store.Acquire(c.ctx, req, func(reply lockagent.AcquireReply, err error) {
		s.metrics.rested(c.ctx, &reply)
		c.end(outcomeOf(err, reply.Granted, granted, held), err)
		done(reply, err)
	})
}

// Renew implements [lockagent.Store].
func (s *store) Renew(ctx context.Context, req lockagent.RenewRequest, done func(lockagent.RenewReply, error)) {
	c, ok := s.begin(ctx, renew, req.Name)
	if !ok {
		s.Store.Renew(ctx, req, done)
		return
	}
	s.Store.Renew(c.ctx, req, func(reply lockagent.RenewReply, err error) {
		how := outcomeOf(err, reply.Held, confirmed, denied)
		s.metrics.renewals.Add(c.ctx, 1, s.metrics.kept[how]...)
		c.end(how, err)
		done(reply, err)
	})
}

// Release implements [lockagent.Store]. A pass takes the trace context of this call
// to the next holder, whose span has a link to it then.
func (s *store) Release(ctx context.Context, req lockagent.ReleaseRequest, done func(lockagent.ReleaseReply, error)) {
	c, ok := s.begin(ctx, release, req.Name)
	if req.Trace == "" {
		req.Trace = traceParentOf(c.ctx)
	}
	if !ok {
		s.Store.Release(ctx, req, done)
		return
	}
	s.Store.Release(c.ctx, req, func(reply lockagent.ReleaseReply, err error) {
		c.end(outcomeOf(err, reply.Released, released, over), err)
		done(reply, err)
	})
}

// Break implements [lockagent.Operator].
func (s *store) Break(ctx context.Context, req lockagent.BreakRequest, done func(lockagent.BreakReply, error)) {
	c, ok := s.begin(ctx, breaking, req.Name)
	if !ok {
		s.operator.Break(ctx, req, done)
		return
	}
	s.operator.Break(c.ctx, req, func(reply lockagent.BreakReply, err error) {
		c.end(outcomeOf(err, reply.Broken, broken, free), err)
		done(reply, err)
	})
}

// Inspect implements [lockagent.Operator].
func (s *store) Inspect(
	ctx context.Context, name lockagent.Name, kind lockagent.LockKind, done func(lockagent.Inspection, error),
) {
	c, ok := s.begin(ctx, inspect, name)
	if !ok {
		s.operator.Inspect(ctx, name, kind, done)
		return
	}
	s.operator.Inspect(c.ctx, name, kind, func(found lockagent.Inspection, err error) {
		c.end(outcomeOf(err, found.Held, held, free), err)
		done(found, err)
	})
}

// Permits implements [lockagent.Counters].
func (s *store) Permits(ctx context.Context, req lockagent.PermitsRequest, done func(lockagent.PermitsReply, error)) {
	c, ok := s.begin(ctx, permits, req.Name)
	if !ok {
		s.counters.Permits(ctx, req, done)
		return
	}
	s.counters.Permits(c.ctx, req, func(reply lockagent.PermitsReply, err error) {
		c.end(outcomeOf(err, reply.Done, changed, unchanged), err)
		done(reply, err)
	})
}

// Latch implements [lockagent.Counters].
func (s *store) Latch(ctx context.Context, req lockagent.LatchRequest, done func(lockagent.LatchReply, error)) {
	c, ok := s.begin(ctx, latch, req.Name)
	if !ok {
		s.counters.Latch(ctx, req, done)
		return
	}
	s.counters.Latch(c.ctx, req, func(reply lockagent.LatchReply, err error) {
		c.end(outcomeOf(err, reply.Changed, changed, unchanged), err)
		done(reply, err)
	})
}

// call is one that is under way. It is passed by value, so that a call of which
// nobody wants to know allocates nothing.
type call struct {
	store *store
	op    operation
	ctx   context.Context // with the span
	span  trace.Span
	began time.Time
}

// begin reports false if nobody wants to know of the call.
func (s *store) begin(ctx context.Context, op operation, name lockagent.Name) (call, bool) {
	span := noSpan
	if s.tracer.enabled(ctx) && trace.SpanFromContext(ctx) != noSpan {
		span = s.tracer.start(ctx, s.names[op], s.starts[op]...)
	}
	if !span.IsRecording() && !s.metrics.enabled(ctx, op) {
		return call{ctx: ctx}, false
	}
	if span.IsRecording() {
		span.SetAttributes(attribute.String("lockagent.lock.name", string(name)))
	}
	return call{store: s, op: op, ctx: within(ctx, span), span: span, began: time.Now()}, true
}

func (c call) end(how outcome, err error) {
	m := c.store.metrics
	m.duration.Record(c.ctx, time.Since(c.began).Seconds(), m.calls[c.op][how]...)
	if refused := m.refused[how]; refused != nil {
		m.refusals.Add(c.ctx, 1, refused...)
	}
	if c.span.IsRecording() {
		c.span.SetAttributes(attribute.String("lockagent.outcome", how.String()))
		if err != nil {
			c.span.SetAttributes(attribute.String("error.type", how.String()))
			c.span.SetStatus(codes.Error, err.Error())
		}
	}
	c.span.End()
}
