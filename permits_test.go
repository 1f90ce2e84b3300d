package lockagent_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/audit"
	"github.com/lockagent/lockagent/events/natslog"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/redisstore"
)

// sharedPermits is what both kinds of semaphores have.
type sharedPermits interface {
	Do(ctx context.Context, n int, f func(context.Context, channelapi.Grant) error) error
	Acquire(ctx context.Context, n int) (channelapi.Grant, error)
	TryAcquire(ctx context.Context, n int) (channelapi.Grant, error)
	Status(ctx context.Context) (channelapi.PermitsStatus, error)
	TrySetPermits(ctx context.Context, n int) (bool, error)
	AddPermits(ctx context.Context, n int) (int, error)
}

// Two agents share semaphores on a server. However many permits their owners want, no more are in use
// than there are, and none is lost. The log proves it. With one more grant in the log, it proves the contrary.
func TestPermitsInUseOnAServer(t *testing.T) {
	t.Parallel()
	const most = 5
	server := redistest.Start(t)
	nats := natslog.Connection{InProcess: natstest.Start(t, natsserver.Config{})}
	ctx := waittest.Context(t)
	publisher := func(id lockagent.AgentID) *natslog.Publisher {
		p, err := natslog.NewPublisher(natslog.Config{Connection: nats, Agent: id})
		must(t, err)
		t.Cleanup(func() { _ = p.Close(ctx) })
		return p
	}
	var agents [2]*channelapi.Locks
	var stores [2]*redisstore.Store
	var publishers []*natslog.Publisher
	for i := range agents {
		id := lockagent.NewAgentID()
		publishers = append(publishers, publisher(id))
		store, err := patient.Open(t.Context(), server.URL())
		must(t, err)
		locks, err := channelapi.New(channelapi.Config{Store: store, ID: id, Recorder: publishers[i]})
		must(t, err)
		t.Cleanup(func() {
			_ = locks.Close()
			_ = store.Close()
		})
		agents[i], stores[i] = locks, store
	}
	// The audit without the forger's records must not miss the first one of the log.
	must(t, publishers[0].Flush(ctx))
	forger := publisher("forger")
	forger.Record(ctx, lockagent.Event{Kind: lockagent.EventAgentStarted, Agent: "forger", Time: time.Now()})

	for name, open := range map[lockagent.Name]func(*channelapi.Locks) sharedPermits{
		"workers":  func(l *channelapi.Locks) sharedPermits { return l.Semaphore("workers") },
		"licences": func(l *channelapi.Locks) sharedPermits { return l.Permits("licences") },
	} {
		shared := [2]sharedPermits{open(agents[0]), open(agents[1])}
		refused := func(what string) {
			t.Helper()
			if _, err := shared[0].TryAcquire(ctx, most+1); err == nil || !strings.Contains(err.Error(), what) {
				t.Errorf("%v; want %q", err, what)
			}
		}
		refused("nobody has set the number of permits")
		set, err := shared[0].TrySetPermits(ctx, most-1)
		if must(t, err); !set {
			t.Fatal("the semaphore was set before")
		}
		_, err = shared[1].AddPermits(ctx, 1)
		must(t, err)
		refused("are free: 5 of 5, and 6 were wanted")
		usePermits(t, most, shared)
		if s, err := shared[1].Status(ctx); err != nil || s.Free != most || s.Taken != 0 {
			t.Errorf("status %+v, %v", s, err)
		}
		asked := time.Now()
		g, err := shared[0].Acquire(ctx, most)
		must(t, err)
		took := time.Since(asked)
		kind := lockagent.Semaphore
		if p, ok := shared[1].(*channelapi.Permits); ok {
			kind = lockagent.Permits
			// One of five is given back by its id, through the other agent, and taken again.
			must(t, p.ReleaseID(ctx, g.PermitIDs()[2]))
			must(t, p.Do(ctx, 1, func(context.Context, channelapi.Grant) error { return nil }))
			_ = g.Release(ctx)
			// A grant whose permits somebody else gave back ends where its agent says, and that counts from its
			// acquire. So what follows sooner than that call took is not proven.
			for released := time.Now(); time.Since(released) < took; {
				_, err := shared[0].Status(ctx)
				must(t, err)
			}
			g, err = shared[0].Acquire(ctx, most)
			must(t, err)
		}
		at := lockagent.StoreTime(g.Token()) + 1
		e := lockagent.Event{
			Kind: lockagent.EventGranted, Agent: "forger", Time: time.Now(), Store: stores[0].Identity(), Lock: name,
			LockKind: kind, Mode: lockagent.Exclusive, Owner: "forger", Request: 1, Tenure: 1, Token: lockagent.Token(at),
			How: lockagent.ByStore, Count: 1,
			Total: most, Lease: time.Minute, StoreTime: at, Confirmed: at,
		}
		forger.Record(ctx, e)
		e.Kind, e.Count, e.Until, e.How = lockagent.EventReleased, 0, at+1, 0
		forger.Record(ctx, e)
		must(t, g.Release(ctx))
	}
	forger.Record(ctx, lockagent.Event{
		Kind: lockagent.EventAgentStopped, Agent: "forger", Time: time.Now(), Store: stores[0].Identity(),
	})
	for i, p := range append(publishers, forger) {
		if i < len(agents) {
			must(t, agents[i].Close())
		}
		must(t, p.Close(ctx))
	}
	reader, err := natslog.OpenReader(natslog.ReaderConfig{Connection: nats})
	must(t, err)
	defer reader.Close()
	forged, honest := audit.New(), audit.New()
	must(t, reader.Replay(ctx, natslog.From{}, events.Filter{}, func(r *events.Record, err error) error {
		if err != nil || r.Agent != "forger" {
			_ = honest.Visit(r, err)
		}
		return forged.Visit(r, err)
	}))
	if report := honest.Report(); report.Verdict != audit.Proven || report.Locks != 2 || report.Unjudged != 0 {
		t.Errorf("the audit says\n%v", report)
	}
	report := forged.Report()
	tooMany := func(v audit.Violation) bool {
		return v.Kind == audit.TooManyPermits && v.InUse == most+1 && v.Total == most && v.Second.Agent == "forger"
	}
	if n := len(
		slices.DeleteFunc(slices.Clone(report.Violations.First), func(v audit.Violation) bool { return !tooMany(v) }),
	); n != 2 {
		t.Errorf("with a permit too many in each semaphore, the audit says\n%v", report)
	}
}

// usePermits has twenty owners of two agents take permits of so many, and looks how many are in use.
func usePermits(t *testing.T, most int, shared [2]sharedPermits) {
	var all sync.WaitGroup
	var inUse atomic.Int64
	for i := range 20 {
		all.Go(func() {
			n := i%most + 1
			for range 20 {
				err := shared[i%2].Do(t.Context(), n, func(context.Context, channelapi.Grant) error {
					defer inUse.Add(int64(-n))
					if now := inUse.Add(int64(n)); now > int64(most) {
						t.Errorf("%d permits are in use", now)
					}
					return nil
				})
				if err != nil {
					t.Errorf("Do: %v", err)
				}
			}
		})
	}
	all.Wait()
}
