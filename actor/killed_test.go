package actor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
	"github.com/lockagent/lockagent/internal/saved"
	"github.com/lockagent/lockagent/memstore"
)

// resumedOf is the one request of a lock that an agent has resumed for an owner.
func resumedOf(t testing.TB, a *Agent, owner lockagent.Owner) ResumedRequest {
	t.Helper()
	for _, r := range a.Resumed() {
		if r.Owner == owner {
			return r
		}
	}
	t.Fatalf("%q was not resumed: %+v", owner, a.Resumed())
	panic("unreachable")
}

// Holders go on, and those who wait keep their places, in this agent and in the store.
func TestKilledAgentGoesOn(t *testing.T) {
	for _, kind := range []lockagent.LockKind{lockagent.PlainLock, lockagent.FairLock} {
		t.Run(string(kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				b := start(t, Config{Store: store})
				a, s := mortal(t, store, Config{})
				as := func(o lockagent.Owner) Request { return Request{Owner: o, Kind: kind} }
				far := granted(t, b.Acquire(background, "far", as("far")))
				near := granted(t, a.Acquire(background, "near", as("near")))
				for i, owner := range []lockagent.Owner{"ann", "bob"} {
					for _, name := range []lockagent.Name{"near", "far"} {
						req := as(owner + "@" + lockagent.Owner(name))
						req.Wait = time.Duration(2-i) * time.Hour
						go a.Lock(background, name, req)
						synctest.Wait()
					}
				}
				last := b.Acquire(background, "far", as("last"))
				time.Sleep(3*time.Second + 1)
				n := killed(t, a, s)
				time.Sleep(5 * time.Second)
				next := resuming(t, Config{Store: store.Share(), Journal: newChronicle()}, n)
				if len(next.Resumed()) != 5 || next.ID() != a.ID() {
					t.Fatalf("resumed %+v", next.Resumed())
				}
				again := claimed(t, next, "near")
				if again.Token() != near.Token() {
					t.Errorf("token %d, want %d", again.Token(), near.Token())
				}
				time.Sleep(time.Minute)
				for _, r := range next.Resumed()[1:] {
					if r.Waits != (r.Owner != "near") || r.Token != 0 && r.Waits {
						t.Errorf("resumed %+v", r)
					}
				}
				silent(t, "last", last)
				released(t, far)
				released(t, again)
				for _, name := range []lockagent.Name{"far", "near"} {
					first, second := resumedOf(
						t, next, "ann@"+lockagent.Owner(name),
					), resumedOf(t, next, "bob@"+lockagent.Owner(name))
					g := granted(t, first.Grant)
					silent(t, "second", second.Grant)
					released(t, g)
					released(t, granted(t, second.Grant))
				}
				released(t, granted(t, last))
			})
		})
	}
}

// Whoever goes on with requests of another process learns what becomes of them.
func TestResumedIsWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		a, s := mortal(t, store, Config{})
		granted(t, a.Acquire(background, "door", who("ann")))
		_ = a.Acquire(background, "door", who("bob"))
		synctest.Wait()
		client, w := lockagent.Process{Program: "client"}.Who(), &witness{}
		told := make(map[lockagent.Owner]*onlooker)
		next := resuming(t, Config{
			Store: store.Share(), Recorder: w, Resumed: func(r ResumedRequest) (context.Context, Watcher, lockagent.Who) {
				told[r.Owner] = new(onlooker)
				return nil, told[r.Owner], client
			},
		}, killed(t, a, s))
		ann := claimed(t, next, "door")
		synctest.Wait()
		released(t, ann)
		released(t, granted(t, resumedOf(t, next, "bob").Grant))
		told["ann"].reads(t, "renewed", "ended: "+lockagent.ErrReleased.Error())
		told["bob"].reads(t, "granted", "ended: "+lockagent.ErrReleased.Error())
		for _, e := range w.all() {
			if e.Request != 0 && e.Who != client {
				t.Errorf("%v of %q is told to be of %v", e.Kind, e.Owner, e.Who)
			}
		}
		if len(w.of(lockagent.EventReleased)) != 2 {
			t.Error("the log does not have both ends")
		}
	})
}

