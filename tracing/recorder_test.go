package tracing

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockagent/lockagent"
)

func TestLifeOfAHold(t *testing.T) {
	r := newRig(t)
	rec := r.recorder()
	ctx, caller := r.caller()
	h := newHistory(ctx, rec, "orders/42")
	start := h.now
	h.requested(1, "alice")
	h.pass(time.Second).queued(1, "alice")
	h.pass(time.Second).granted(1, "alice", lockagent.ByStore, 2*time.Second)
	h.pass(10 * time.Second).add(lockagent.Event{Kind: lockagent.EventRenewed, Tenure: 7, Remaining: 29 * time.Second})
	h.pass(12 * time.Second).add(lockagent.Event{
		Kind: lockagent.EventUncertain, Owner: "alice", Token: 101, Tenure: 7, Remaining: 15 * time.Second, Err: "no reply",
	})
	h.pass(3*time.Second).ended(lockagent.EventReleased, 0, 1, "alice", 0)
	h.pass(time.Second).add(lockagent.Event{Kind: lockagent.EventReturned, Tenure: 7})
	r.wantForgotten(rec)

	acquire, hold, release := r.only("acquire"), r.only("hold"), r.only("release")
	if acquire.Parent.SpanID() != caller.SpanID() || acquire.SpanContext.TraceID() != caller.TraceID() {
		t.Error("the acquire is not a child of the caller's span")
	}
	if hold.Parent.SpanID() != acquire.SpanContext.SpanID() {
		t.Error("the hold is not a child of the acquire")
	}
	if release.Parent.SpanID() != hold.SpanContext.SpanID() {
		t.Error("the release is not a child of the hold")
	}
	for _, span := range []struct {
		name       string
		start, end time.Time
		from, to   time.Duration
	}{
		{"acquire", acquire.StartTime, acquire.EndTime, 0, 2 * time.Second},
		{"hold", hold.StartTime, hold.EndTime, 2 * time.Second, 27 * time.Second},
		{"release", release.StartTime, release.EndTime, 27 * time.Second, 27 * time.Second},
	} {
		if from, to := span.start.Sub(start), span.end.Sub(start); from != span.from || to != span.to {
			t.Errorf("%s is from %v to %v, want from %v to %v", span.name, from, to, span.from, span.to)
		}
	}
	whose := map[string]string{
		"lockagent.lock.name": "orders/42", "lockagent.owner": "alice", "lockagent.agent.id": "agent-1",
	}
	what := map[string]string{
		"lockagent.token": "101", "lockagent.tenure": "7", "lockagent.how": "store", "lockagent.replicas": "2",
	}
	r.wantAttributes(acquire, whose)
	r.wantAttributes(acquire, what)
	r.wantAttributes(acquire, map[string]string{"lockagent.outcome": "granted"})
	r.wantAttributes(hold, whose)
	r.wantAttributes(hold, what)
	r.wantAttributes(hold, map[string]string{"lockagent.outcome": "released"})
	r.wantAttributes(release, whose)
	if len(acquire.Events) != 2 || acquire.Events[0].Name != "store does not answer" ||
		acquire.Events[1].Name != "queued" ||
		!acquire.Events[1].Time.Equal(start.Add(time.Second)) {
		t.Errorf("the events of the acquire are %+v, want that it waits for the store, and then queued", acquire.Events)
	}
	if len(hold.Events) != 1 || hold.Events[0].Name != "uncertain" {
		t.Errorf("the events of the hold are %+v, want uncertain", hold.Events)
	}
	if len(hold.Links) != 0 {
		t.Errorf("the first hold has links: %+v", hold.Links)
	}
	for _, s := range r.spans.GetSpans() {
		if s.Status.Code != codes.Unset {
			t.Errorf("span %q has the status %v", s.Name, s.Status)
		}
	}

	r.wantPoints("lockagent.lock.acquire.duration", map[string]point{"granted": {1, 2}})
	r.wantPoints("lockagent.lock.hold.duration", map[string]point{"released": {1, 25}})
	r.wantPoints("lockagent.lock.trust.remaining", map[string]point{"": {2, 20 + 15}})
	r.wantPoints("lockagent.lock.handoff.duration", nil)
	r.wantPoints("lockagent.lock.waiters", map[string]point{"": {}})
	r.wantPoints("lockagent.lock.held", map[string]point{"": {}})
	r.wantPoints("lockagent.lock.losses", nil)
	r.wantPoints("lockagent.events.recorded", map[string]point{
		"requested": {0, 1}, "queued": {0, 1}, "granted": {0, 1}, "renewed": {0, 1},
		"uncertain": {0, 1}, "released": {0, 1}, "returned": {0, 1},
	})
}

