package actor

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
)

// Whoever waits for another agent is passed the lock by its release, or, if the store
// has no queue, woken by it to try again; over one subscription that is let go when
// nobody has waited for a while.
func TestReleaseReachesAnotherAgent(t *testing.T) {
	t.Run("passed on", func(t *testing.T) { releaseReachesAnotherAgent(t, true, 0) })
	t.Run("woken", func(t *testing.T) { releaseReachesAnotherAgent(t, false, 1) })
}

func releaseReachesAnotherAgent(t *testing.T, queue bool, attemptsForIt int) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		s := newTap(store.Share())
		s.noQueue = !queue
		subscriptions := 0
		s.onSub = func(lockagent.Name, func(*lockagent.Pass)) { subscriptions++ }
		a, b := start(t, Config{Store: s}), start(t, Config{Store: store})
		for range 5 {
			g := granted(t, b.Acquire(background, "door", who("ann")))
			c, d := a.Acquire(background, "door", who("bob")), a.Acquire(background, "door", who("carl"))
			time.Sleep(time.Second)
			attempts := s.count("acquire")
			released(t, g)
			synctest.Wait()
			if len(c) != 1 {
				t.Fatal("not granted at the moment of the release")
			}
			if n := s.count("acquire") - attempts; n != attemptsForIt {
				t.Errorf("%d attempts for one release, want %d", n, attemptsForIt)
			}
			released(t, granted(t, c))
			released(t, granted(t, d))
			if n := s.subscriptions(); n != 1 || subscriptions != 1 {
				t.Errorf("%d subscriptions, of %d", n, subscriptions)
			}
		}
		time.Sleep(linger)
		synctest.Wait()
		if n := s.subscriptions(); n != 0 {
			t.Errorf("%d subscriptions in the end", n)
		}
	})
}

// A pass that is lost, comes twice, or tells of a token that is not new costs time at the
// most: the tenure has the lock and finds out when it asks again.
func TestPassesThatGoWrong(t *testing.T) {
	for name, spoil := range map[string]func(wake func(*lockagent.Pass), p *lockagent.Pass){
		"lost":     func(func(*lockagent.Pass), *lockagent.Pass) {},
		"repeated": func(wake func(*lockagent.Pass), p *lockagent.Pass) { wake(p); wake(p) },
		"of another agent": func(wake func(*lockagent.Pass), p *lockagent.Pass) {
			q := *p
			q.Tenure.Agent = lockagent.NewAgentID()
			wake(&q)
			wake(nil)
		},
		"of a tenure that was withdrawn": func(wake func(*lockagent.Pass), p *lockagent.Pass) { q := *p; q.Tenure.Number--; wake(p); wake(&q) },
		"of another tenure":              func(wake func(*lockagent.Pass), p *lockagent.Pass) { q := *p; q.Tenure.Number++; wake(&q); wake(nil) },
		"with a token from then":         func(wake func(*lockagent.Pass), p *lockagent.Pass) { q := *p; q.Token = 1; wake(&q) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				s := newTap(store.Share())
				s.pass = spoil
				a, b := start(t, Config{Store: s}), start(t, Config{Store: store})
				before := granted(t, a.Acquire(background, "door", who("ann"))) // so that a token is known
				released(t, before)
				g := granted(t, b.Acquire(background, "door", who("ann")))
				c := a.Acquire(background, "door", who("bob"))
				synctest.Wait()
				released(t, g)
				after := granted(t, c)
				if after.Token() <= g.Token() {
					t.Errorf("token %d after %d", after.Token(), g.Token())
				}
				time.Sleep(2 * DefaultLease)
				if !after.Held() {
					t.Errorf("the hold is over: %v", after.Cause())
				}
				released(t, after)
				released(t, granted(t, b.Acquire(background, "door", who("ann"))))
			})
		})
	}
}

// A pass to a tenure that the agent has given up without the store hearing of it is
// given back at once.
func TestPassThatNobodyWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		s := newTap(store.Share())
		a, b := start(t, Config{Store: s}), start(t, Config{Store: store})
		g := granted(t, b.Acquire(background, "door", who("ann")))
		waiting := a.Acquire(background, "door", who("bob"))
		synctest.Wait()
		// Another tenure of the same agent is in the queue, before the one that waits.
		ghost := lockagent.AcquireRequest{Name: "door", Tenure: lockagent.Tenure{Agent: a.ID(), Number: 1 << 62}, Lease: DefaultLease, Tokens: 1, Queue: true}
		queued := make(chan bool, 1)
		released(t, g)
		released(t, granted(t, waiting))
		g = granted(t, b.Acquire(background, "door", who("ann")))
		s.Store.Acquire(background, ghost, func(r lockagent.AcquireReply, _ error) { queued <- r.Queued })
		if !<-queued {
			t.Fatal("the ghost has no place")
		}
		start := time.Now()
		released(t, g)
		released(t, granted(t, b.Acquire(background, "door", who("ann"))))
		if late := time.Since(start); late >= lockagent.PassLease {
			t.Errorf("a pass that nobody waits for held the lock for %v", late)
		}
	})
}
