package actor

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
)

// spinning is the request of an owner for a spin lock.
func spinning(owner lockagent.Owner) Request { return Request{Owner: owner, Kind: lockagent.SpinLock} }

// Who waits for a spin lock of another agent polls it: without a subscription, and less and less often.
func TestSpinLockIsPolled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		tap := newTap(store)
		a, b := start(t, Config{Store: store.Share()}), start(t, Config{Store: tap})
		g := granted(t, a.Acquire(background, "door", spinning("ann")))
		waits := b.Acquire(background, "door", spinning("bob"))
		time.Sleep(10 * time.Second)
		// At most 128 ms and at least half of that pass from one poll to the next.
		if polls := tap.count("acquire"); polls < 10_000/128 || polls > 10_000/64+8 {
			t.Errorf("%d polls in 10 s", polls)
		}
		if n := tap.subscriptions(); n > 0 {
			t.Errorf("%d subscriptions", n)
		}
		released(t, g)
		before := time.Now()
		next := granted(t, waits)
		if late := time.Since(before); late > 128*time.Millisecond {
			t.Errorf("granted %v after the release", late)
		}
		if next.Token() <= g.Token() {
			t.Errorf("token %d after %d", next.Token(), g.Token())
		}
		released(t, next)
	})
}

// asked is a store that keeps the requests for tenures.
type asked struct {
	whole
	requests []lockagent.AcquireRequest
}

func (s *asked) Acquire(ctx context.Context, r lockagent.AcquireRequest, done func(lockagent.AcquireReply, error)) {
	s.requests = append(s.requests, r)
	s.whole.Acquire(ctx, r, done)
}

// A request says which kind of waiting it is: for a place, beside others who poll, or for the end of a latch.
func TestWhatARequestSaysOfItsWait(t *testing.T) {
	type says struct{ queue, contends, foundClosed bool }
	for kind, want := range map[lockagent.LockKind]says{
		lockagent.PlainLock: {queue: true}, lockagent.SpinLock: {contends: true}, lockagent.Latch: {foundClosed: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			memory := memstore.New()
			store := &asked{whole: memory.Share()}
			a, b := start(t, Config{Store: memory}), start(t, Config{Store: store})
			request := Request{Owner: "ann", Kind: kind}
			ctx, cancel := context.WithCancel(background)
			if kind == lockagent.Latch {
				latch := lockagent.LatchRequest{Name: "door", Op: lockagent.LatchSet, Count: 1, Change: "one"}
				memory.Latch(background, latch, func(lockagent.LatchReply, error) {})
				b.Await(ctx, "door", "ann", 0)
			} else {
				granted(t, a.Acquire(background, "door", request))
				b.Acquire(ctx, "door", request)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			first, last := store.requests[0], store.requests[len(store.requests)-1]
			if got := (says{first.Queue, first.Contends, first.FoundClosed}); got != (says{}) {
				t.Errorf("%s: the first request says %+v", kind, got)
			}
			if got := (says{last.Queue, last.Contends, last.FoundClosed}); got != want {
				t.Errorf("%s: a request of a waiter says %+v, want %+v", kind, got, want)
			}
			cancel()
		})
	}
}

// hurry takes and frees the spin lock again and again, as threads of Redisson do: each of them waits for longer when it
// came late.
func hurry(store lockagent.Store, threads int, last time.Time) (wait func()) {
	var all sync.WaitGroup
	for thread := range threads {
		all.Go(func() {
			agent, random := lockagent.NewAgentID(), rand.New(rand.NewPCG(uint64(thread), 0))
			pause := time.Millisecond
			for number := uint64(1); time.Now().Before(last); {
				tenure, granted := lockagent.Tenure{Agent: agent, Number: number}, false
				store.Acquire(background, lockagent.AcquireRequest{
					Name: "door", Kind: lockagent.SpinLock, Tenure: tenure, Lease: DefaultLease,
				}, func(r lockagent.AcquireReply, err error) {
					granted = r.Granted && err == nil
				})
				if !granted {
					time.Sleep(pause)
					pause = min(2*pause+time.Duration(random.IntN(3))*time.Millisecond, 128*time.Millisecond)
					continue
				}
				time.Sleep(1500*time.Microsecond + time.Duration(random.IntN(500))*time.Microsecond)
				store.Release(
					background, lockagent.ReleaseRequest{Name: "door", Kind: lockagent.SpinLock, Tenure: tenure},
					func(lockagent.ReleaseReply, error) {},
				)
				number++
				pause = time.Millisecond
				time.Sleep(200*time.Microsecond + time.Duration(random.IntN(100))*time.Microsecond)
			}
		})
	}
	return all.Wait
}

// A lock that is free for a tenth of the time, and never for long, is granted in time: whoever comes too late asks more
// often.
func TestSpinLockInAHurry(t *testing.T) {
	for _, threads := range []int{1, 8} {
		synctest.Test(t, func(t *testing.T) {
			store := memstore.New()
			a := start(t, Config{Store: store.Share()})
			last, longest, grants := time.Now().Add(6*time.Second), time.Duration(0), 0
			wait := hurry(store.Share(), threads, last)
			for time.Now().Before(last) {
				asked := time.Now()
				g := granted(t, a.Acquire(background, "door", spinning("ann")))
				longest = max(longest, time.Since(asked))
				grants++
				time.Sleep(500 * time.Microsecond)
				released(t, g)
				time.Sleep(time.Millisecond) // then others have it
			}
			if longest > time.Second/2 || grants < 90 {
				t.Errorf("beside %d threads it waited for up to %v, and had %d grants", threads, longest, grants)
			}
			wait()
		})
	}
}