func TestEventsCarryTheTraceContextOfTheirSpan(t *testing.T) {
	r := newRig(t)
	ctx, _ := r.caller()
	newHistory(ctx, r.recorder(), "l").
		requested(1, "a").queued(1, "a").granted(1, "a", lockagent.ByStore, 0).
		add(lockagent.Event{Kind: lockagent.EventUncertain, Owner: "a", Token: 101}).
		ended(lockagent.EventReleased, 0, 1, "a", 0).
		requested(2, "a").answered(lockagent.EventTimedOut, 2, "a", 0).
		add(lockagent.Event{Kind: lockagent.EventReturned, TraceParent: "as it was"})
	acquires := r.ended("acquire")
	first, second := w3c(acquires[0].SpanContext), w3c(acquires[1].SpanContext)
	hold := w3c(r.only("hold").SpanContext)
	want := []string{first, first, first, hold, hold, second, second, "as it was"}
	for i, e := range r.recorded {
		if e.TraceParent != want[i] {
			t.Errorf("event %v has the trace context %q, want %q", e.Kind, e.TraceParent, want[i])
		}
	}
}

// w3c is the trace context as OpenTelemetry itself writes it.
func w3c(sc trace.SpanContext) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpanContext(context.Background(), sc), carrier)
	return carrier.Get("traceparent")
}

func TestTraceParent(t *testing.T) {
	of := trace.SpanContextConfig{TraceID: trace.TraceID{1, 0xab, 15: 2}, SpanID: trace.SpanID{3, 7: 0xcd}}
	if got := traceParent(trace.NewSpanContext(of)); got != "" {
		t.Errorf("got %q for a context that is not sampled, want nothing", got)
	}
	of.TraceFlags = trace.FlagsSampled
	sc := trace.NewSpanContext(of)
	text := traceParent(sc)
	if want := w3c(sc); text != want {
		t.Errorf("got %q, want %q", text, want)
	}
	if got := parseTraceParent(text); !got.Equal(sc.WithRemote(true)) {
		t.Errorf("it was read back as %v, want %v", got, sc)
	}
	if got := traceParent(trace.SpanContext{}); got != "" {
		t.Errorf("got %q for no context, want nothing", got)
	}
	for _, flags := range []trace.TraceFlags{0, trace.FlagsSampled} {
		// Requests for others also tell of what is not sampled.
		of.TraceFlags = flags
		sc := trace.NewSpanContext(of)
		if got, want := TraceParent(trace.ContextWithSpanContext(t.Context(), sc)), w3c(sc); got != want {
			t.Errorf("got %q for a context, want %q", got, want)
		}
	}
	if got := TraceParent(t.Context()); got != "" {
		t.Errorf("got %q for a context without a span, want nothing", got)
	}
	for _, wrong := range []string{"", "00", text[1:], text[:len(text)-4]} {
		if got := parseTraceParent(wrong); got.IsValid() {
			t.Errorf("%q was read as %v", wrong, got)
		}
	}
}

