package demo

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/events/natslog"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	"github.com/lockagent/lockagent/memstore"
	"github.com/lockagent/lockagent/tracing"
)

// probe is a resource that tells of each read, and of the beginning of each write.
type probe struct {
	reads  chan lockagent.Token
	writes chan lockagent.Token
	goOn   chan struct{} // a write waits for it, unless it is nil
}

func (p probe) read(_ lockagent.Name, token lockagent.Token) (int64, error) {
	p.reads <- token
	return 0, nil
}

func (p probe) write(_ lockagent.Name, token lockagent.Token, _ int64) error {
	p.writes <- token
	if p.goOn != nil {
		<-p.goOn
	}
	return nil
}

// A worker that is told in the middle of its work that the lock is lost stops, does
// not write, counts the loss, and goes on with the next.
func TestWorkerStopsWhenTheLockIsLost(t *testing.T) {
	log := eventLog{
		Connection: natslog.Connection{InProcess: natstest.Start(t, natsserver.Config{}), Logger: testLogger(t)},
	}
	store := memstore.New()
	defer store.Close()
	other, err := channelapi.New(channelapi.Config{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()

	p := probe{reads: make(chan lockagent.Token), writes: make(chan lockagent.Token, 1)}
	work := Work{Workers: 1, Locks: 1, Think: time.Hour, Lease: 3 * time.Second}
	a, err := newAgent(work, p, store.Share(), log, tracing.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.run(ctx) }()

	first := <-p.reads
	if held, err := other.Lock(string(work.names()[0])).Break(t.Context(), ""); err != nil || !held {
		t.Fatalf("Break: %v, %v", held, err)
	}
	if second := <-p.reads; second <= first {
		t.Errorf("token %d came after %d", second, first)
	}
	s := a.stats()
	if got := s.Losses[lockagent.LostBroken.String()]; got != 1 || s.lost() != 1 {
		t.Errorf("losses are %v, want 1 broken", s.Losses)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("run: %v", err)
	}
	if len(p.writes) > 0 {
		t.Errorf("a worker wrote with token %d after its lock was lost or its time was up", <-p.writes)
	}
	s = a.stats()
	if s.Grants != 2 || s.lost() != 1 || s.Unfinished != 1 || s.Dropped+s.Unpublished != 0 || s.Published == 0 {
		t.Errorf("stats are %+v", s)
	}
	operator, _ := lockagent.Layer[lockagent.Operator](a.store)
	operator.Inspect(t.Context(), work.names()[0], lockagent.PlainLock, func(_ lockagent.Inspection, err error) {
		if !errors.Is(err, lockagent.ErrClosed) {
			t.Errorf("the store was left open: %v", err)
		}
	})
}

// The spans of a request and of its hold are below one that says what the lock is wanted for. So is a
// loss.
func TestWorkersHaveSpans(t *testing.T) {
	log := eventLog{
		Connection: natslog.Connection{InProcess: natstest.Start(t, natsserver.Config{}), Logger: testLogger(t)},
	}
	store := memstore.New()
	defer store.Close()
	spans := tracetest.NewSpanRecorder()
	provider := trace.NewTracerProvider(trace.WithSpanProcessor(spans))
	p := probe{reads: make(chan lockagent.Token), writes: make(chan lockagent.Token), goOn: make(chan struct{})}
	work := Work{Workers: 1, Locks: 1, Lease: time.Minute}
	a, err := newAgent(work, p, store.Share(), log, tracing.Config{TracerProvider: provider})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.run(ctx) }()
	for _, meanwhile := range []func() error{
		func() error { return nil },
		func() error {
			_, err := a.locks.Lock(string(work.names()[0])).Break(t.Context(), "")
			return err
		},
		func() error { stop(); return nil },
	} {
		<-p.reads
		<-p.writes // a worker that has not come this far would not write any more
		if err := meanwhile(); err != nil {
			t.Fatal(err)
		}
		p.goOn <- struct{}{}
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	var updates []trace.ReadOnlySpan
	all := make(map[string]trace.ReadOnlySpan)
	for _, s := range spans.Ended() {
		all[s.SpanContext().SpanID().String()] = s
		if s.Name() == "update" {
			updates = append(updates, s)
		}
	}
	below := make(map[string][]string) // by the span that is above all
	for _, s := range all {
		top := s
		for top.Parent().IsValid() {
			top = all[top.Parent().SpanID().String()]
		}
		below[top.SpanContext().SpanID().String()] = append(below[top.SpanContext().SpanID().String()], s.Name())
	}
	if len(updates) != 3 {
		t.Fatalf("there are %d updates, want 3", len(updates))
	}
	for i, u := range updates {
		names := below[u.SpanContext().SpanID().String()]
		if !slices.Contains(names, "acquire") || !slices.Contains(names, "hold") {
			t.Errorf("below update %d there are only %v", i+1, names)
		}
		if lost := u.Status().Code == codes.Error; lost != (i == 1) {
			t.Errorf("update %d has the status %v", i+1, u.Status())
		}
	}
}

// broken is a resource that has a defect.
type broken struct{ counters }

var errDefect = errors.New("defect")

func (broken) read(lockagent.Name, lockagent.Token) (int64, error) { return 0, errDefect }

func TestAgentEndsWithItsFirstError(t *testing.T) {
	a, err := newAgent(Work{Workers: 3, Locks: 2, NoLocks: true}, broken{}, nil, eventLog{}, tracing.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.run(t.Context()); !errors.Is(err, errDefect) {
		t.Errorf("run returned %v, want the defect", err)
	}
}
