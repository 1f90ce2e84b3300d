package script

import (
	"errors"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
)

// asAnother tries a lock as each kind that may look like another one in Redis.
type asAnother map[lockagent.LockKind]func(c *Call, requests []lockagent.AcquireRequest, past Past)

func (s *server) kinds() asAnother {
	return asAnother{
		lockagent.PlainLock: s.room.Acquire, lockagent.FairLock: s.room.FairAcquire,
		lockagent.SpinLock: s.room.AcquireSpin, lockagent.FencedLock: s.room.AcquireFenced,
	}
}

// as tries a lock as a kind, and returns the reply, and as what the name is in use if that is the error.
func (s *server) as(kind lockagent.LockKind, req lockagent.AcquireRequest) (lockagent.AcquireReply, lockagent.LockKind) {
	s.t.Helper()
	s.kinds()[kind](&s.call, []lockagent.AcquireRequest{req}, s.past)
	text, err := s.run(&s.call)
	outcomes := make([]Outcome[lockagent.AcquireReply], 1)
	if err == nil {
		err = s.room.ReadAcquired(text, s.past, outcomes)
	} else {
		err = Refused(err.Error())
	}
	if err == nil {
		err = outcomes[0].Err
	}
	used, _ := errors.AsType[*lockagent.KindError](err)
	switch {
	case used != nil:
		return lockagent.AcquireReply{}, used.Used
	case err != nil:
		s.t.Fatal(err)
	}
	s.past.Note(outcomes[0].Reply.At, min(outcomes[0].Reply.Token, lockagent.Token(outcomes[0].Reply.At)))
	s.past.In(outcomes[0].Reply.Incarnation)
	return outcomes[0].Reply, ""
}

// expectUsed tries a lock as a kind, with a place and without, and expects it to be refused because the name is in use as another.
func (s *server) expectUsed(kind lockagent.LockKind, number uint64, used lockagent.LockKind) {
	s.t.Helper()
	keys := s.keys()
	if _, got := s.as(kind, queueing("orders", agentC, number)); got != used {
		s.t.Errorf("as %s: in use as %q, want %q", kind, got, used)
	}
	if used != "" {
		s.expectKeys(keys...)
	}
}

// Waiters show as which kind a name is in use, whoever has the lock.
func TestWaitersOfAnotherKind(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		waits, asks, used lockagent.LockKind
	}{
		{lockagent.FairLock, lockagent.PlainLock, lockagent.FairLock},
		{lockagent.FairLock, lockagent.SpinLock, lockagent.FairLock},
		{lockagent.FairLock, lockagent.FairLock, ""},
		{lockagent.PlainLock, lockagent.FairLock, lockagent.PlainLock},
		{lockagent.PlainLock, lockagent.SpinLock, lockagent.PlainLock},
		{lockagent.PlainLock, lockagent.PlainLock, ""},
		{lockagent.SpinLock, lockagent.PlainLock, ""}, // it leaves no place
		{lockagent.SpinLock, lockagent.FairLock, ""},
		{lockagent.SpinLock, lockagent.SpinLock, ""},
	} {
		for _, holder := range []string{tenure(agentA, 1).String(), java} {
			for _, room := range []Room{Single, Sharded} {
				t.Run(string(c.waits)+"/"+string(c.asks)+"/"+holder[:1]+"/"+room.String(), func(t *testing.T) {
					s := start(t)
					s.room = room
					s.grant(wish("another", agentA, 1)) // the server has a clock
					s.Do("HSET", "orders", holder, "1")
					s.Do("PEXPIRE", "orders", "30000")
					there := s.waits(agentB, "orders")
					if r, used := s.as(c.waits, queueing("orders", agentB, 1)); used != "" || r.Queued != (c.waits != lockagent.SpinLock) {
						t.Fatalf("the waiter: %+v, in use as %q", r, used)
					}
					s.expectUsed(c.asks, 1, c.used)
					if r, used := s.as(c.asks, wish("orders", agentC, 2)); used != "" || r.Granted || r.Holder != holder {
						t.Errorf("a try: %+v, in use as %q; want it held", r, used)
					}
					if r, used := s.as(c.waits, queueing("orders", agentB, 1)); used != "" || r.Queued != (c.waits != lockagent.SpinLock) {
						t.Errorf("the waiter asks again: %+v, in use as %q", r, used)
					}
					// An agent that is gone waits no more.
					there.Close()
					redistest.Eventually(t, "nobody listens", func() bool {
						return len(s.Do("PUBSUB", "CHANNELS").([]any))+len(s.Do("PUBSUB", "SHARDCHANNELS").([]any)) == 0
					})
					s.expectUsed(c.asks, 3, "")
				})
			}
		}
	}
}

// Fenced locks have the queue of plain ones. The token key, which stays, says which of them a name is.
func TestWaitersBesideATokenKey(t *testing.T) {
	t.Parallel()
	for waits, want := range map[lockagent.LockKind]map[lockagent.LockKind]lockagent.LockKind{
		lockagent.FencedLock: {lockagent.FairLock: lockagent.FencedLock, lockagent.SpinLock: lockagent.FencedLock, lockagent.FencedLock: ""},
		lockagent.FairLock:   {lockagent.FencedLock: lockagent.FairLock},
	} {
		for asks, used := range want {
			s := start(t)
			s.Do("SET", tokenKey, "3")
			s.Do("HSET", "orders", java, "1")
			s.waits(agentB, "orders")
			s.as(waits, queueing("orders", agentB, 1))
			s.expectUsed(asks, 1, used)
		}
	}
}