func TestHandOffLinksToTheReleaseBefore(t *testing.T) {
	r := newRig(t)
	rec := r.recorder()
	h := newHistory(context.Background(), rec, "l")
	h.requested(1, "a").granted(1, "a", lockagent.ByStore, 0)
	h.requested(2, "b").queued(2, "b")
	h.requested(3, "c").queued(3, "c")
	h.requested(4, "d").queued(4, "d")
	r.wantPoints("lockagent.lock.waiters", map[string]point{"": {0, 3}})
	r.wantPoints("lockagent.lock.held", map[string]point{"": {0, 1}})

	h.ended(lockagent.EventReleased, 0, 1, "a", 0)
	h.pass(250*time.Millisecond).granted(2, "b", lockagent.ByHandOff, 0)
	h.pass(time.Second).ended(lockagent.EventUnclaimed, lockagent.LostUnclaimed, 2, "b", 0)
	h.pass(500*time.Millisecond).granted(3, "c", lockagent.ByHandOff, 0)
	h.pass(time.Second).ended(lockagent.EventReleased, 0, 3, "c", 0)
	h.pass(time.Second).granted(4, "d", lockagent.ByStore, 0) // after its turn in the store
	h.ended(lockagent.EventReleased, 0, 4, "d", 0)
	r.wantForgotten(rec)

	holds, releases := r.ended("hold"), r.ended("release")
	if len(holds) != 4 || len(releases) != 3 {
		t.Fatalf("%d holds and %d releases ended, want 4 and 3", len(holds), len(releases))
	}
	for i, want := range []trace.SpanContext{{}, releases[0].SpanContext, holds[1].SpanContext, {}} {
		switch links := holds[i].Links; {
		case !want.IsValid() && len(links) != 0:
			t.Errorf("hold %d has links: %+v", i, links)
		case want.IsValid() && (len(links) != 1 || links[0].SpanContext.SpanID() != want.SpanID()):
			t.Errorf("hold %d has the links %+v, want one to %v", i, links, want.SpanID())
		}
	}
	r.wantPoints("lockagent.lock.handoff.duration", map[string]point{"": {2, 0.75}})
	r.wantPoints("lockagent.lock.waiters", map[string]point{"": {}})
	r.wantPoints("lockagent.lock.held", map[string]point{"": {}})
}

// A hold that was granted from a lock at rest has the lease of its tenure, which nobody tells. From its first renewal
// on it is known.
func TestALockThatRests(t *testing.T) {
	r := newRig(t)
	rec := r.recorder()
	h := newHistory(context.Background(), rec, "l")
	h.granted(1, "a", lockagent.ByStore, 0).ended(lockagent.EventReleased, 0, 1, "a", 0)
	h.granted(2, "a", lockagent.ByRest, 0)
	h.add(lockagent.Event{Kind: lockagent.EventRenewed, Remaining: 3 * time.Second})
	r.wantPoints("lockagent.lock.trust.remaining", nil)
	h.pass(time.Second).add(lockagent.Event{Kind: lockagent.EventRenewed, Remaining: 3 * time.Second})
	r.wantPoints("lockagent.lock.trust.remaining", map[string]point{"": {1, 2}})
	h.ended(lockagent.EventReleased, 0, 2, "a", 0)
	h.granted(3, "a", lockagent.ByHandOff, 0).ended(lockagent.EventReleased, 0, 3, "a", 0)
	h.granted(4, "a", 200, 0).ended(lockagent.EventReleased, 0, 4, "a", 0) // of a version to come
	r.wantPoints("lockagent.lock.grants", map[string]point{
		"store": {0, 1}, "rest": {0, 1}, "handoff": {0, 1}, "unknown": {0, 1},
	})
}

