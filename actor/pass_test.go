package actor

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
)

// A release passes the lock to an agent that waits. If the store has no queue, it wakes that agent,
// which tries again. There is one subscription, which ends when nobody has waited for a while.
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
		s.onSub = func(lockagent.Name, func()) { subscriptions++ }
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

// A message of a pass may be lost, repeated or wrong. That costs only time: the tenure has the lock,
// and finds out when it asks again.
func TestPassesThatGoWrong(t *testing.T) {
	type hear = func(lockagent.Message)
	for name, spoil := range map[string]func(hear hear, m lockagent.Message){
		"lost": func(hear, lockagent.Message) {},
		"lost, which is told": func(hear hear, _ lockagent.Message) {
			hear(lockagent.Message{Kind: lockagent.MessagesMissed})
		},
		"repeated": func(hear hear, m lockagent.Message) { hear(m); hear(m) },
		"of another agent": func(hear hear, m lockagent.Message) {
			m.Tenure.Agent = lockagent.NewAgentID()
			hear(m)
		},
		"of a tenure that was withdrawn": func(hear hear, m lockagent.Message) {
			old := m
			old.Tenure.Number--
			hear(m)
			hear(old)
		},
		"of another tenure":      func(hear hear, m lockagent.Message) { m.Tenure.Number++; hear(m) },
		"with a token from then": func(hear hear, m lockagent.Message) { m.Token = 1; hear(m) },
		"of an unknown clock":    func(hear hear, m lockagent.Message) { m.Clock = "sundial"; hear(m) },
		"unconfirmed":            func(hear hear, m lockagent.Message) { m.Unconfirmed = true; hear(m) },
		"of an unknown kind":     func(hear hear, m lockagent.Message) { m.Kind = 99; hear(m) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				s := newTap(store.Share())
				s.news = func(hear func(lockagent.Message), m lockagent.Message) {
					if m.Kind == lockagent.MessagePassed {
						spoil(hear, m)
					} else {
						hear(m)
					}
				}
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

// All who wait for a lock ask again if messages to them may be lost. Nobody else does.
func TestMissedMessagesOfOneLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		s := newTap(store.Share())
		a, b := start(t, Config{Store: s}), start(t, Config{Store: store})
		held, waiting := make(map[lockagent.Name]lockagent.Grant), make(map[lockagent.Name][]<-chan lockagent.Grant)
		for _, name := range []lockagent.Name{"door", "gate"} {
			held[name] = granted(t, b.Acquire(background, name, fairly("ann")))
			for _, owner := range []lockagent.Owner{"bob", "carl", "dan"} {
				waiting[name] = append(waiting[name], a.Acquire(background, name, fairly(owner)))
			}
		}
		synctest.Wait()
		for _, missed := range []struct {
			name  lockagent.Name
			kind  lockagent.LockKind
			asked int
		}{
			{"door", lockagent.FairLock, 3},
			{"gate", lockagent.FairLock, 3},
			{"far", lockagent.FairLock, 0},
			{"door", lockagent.Semaphore, 0},
			{"door", "", 0},
		} {
			before := s.count("acquire")
			a.hear(lockagent.Message{Kind: lockagent.MessagesMissed, Name: missed.name, LockKind: missed.kind})
			synctest.Wait()
			if n := s.count("acquire") - before; n != missed.asked {
				t.Errorf(
					"%d of those who wait for %q ask after messages to waiters for the %q were lost, want %d", n, missed.name,
					missed.kind, missed.asked,
				)
			}
		}
		for name, g := range held {
			released(t, g)
			for _, next := range waiting[name] {
				released(t, granted(t, next))
			}
		}
	})
}

// ghost plants a tenure that its agent has used, and knows nothing of any more, as a failover may that
// loses a release. It reports whether the tenure got the lock, or a place in the queue.
func ghost(t *testing.T, s *tap, a *Agent) (granted, queued bool) {
	t.Helper()
	replies := make(chan lockagent.AcquireReply, 1)
	req := lockagent.AcquireRequest{
		Name: "door", Tenure: lockagent.Tenure{Agent: a.ID(), Number: a.fresh.Add(1)}, Lease: time.Hour, Queue: true,
	}
	s.whole.Acquire(background, req, func(r lockagent.AcquireReply, _ error) { replies <- r })
	r := await(t, "the ghost's reply", replies)
	return r.Granted, r.Queued
}

// Whoever meets a ghost has it ended at once, and not when its lease is over.
func TestGhosts(t *testing.T) {
	for name, meet := range map[string]func(t *testing.T, s *tap, a, b *Agent){
		"in the way of its own agent": func(t *testing.T, s *tap, a, _ *Agent) {
			ghost(t, s, a)
			released(t, granted(t, a.Acquire(background, "door", who("ann"))))
		},
		"in the way of a try of its own agent": func(t *testing.T, s *tap, a, _ *Agent) {
			ghost(t, s, a)
			released(t, granted(t, a.Acquire(background, "door", Request{Owner: "ann", Try: true})))
		},
		"in the way of another agent": func(t *testing.T, s *tap, a, b *Agent) {
			ghost(t, s, a)
			released(t, granted(t, b.Acquire(background, "door", who("ann"))))
		},
		"in the way of another agent, while its own one has the lock in memory": func(t *testing.T, s *tap, a, b *Agent) {
			released(t, granted(t, a.Acquire(background, "door", who("ann"))))
			ghost(t, s, a)
			released(t, granted(t, b.Acquire(background, "door", who("ann"))))
		},
		"in the queue": func(t *testing.T, s *tap, a, b *Agent) {
			g := granted(t, b.Acquire(background, "door", who("ann")))
			if _, queued := ghost(t, s, a); !queued {
				t.Fatal("the ghost has no place")
			}
			released(t, g)
			released(t, granted(t, b.Acquire(background, "door", who("ann"))))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				s := newTap(store.Share())
				a, b := start(t, Config{Store: s}), start(t, Config{Store: store})
				before := time.Now()
				meet(t, s, a, b)
				if took := time.Since(before); took >= lockagent.PassLease {
					t.Errorf("a ghost held up the lock for %v", took)
				}
			})
		})
	}
}

// The release of a ghost that no actor has counts as a call: Close waits for the answer.
func TestCloseWaitsForTheReleaseOfAGhost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		s := newTap(store.Share())
		a, b := start(t, Config{Store: s}), start(t, Config{Store: store})
		var release *op
		s.on("release", func(o *op) { release = o })
		ghost(t, s, a)
		waits := b.Acquire(background, "door", who("ann"))
		synctest.Wait()
		closing := make(chan error, 1)
		go func() { closing <- a.Close() }()
		synctest.Wait()
		if release == nil || len(closing) > 0 {
			t.Fatalf("the ghost is released: %v; closed already: %d", release != nil, len(closing))
		}
		release.run()
		if err := await(t, "close", closing); err != nil {
			t.Error(err)
		}
		released(t, granted(t, waits))
	})
}
