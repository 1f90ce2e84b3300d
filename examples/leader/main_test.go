package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A leader that the store cannot hear stops before the next one starts. When it is heard
// again, it stands by.
func TestOneLeads(t *testing.T) {
	for name, partition := range map[string]func(*memstore.Store) (heal func()){
		"CutOff": func(s *memstore.Store) func() {
			s.SetOutage(errors.New("no route to host"))
			return func() { s.SetOutage(nil) }
		},
		"Silent": (*memstore.Store).Hang,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { oneLeads(t, partition) })
		})
	}
}

func oneLeads(t *testing.T, partition func(*memstore.Store) (heal func())) {
	ctx, cancel := context.WithCancel(t.Context())
	store := memstore.New()
	var leading, standingBy atomic.Int64
	var last atomic.Uint64
	leads := make(chan int, 10)
	stores := make([]*memstore.Store, 3)
	ended := make(chan error)
	for host := range stores {
		stores[host] = store.Share()
		locks, err := open(stores[host], "host")
		if err != nil {
			t.Fatal(err)
		}
		defer locks.Close()
		go func() {
			ended <- lead(ctx, locks, func(ctx context.Context, g channelapi.Grant) {
				token := g.Token()
				if n, before := leading.Add(1), last.Swap(uint64(token)); n > 1 || uint64(token) <= before {
					t.Errorf("%d hosts lead; token %d came after %d", n, token, before)
				}
				leads <- host
				<-ctx.Done()
				time.Sleep(stopping)
				leading.Add(-1)
			}, func() { standingBy.Add(1) })
		}()
	}

	leader := <-leads
	time.Sleep(time.Hour)
	if leading.Load() != 1 || standingBy.Load() < 700 {
		t.Errorf("%d hosts lead, and the others stood by %d times", leading.Load(), standingBy.Load())
	}
	for range 2 {
		heal := partition(stores[leader])
		next := <-leads
		if next == leader {
			t.Error("a host leads that the store does not hear")
		}
		leader = next
		time.Sleep(time.Hour)
		heal()
		time.Sleep(time.Hour)
		if leading.Load() != 1 || len(leads) > 0 {
			t.Errorf("%d hosts lead when all are heard again, %d of them new", leading.Load(), len(leads))
		}
	}
	cancel()
	for range stores {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}

// terms has the jobs of each term, in the order of the terms.
type terms struct {
	mu     sync.Mutex // guards what follows
	hosts  []string
	tokens []channelapi.Token
	jobs   []int
}

// start has a host lead.
func (x *terms) start(
	t *testing.T, ctx context.Context, host string, store *memstore.Store, yields bool,
) (ended <-chan error) {
	locks, err := open(store, host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = locks.Close() })
	job := func(token channelapi.Token) {
		x.mu.Lock()
		defer x.mu.Unlock()
		if n := len(x.tokens); n == 0 || x.tokens[n-1] != token {
			x.hosts, x.tokens, x.jobs = append(x.hosts, host), append(x.tokens, token), append(x.jobs, 0)
		}
		x.jobs[len(x.jobs)-1]++
	}
	ends := make(chan error, 1)
	go func() {
		ends <- lead(ctx, locks, func(ctx context.Context, g channelapi.Grant) { schedule(ctx, g, job, yields) }, func() {})
	}()
	return ends
}

// soFar is what there is after some time.
func (x *terms) soFar(after time.Duration) (hosts []string, tokens []channelapi.Token, jobs []int) {
	time.Sleep(after)
	synctest.Wait()
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.hosts), slices.Clone(x.tokens), slices.Clone(x.jobs)
}

// A host that is alone leads for one long term. When another one waits, the two take turns of one job each if they
// yield, and otherwise the first goes on.
func TestTheLeaderGivesWay(t *testing.T) {
	for name, yields := range map[string]bool{"if it yields": true, "or not": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				store, x := memstore.New(), &terms{}
				first := x.start(t, ctx, "one", store, yields)
				if _, _, jobs := x.soFar(time.Hour + time.Second); len(jobs) != 1 || jobs[0] != 721 {
					t.Fatalf("a host that is alone led terms of %d jobs", jobs)
				}
				second := x.start(t, ctx, "two", store.Share(), yields)
				hosts, _, jobs := x.soFar(time.Minute)
				if got := len(hosts); yields && got < 10 || !yields && got != 1 {
					t.Errorf("in a minute the terms were those of %q", hosts)
				}
				for i, n := range jobs[1:] {
					if n != 1 || hosts[i] == hosts[i+1] {
						t.Errorf("term %d of %s has %d jobs after one of %s", i+1, hosts[i+1], n, hosts[i])
					}
				}
				cancel()
				for _, ended := range []<-chan error{first, second} {
					if err := <-ended; !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
				}
			})
		})
	}
}

// A leader begins no job while its renewals fail, and goes on when they succeed again.
func TestTheLeaderPausesInDanger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		store, x := memstore.New(), &terms{}
		ended := x.start(t, ctx, "one", store, false)
		time.Sleep(time.Second)
		store.SetOutage(errors.New("no route to host"))
		_, _, before := x.soFar(16 * time.Second) // renewals fail
		_, _, jobs := x.soFar(6 * time.Second)
		if jobs[0] != before[0] {
			t.Errorf("%d jobs began in danger", jobs[0]-before[0])
		}
		store.SetOutage(nil)
		_, tokens, jobs := x.soFar(10 * time.Second)
		if jobs[0] == before[0] || len(tokens) != 1 {
			t.Errorf("%d jobs, with the tokens %d", jobs, tokens)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