func TestRequestsThatAreNotGranted(t *testing.T) {
	for kind, status := range map[lockagent.EventKind]codes.Code{
		lockagent.EventTimedOut:  codes.Error,
		lockagent.EventRefused:   codes.Error,
		lockagent.EventCancelled: codes.Unset,
	} {
		t.Run(kind.String(), func(t *testing.T) {
			r := newRig(t)
			rec := r.recorder()
			newHistory(context.Background(), rec, "l").
				requested(1, "a").queued(1, "a").pass(time.Second).answered(kind, 1, "a", time.Second)
			acquire := r.only("acquire")
			if acquire.Parent.IsValid() {
				t.Error("the acquire has a parent that nobody gave it")
			}
			if acquire.Status.Code != status {
				t.Errorf("the status is %v, want %v", acquire.Status, status)
			}
			r.wantAttributes(acquire, map[string]string{"lockagent.outcome": kind.String(), "lockagent.token": "(none)"})
			if n := len(r.spans.GetSpans()); n != 1 {
				t.Errorf("%d spans ended, want 1", n)
			}
			r.wantPoints("lockagent.lock.acquire.duration", map[string]point{kind.String(): {1, 1}})
			r.wantPoints("lockagent.lock.waiters", map[string]point{"": {}})
			r.wantForgotten(rec)
		})
	}
}

func TestLosses(t *testing.T) {
	for _, loss := range []struct {
		kind   lockagent.EventKind
		why    lockagent.LossReason
		reason string
		status codes.Code
	}{
		{lockagent.EventLost, lockagent.LostDeadline, "deadline", codes.Error},
		{lockagent.EventLost, lockagent.LostInternal, "internal", codes.Error},
		{lockagent.EventLost, 200, "unknown", codes.Error},
		{lockagent.EventBroken, lockagent.LostBroken, "broken", codes.Error},
		{lockagent.EventExpired, 0, "expired", codes.Error},
		{lockagent.EventUnclaimed, 0, "unclaimed", codes.Unset},
	} {
		t.Run(loss.reason, func(t *testing.T) {
			r := newRig(t)
			rec := r.recorder()
			newHistory(context.Background(), rec, "l").
				requested(1, "a").granted(1, "a", lockagent.ByStore, 0).
				pass(3*time.Second).ended(loss.kind, loss.why, 1, "a", 0)
			hold := r.only("hold")
			if hold.Status.Code != loss.status {
				t.Errorf("the status is %v, want %v", hold.Status, loss.status)
			}
			r.wantAttributes(hold, map[string]string{"lockagent.outcome": loss.kind.String()})
			if n := len(r.ended("release")); n != 0 {
				t.Errorf("%d releases, though nobody released", n)
			}
			r.wantPoints("lockagent.lock.losses", map[string]point{loss.reason: {0, 1}})
			r.wantPoints("lockagent.lock.hold.duration", map[string]point{loss.kind.String(): {1, 3}})
			r.wantPoints("lockagent.lock.held", map[string]point{"": {}})
			r.wantForgotten(rec)
		})
	}
}

func TestAHoldEndsWithItsLastGrant(t *testing.T) {
	r := newRig(t)
	rec := r.recorder()
	h := newHistory(context.Background(), rec, "l")
	h.requested(1, "a").granted(1, "a", lockagent.ByStore, 0)
	h.requested(2, "a").reentered(2, 1, "a", 2)
	h.pass(time.Second).ended(lockagent.EventReleased, 0, 1, "a", 1) // the first of its grants first
	if n := len(r.ended("hold")); n != 0 {
		t.Error("the hold ended with one of two grants")
	}
	r.wantPoints("lockagent.lock.held", map[string]point{"": {0, 1}})
	h.pass(time.Second).ended(lockagent.EventReleased, 0, 2, "a", 0)
	r.wantForgotten(rec)

	hold := r.only("hold")
	for _, release := range r.ended("release") {
		if release.Parent.SpanID() != hold.SpanContext.SpanID() {
			t.Error("a release is not a child of the hold")
		}
	}
	if n := len(r.ended("release")); n != 2 {
		t.Errorf("%d releases, want 2", n)
	}
	r.wantPoints("lockagent.lock.acquire.duration", map[string]point{"granted": {1, 0}, "reentered": {1, 0}})
	r.wantPoints("lockagent.lock.hold.duration", map[string]point{"released": {1, 2}})
	r.wantPoints("lockagent.lock.held", map[string]point{"": {}})
}