// The time to wait goes on, and whoever does not want to wait any more leaves.
func TestKilledAgentsWaitsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		a, s := mortal(t, store, Config{})
		b := start(t, Config{Store: store})
		far := granted(t, b.Acquire(background, "door", who("far")))
		_ = a.Acquire(background, "door", Request{Owner: "ann", Wait: time.Minute})
		_ = a.Acquire(background, "door", who("bob"))
		time.Sleep(20 * time.Second)
		n := killed(t, a, s)
		next := resuming(t, Config{Store: store.Share()}, n)
		ann, bob := resumedOf(t, next, "ann"), resumedOf(t, next, "bob")
		time.Sleep(39 * time.Second)
		silent(t, "ann", ann.Grant)
		time.Sleep(2 * time.Second)
		var waited *lockagent.WaitError
		if err := refusal(t, ann.Grant, lockagent.ErrTimeout); !errors.As(err, &waited) || waited.Waited < time.Minute {
			t.Errorf("%v", err)
		}
		if err := await(t, "leave", next.Leave(background, "door", "bob")); err != nil {
			t.Error(err)
		}
		refused(t, bob.Grant, lockagent.ErrSessionClosed)
		synctest.Wait()
		released(t, far)
		released(t, granted(t, b.Acquire(background, "door", Request{Owner: "cid", Try: true})))
	})
}

// A lock whose actor panics starts over. The journal knows.
func TestJournalOfALockThatStartsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		a, s := mortal(t, store, Config{Logger: quiet})
		granted(t, a.Acquire(background, "door", Request{Owner: "ann", Lease: time.Hour}))
		a.Acquire(background, "door", who("bob"))
		synctest.Wait()
		a.upset("door")
		n := killed(t, a, s)
		next := resuming(t, Config{Store: store.Share()}, n)
		if r := next.Resumed(); len(r) != 0 {
			t.Errorf("resumed %+v", r)
		}
		released(t, granted(t, start(t, Config{Store: store}).Acquire(background, "door", who("cid"))))
	})
}

// One agent is killed again and again, after any entry of its journal, while another one wants the same locks and the
// store does to both what its contract permits. Owners go on for as long as they knew that they had, and never meet
// another holder.
func TestKilledAgain(t *testing.T) { killedAgain(t, 2) }

func killedAgain(t *testing.T, seeds uint64) {
	for _, kind := range []lockagent.LockKind{lockagent.PlainLock, lockagent.FairLock} {
		for seed := range seeds {
			t.Run(fmt.Sprint(kind, seed), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { beKilled(t, newChance(seed), kind) })
			})
		}
	}
}