// Whoever has a place came first, and is not refused, whatever others do.
func TestAPlaceBesideThoseOfAnotherKind(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.grant(wish("orders", agentA, 1))
	s.waits(agentB, "orders")
	s.waits(agentC, "orders")
	s.acquire(queueing("orders", agentB, 1))
	s.expectUsed(lockagent.FairLock, 1, lockagent.PlainLock)
	s.Do("RENAME", "lockagent_queue:{orders}", "aside")
	s.expectUsed(lockagent.FairLock, 1, "")
	s.Do("RENAME", "aside", "lockagent_queue:{orders}")
	s.expectUsed(lockagent.FairLock, 1, "")
	if r := s.acquire(queueing("orders", agentB, 1)); !r.Queued {
		t.Errorf("the plain waiter asks again: %+v", r)
	}
}

// A place that nobody uses any more tells nothing, even if its agent lives: nobody asked for it in a while.
func TestPlacesThatWereLeft(t *testing.T) {
	t.Parallel()
	for waits, asks := range map[lockagent.LockKind]lockagent.LockKind{
		lockagent.PlainLock: lockagent.FairLock, lockagent.FairLock: lockagent.PlainLock,
	} {
		for what, leave := range map[string]func(s *server, places string){
			"long ago":    func(s *server, places string) { s.Do("PEXPIRE", places, "269000") },
			"without end": func(s *server, places string) { s.Do("PERSIST", places) },
			"of no zset":  func(s *server, places string) { s.Do("SET", places, "spoilt", "PX", "300000") },
			"of nobody":   func(s *server, places string) { s.Do("DEL", places) },
			"of no tenure": func(s *server, places string) {
				s.Do("DEL", places)
				s.Do("ZADD", places, "1", "nonsense")
				s.Do("PEXPIRE", places, "300000")
			},
		} {
			t.Run(string(waits)+"/"+what, func(t *testing.T) {
				s := start(t)
				s.grant(wish("orders", agentA, 1))
				s.waits(agentB, "orders")
				s.as(waits, queueing("orders", agentB, 1))
				s.expectUsed(asks, 1, waits)
				leave(s, map[lockagent.LockKind]string{lockagent.PlainLock: "lockagent_queue:{orders}", lockagent.FairLock: "lockagent_places:{orders}"}[waits])
				s.expectUsed(asks, 2, "")
			})
		}
	}
}

// Behind a service of several servers nobody can count who listens. There a place is good for as long as it is used.
func TestPlacesBehindAService(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.room = Unqueued
	s.grant(wish("orders", agentA, 1))
	s.as(lockagent.FairLock, queueing("orders", agentB, 1))
	s.expectUsed(lockagent.PlainLock, 1, lockagent.FairLock)
	s.expectUsed(lockagent.SpinLock, 1, lockagent.FairLock)
	s.Do("PEXPIRE", "lockagent_places:{orders}", "269000")
	s.expectUsed(lockagent.PlainLock, 2, "")
}

// The token key of a fenced lock that an agent has is above the end of the lease. Nothing else that may be in the key refuses anybody.
func TestHolderOfAFencedLock(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(s *server)
		used   lockagent.LockKind
	}{
		"as it was granted": {func(*server) {}, lockagent.FencedLock},
		"renewed": {func(s *server) {
			for _, lease := range []time.Duration{30 * time.Second, time.Minute, time.Minute} {
				s.room.RenewFenced(&s.call, []lockagent.RenewRequest{{Name: "orders", Tenure: tenure(agentA, 1), Lease: lease}})
				s.must(&s.call)
			}
		}, lockagent.FencedLock},
		"after a break": {func(s *server) {
			s.room.BreakFenced(&s.call, lockagent.BreakRequest{Name: "orders"})
			s.must(&s.call)
			later := wish("orders", agentB, 1)
			later.Lease = 2 * time.Minute
			s.as(lockagent.FencedLock, later)
		}, lockagent.FencedLock},
		"broken, and then used as another kind": {func(s *server) {
			s.room.BreakFenced(&s.call, lockagent.BreakRequest{Name: "orders"})
			s.must(&s.call)
			s.grant(wish("orders", agentB, 1))
			s.Do("PEXPIRE", "orders", "60000") // it was renewed
		}, ""},
		"released, and then used as another kind": {func(s *server) {
			s.room.ReleaseFenced(&s.call, []ReleaseRequest{end(wish("orders", agentA, 1))}, s.past)
			s.must(&s.call)
			s.grant(wish("orders", agentB, 1))
		}, ""},
		"a key that counts from 1":         {func(s *server) { s.Do("SET", tokenKey, "3") }, ""},
		"a key that is far ahead":          {func(s *server) { s.Do("INCRBY", tokenKey, "16000000") }, ""},
		"a key that is gone":               {func(s *server) { s.Do("DEL", tokenKey) }, ""},
		"a key without a number":           {func(s *server) { s.Do("SET", tokenKey, "seven") }, ""},
		"a key that is none":               {func(s *server) { s.Do("DEL", tokenKey); s.Do("HSET", tokenKey, "a", "b") }, ""},
		"a lease without end":              {func(s *server) { s.Do("PERSIST", "orders") }, ""},
		"a holder that is another program": {func(s *server) { s.Do("HSET", "orders", java, "1"); s.Do("HDEL", "orders", tenure(agentA, 1).String()) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			s.as(lockagent.FencedLock, wish("orders", agentA, 1))
			c.change(s)
			for _, asks := range []lockagent.LockKind{lockagent.PlainLock, lockagent.FairLock, lockagent.SpinLock} {
				if r, used := s.as(asks, wish("orders", agentC, 9)); used != c.used || r.Granted {
					t.Errorf("as %s: %+v, in use as %q, want %q", asks, r, used, c.used)
				}
			}
			if c.used == lockagent.FencedLock {
				s.as(lockagent.FencedLock, wish("orders", agentC, 9))
			}
		})
	}
}