// TestAnOwnerWithTwoHolds has two permits of a semaphore, which it gives back in either order.
func TestAnOwnerWithTwoHolds(t *testing.T) {
	for _, order := range [][]uint64{{1, 2}, {2, 1}} {
		r := newRig(t)
		rec := r.recorder()
		h := newHistory(context.Background(), rec, "workers")
		h.requested(1, "a").granted(1, "a", lockagent.ByStore, 0).requested(2, "a").granted(2, "a", lockagent.ByStore, 0)
		r.wantPoints("lockagent.lock.held", map[string]point{"": {0, 2}})
		h.pass(time.Second).ended(lockagent.EventReleased, 0, order[0], "a", 0)
		r.wantPoints("lockagent.lock.held", map[string]point{"": {0, 1}})
		h.pass(time.Second).ended(lockagent.EventReleased, 0, order[1], "a", 0)
		r.wantForgotten(rec)
		r.wantPoints("lockagent.lock.held", map[string]point{"": {}})
		r.wantPoints("lockagent.lock.hold.duration", map[string]point{"released": {2, 3}})
		holds, releases := r.ended("hold"), r.ended("release")
		if len(holds) != 2 || len(releases) != 2 {
			t.Fatalf("%d holds and %d releases, want 2 each", len(holds), len(releases))
		}
		for i, hold := range holds {
			r.wantAttributes(hold, map[string]string{"lockagent.token": fmt.Sprint(100 + order[i])})
			if releases[i].Parent.SpanID() != hold.SpanContext.SpanID() {
				t.Errorf("release %d is not of hold %d", i, i)
			}
		}
	}
}

func TestUnsampled(t *testing.T) {
	r := newRig(t, sdktrace.WithSampler(sdktrace.NeverSample()))
	rec := r.recorder()
	h := newHistory(context.Background(), rec, "l").
		requested(1, "a").queued(1, "a").granted(1, "a", lockagent.ByStore, time.Second)
	h.requested(2, "b").queued(2, "b").ended(lockagent.EventReleased, 0, 1, "a", 0).
		granted(2, "b", lockagent.ByHandOff, 0).ended(lockagent.EventLost, lockagent.LostDenied, 2, "b", 0)
	r.wantForgotten(rec)
	if n := len(r.spans.GetSpans()); n != 0 {
		t.Errorf("%d spans, want none", n)
	}
	for _, e := range r.recorded {
		if e.TraceParent != "" {
			t.Errorf("event %v has the trace context %q, want none", e.Kind, e.TraceParent)
		}
	}
	r.wantPoints("lockagent.lock.acquire.duration", map[string]point{"granted": {2, 1}})
}

// wholeLife sends every kind of event there is.
func wholeLife(to lockagent.Recorder) {
	h := newHistory(context.Background(), to, "l")
	h.to.Record(h.ctx, lockagent.Event{Kind: lockagent.EventAgentStarted, Agent: "agent-1"})
	h.requested(1, "a").granted(1, "a", lockagent.ByStore, 0)
	h.requested(2, "a").reentered(2, 1, "a", 2)
	h.requested(3, "b").queued(3, "b")
	h.add(lockagent.Event{Kind: lockagent.EventHolding, Owner: "a", Token: 101, Count: 1})
	h.add(lockagent.Event{Kind: lockagent.EventRenewed}).add(lockagent.Event{
		Kind: lockagent.EventUncertain, Owner: "a", Token: 101,
	})
	h.ended(lockagent.EventReleased, 0, 2, "a", 1).ended(lockagent.EventReleased, 0, 1, "a", 0)
	h.granted(3, "b", lockagent.ByHandOff, 0).ended(lockagent.EventUnclaimed, lockagent.LostUnclaimed, 3, "b", 0)
	for i, kind := range []lockagent.EventKind{lockagent.EventExpired, lockagent.EventLost, lockagent.EventBroken} {
		h.requested(uint64(i+4), "c").granted(uint64(i+4), "c", lockagent.ByStore, 0)
		h.ended(kind, []lockagent.LossReason{0, lockagent.LostDenied, lockagent.LostBroken}[i], uint64(i+4), "c", 0)
	}
	for i, kind := range []lockagent.EventKind{lockagent.EventTimedOut, lockagent.EventCancelled, lockagent.EventRefused} {
		h.requested(uint64(i+7), "d").answered(kind, uint64(i+7), "d", 0)
	}
	h.add(lockagent.Event{Kind: lockagent.EventReturned}).add(lockagent.Event{
		Kind: lockagent.EventPermits, Op: lockagent.AddPermits,
	})
	h.to.Record(h.ctx, lockagent.Event{Kind: lockagent.EventStoreReset, Agent: "agent-1"})
	for _, kind := range []lockagent.EventKind{lockagent.EventGraceBegan, lockagent.EventGraceEnded} {
		h.to.Record(h.ctx, lockagent.Event{
			Kind: kind, Agent: "agent-1", Grace: &lockagent.GracePeriod{Began: 1_000_000, Ended: 1_340_000},
		})
	}
	h.to.Record(h.ctx, lockagent.Event{Kind: lockagent.EventAgentStopped, Agent: "agent-1"})
}