func beKilled(t *testing.T, c *chance, kind lockagent.LockKind) {
	const locks, lease, most = 3, 3 * time.Second, time.Second
	store := memstore.New()
	b := newBelievers(t)
	config := func(k *chronicle) (Config, *tap) {
		s := newTap(narrated{store.Share(), b})
		misbehave := c.misbehave(most)
		s.handle(func(o *op) {
			if !k.lives(func() {}) { // a call that the journal cannot know of never leaves the process
				o.fail(lockagent.ErrClosed)
				return
			}
			misbehave(o)
		})
		return Config{Store: s, Recorder: b, Lease: lease, Claim: 20 * time.Second, Logger: quiet}, s
	}
	// hold is what an owner does with a grant. k is the journal of its process.
	hold := func(k *chronicle, g lockagent.Grant, goesOn bool, most time.Duration) {
		of := belonging{g.Name(), g.Token()}
		if g.Err() != nil ||
			!k.lives(func() { b.believe(of.name, g.Owner(), of.token, g.Held, goesOn); k.held[of] = g }) {
			return
		}
		time.Sleep(c.upTo(most))
		if k.lives(func() { b.over(g); delete(k.held, of) }) {
			_ = <-g.ReleaseAsync(background)
		}
	}
	var workers sync.WaitGroup
	work := func(a *Agent, k *chronicle, owner string, most time.Duration) {
		for i := 0; ; i++ {
			req := Request{Owner: lockagent.Owner(fmt.Sprint(owner, i)), Kind: kind}
			if c.below(3) == 0 {
				req.Lease = lease + c.upTo(lease)
			}
			g := <-a.Acquire(background, door(c.below(locks)), req)
			if errors.Is(g.Err(), lockagent.ErrClosed) {
				return
			}
			hold(k, g, false, most)
		}
	}
	immortal := newChronicle()
	cfg, _ := config(immortal)
	other, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		workers.Go(func() { work(other, immortal, fmt.Sprint("other", i, "-"), most) })
	}
	var from *saved.Agent
	resumed := 0
	var waited atomic.Int64
	for generation := range 30 {
		k := newChronicle()
		cfg, s := config(k)
		cfg.Journal, k.left = k, 1+c.below(60)
		var a *Agent
		if from == nil {
			a, err = New(cfg)
		} else {
			a, err = Resume(cfg, *from)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range a.Resumed() {
			switch {
			case r.Waits:
				workers.Go(func() {
					if g, ok := <-r.Grant; ok {
						waited.Add(1)
						hold(k, g, false, most)
					}
				})
			default:
				if g, ok := <-r.Grant; ok {
					resumed++
					believed := b.believed(r.Name, r.Token)
					workers.Go(func() {
						if believed {
							hold(k, g, true, 2*lease)
						} else { // the owner had given it up
							_ = <-g.ReleaseAsync(background)
						}
					})
				}
			}
		}
		for i := range 4 {
			workers.Go(func() { work(a, k, fmt.Sprint("a", generation, "-", i, "-"), 2*lease) })
		}
		life := time.NewTimer(c.upTo(8 * lease))
		select {
		case <-k.death:
		case <-life.C:
		}
		life.Stop()
		n := killed(t, a, s)
		from = &n
		b.outlive(k, n)
		workers.Go(func() { _ = a.Close() })
		b.happensToAll("%s is dead", a.ID())
		time.Sleep(c.upTo(lease))
	}
	last, err := Resume(func() Config { cfg, _ := config(newChronicle()); return cfg }(), *from)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * lease)
	_ = last.Close()
	_ = other.Close()
	workers.Wait()
	if resumed == 0 || waited.Load() == 0 {
		t.Error("nobody went on")
	}
	t.Logf("%d holds resumed, %d were granted later", resumed, waited.Load())
}

// outlive has the owners of a process that has ended go on for as long as they know that they have. Its journal must
// have all of their holds.
func (b *believers) outlive(k *chronicle, n saved.Agent) {
	told := make(map[belonging]bool)
	for i := range n.Locks {
		for _, r := range n.Locks[i].Requests {
			told[belonging{n.Locks[i].Name, r.Token}] = true
		}
	}
	for of, until := range k.outlived {
		if time.Now().Before(until) && !told[of] {
			b.t.Errorf("%q with token %d is held, and not in the journal", of.name, of.token)
		}
		b.believe(
			of.name, "of a process that was killed", of.token, func() bool { return time.Now().Before(until) }, true,
		)
	}
}

// A lock that cannot even tell what it has in the store starts over. The journal has nothing of it then, so that the
// name may be one of another kind, and the journal can still be read.
func TestJournalOfALockThatCannotTellWhatItHas(t *testing.T) {
	for name, resumed := range map[string]bool{"new": false, "resumed": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				a, s := mortal(t, store, Config{Logger: quiet})
				granted(t, a.Acquire(background, "door", who("ann")))
				a.Acquire(background, "door", who("bob"))
				synctest.Wait()
				if resumed {
					n := killed(t, a, s)
					s = newTap(store.Share())
					a = resuming(t, Config{Store: s, Journal: newChronicle(), Logger: quiet}, n)
					claimed(t, a, "door")
					synctest.Wait()
					l := a.actorOf("door")
					l.scribe.tenures = nil
					l.changes() // as before the first step
					l.takesFor(t, l.state.Snapshot().Tenures)
				}
				a.actorOf("door").state = (*lockstate.State)(nil)
				a.upset("door")
				a.cfg.Journal.(*chronicle).flush()
				for _, l := range a.cfg.Journal.(*chronicle).leaves(t).Locks {
					if len(l.Tenures) > 0 || len(l.Requests) > 0 {
						t.Errorf("the journal has %+v", l)
					}
				}
				time.Sleep(DefaultLease + DefaultIdle)
				granted(t, a.Acquire(background, "door", Request{Owner: "cid", Kind: lockagent.FairLock}))
				next := resuming(t, Config{Store: store.Share()}, killed(t, a, s))
				released(t, claimed(t, next, "door"))
			})
		})
	}
}