func TestEveryEventIsCountedAndPassedOn(t *testing.T) {
	r := newRig(t)
	rec := r.recorder()
	wholeLife(rec)
	r.wantForgotten(rec)
	counted := r.points("lockagent.events.recorded")
	passed := make(map[lockagent.EventKind]bool)
	for _, e := range r.recorded {
		passed[e.Kind] = true
	}
	for _, kind := range lockagent.EventKinds() {
		switch kind {
		case lockagent.EventHeld, lockagent.EventAlive, lockagent.EventDropped:
			continue // the log makes them, and alive is of no request
		}
		if counted[kind.String()].sum == 0 || !passed[kind] {
			t.Errorf("event %v: counted %v, passed on %v", kind, counted[kind.String()], passed[kind])
		}
	}
	if got := r.points("lockagent.store.grace.duration"); len(got) != 1 || got[""].count != 1 || got[""].sum != 0.34 {
		t.Errorf("the grace period was measured as %v, want 0.34 s once", got)
	}
	rec.Record(context.Background(), lockagent.Event{Kind: lockagent.EventGraceEnded}) // which tells nothing of it
	rec.Record(context.Background(), lockagent.Event{Kind: 200})
	if got := r.points("lockagent.events.recorded")["unknown"].sum; got != 1 {
		t.Errorf("an event of a kind to come was counted %v times as unknown, want once", got)
	}
}

func TestOnlySpansOrOnlyMetrics(t *testing.T) {
	r := newRig(t)
	wholeLife(Recorder(nil, Config{TracerProvider: r.sdk}))
	spans := len(r.spans.GetSpans())
	if spans == 0 || len(r.collect()) != 0 {
		t.Errorf("%d spans and %d metrics, want spans only", spans, len(r.collect()))
	}
	wholeLife(Recorder(nil, Config{MeterProvider: r.MeterProvider}))
	if n := len(r.spans.GetSpans()); n != spans {
		t.Errorf("%d spans more, want none", n-spans)
	}
	if got := r.points("lockagent.lock.hold.duration")["lost"].count; got != 1 {
		t.Errorf("%d losses measured, want 1", got)
	}
}

// The first event of a request may be its answer.
func TestRequestWithoutAWait(t *testing.T) {
	for _, kind := range []lockagent.EventKind{
		lockagent.EventGranted, lockagent.EventReentered,
		lockagent.EventTimedOut, lockagent.EventCancelled, lockagent.EventRefused,
	} {
		t.Run(kind.String(), func(t *testing.T) {
			r := newRig(t)
			rec := r.recorder()
			ctx, caller := r.caller()
			h := newHistory(ctx, rec, "l")
			start := h.now
			h.pass(2 * time.Second).add(lockagent.Event{
				Kind: kind, Request: 1, Owner: "a", Token: 101, Count: 1, Waited: 2 * time.Second,
			})
			acquire := r.only("acquire")
			if !acquire.StartTime.Equal(start) || !acquire.EndTime.Equal(start.Add(2*time.Second)) {
				t.Errorf(
					"the acquire is from %v to %v, want from 0 to 2s", acquire.StartTime.Sub(start), acquire.EndTime.Sub(start),
				)
			}
			if acquire.Parent.SpanID() != caller.SpanID() {
				t.Error("the acquire is not a child of the caller's span")
			}
			if want := traceParent(acquire.SpanContext); r.recorded[0].TraceParent != want {
				t.Errorf("the event has the trace context %q, want %q", r.recorded[0].TraceParent, want)
			}
			r.wantPoints("lockagent.lock.acquire.duration", map[string]point{kind.String(): {1, 2}})
			r.wantPoints("lockagent.lock.waiters", nil)
			if kind == lockagent.EventGranted {
				h.ended(lockagent.EventReleased, 0, 1, "a", 0)
			}
			r.wantForgotten(rec)
		})
	}
}

func TestWhatBeganUnseenIsNotMeasured(t *testing.T) {
	r := newRig(t)
	rec := r.recorder()
	h := newHistory(context.Background(), rec, "l")
	h.requested(9, "z") // so that the lock is known
	h.add(lockagent.Event{Kind: lockagent.EventRenewed, Remaining: time.Second})
	h.add(lockagent.Event{Kind: lockagent.EventUncertain, Owner: "a", Token: 101})
	h.ended(lockagent.EventReleased, 0, 1, "a", 0)
	for _, name := range []string{"acquire.duration", "hold.duration", "trust.remaining", "waiters", "held"} {
		r.wantPoints("lockagent.lock."+name, nil)
	}
	if n := len(r.spans.GetSpans()); n != 0 {
		t.Errorf("%d spans, want none", n)
	}
}

func TestAgentsWithLocksOfOneName(t *testing.T) {
	r := newRig(t)
	rec := r.recorder()
	for _, agent := range []lockagent.AgentID{"x", "y"} {
		rec.Record(context.Background(), lockagent.Event{Kind: lockagent.EventRequested, Agent: agent, Lock: "l", Request: 1})
	}
	for _, agent := range []lockagent.AgentID{"x", "y"} {
		rec.Record(context.Background(), lockagent.Event{Kind: lockagent.EventCancelled, Agent: agent, Lock: "l", Request: 1})
	}
	r.wantForgotten(rec)
	if n := len(r.ended("acquire")); n != 2 {
		t.Errorf("%d acquires, want 2", n)
	}
}

func TestManyLocksAtOnce(t *testing.T) {
	r := newRig(t)
	rec := r.recorder()
	const locks, rounds = 50, 20
	var all sync.WaitGroup
	for i := range locks {
		all.Go(func() {
			h := newHistory(context.Background(), rec, lockagent.Name(fmt.Sprint("lock ", i)))
			for n := range uint64(rounds) {
				h.requested(2*n, "a").granted(2*n, "a", lockagent.ByStore, 0)
				h.requested(2*n+1, "b").queued(2*n+1, "b")
				h.ended(lockagent.EventReleased, 0, 2*n, "a", 0)
				h.granted(2*n+1, "b", lockagent.ByHandOff, 0).ended(lockagent.EventReleased, 0, 2*n+1, "b", 0)
			}
		})
	}
	all.Wait()
	r.wantForgotten(rec)
	for name, want := range map[string]int{
		"acquire": 2 * locks * rounds, "hold": 2 * locks * rounds, "release": 2 * locks * rounds,
	} {
		if got := len(r.ended(name)); got != want {
			t.Errorf("%d spans %q, want %d", got, name, want)
		}
	}
	r.wantPoints("lockagent.lock.waiters", map[string]point{"": {}})
	r.wantPoints("lockagent.lock.held", map[string]point{"": {}})
	r.wantPoints("lockagent.lock.handoff.duration", map[string]point{"": {locks * rounds, 0}})
}
