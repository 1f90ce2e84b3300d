package script

import (
	"errors"
	"slices"
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
func (s *server) as(
	kind lockagent.LockKind, req lockagent.AcquireRequest,
) (lockagent.AcquireReply, lockagent.LockKind) {
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

// expectUsed tries a lock as a kind, with a place and without, and expects it to be refused because the name is in use
// as another.
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

// holds makes somebody the holder of a lock, whose hold count is in the hash.
func (s *server) holds(holder, count string) {
	s.t.Helper()
	s.Do("HSET", "orders", holder, count)
	s.Do("PEXPIRE", "orders", "30000")
}

// rooms are those that the servers have, of a server alone and of a Cluster.
func rooms(t *testing.T) []Room {
	t.Helper()
	if !redistest.Sharded(t) {
		return []Room{Single}
	}
	return []Room{Single, Sharded}
}

// alike are the kinds that look alike in Redis, but for the hold count of an agent.
var alike = []lockagent.LockKind{lockagent.PlainLock, lockagent.FairLock, lockagent.FencedLock, lockagent.SpinLock}

// everyKind has the kinds of which somebody may have holds.
var everyKind = slices.Concat(alike, readWrite, []lockagent.LockKind{lockagent.Semaphore, lockagent.Permits})

// releaseAs releases a tenure as a kind.
func (s *server) releaseAs(kind lockagent.LockKind, req lockagent.AcquireRequest) lockagent.ReleaseReply {
	s.t.Helper()
	of := end(req)
	of.Kind = kind
	return s.releaseOf(of)
}

// releaseOf releases a lock, or permits, as the Kind of the request says.
func (s *server) releaseOf(req ReleaseRequest) lockagent.ReleaseReply {
	s.t.Helper()
	if req.Kind == lockagent.Semaphore || req.Kind == lockagent.Permits {
		s.room.ReleasePermits(&s.call, &req, s.past)
		return s.released(1)[0].Reply
	}
	map[lockagent.LockKind]func(c *Call, requests []ReleaseRequest, past Past){
		lockagent.PlainLock: s.room.Release, lockagent.FairLock: s.room.FairRelease,
		lockagent.SpinLock: s.room.ReleaseSpin, lockagent.FencedLock: s.room.ReleaseFenced,
		lockagent.ReadWriteLock: s.room.ReadWriteRelease,
	}[req.Kind](&s.call, []ReleaseRequest{req}, s.past)
	return s.released(1)[0].Reply
}

// looksAs inspects a lock as a kind, and then breaks it if breaks says so.
func (s *server) looksAs(kind lockagent.LockKind, breaks bool) (lockagent.Inspection, error) {
	s.t.Helper()
	switch {
	case !breaks:
		s.room.Inspect(&s.call, "orders", kind)
	case kind == lockagent.FairLock:
		s.room.FairBreak(&s.call, lockagent.BreakRequest{Name: "orders", Kind: kind}, s.past)
	default:
		s.room.Break(&s.call, lockagent.BreakRequest{Name: "orders", Kind: kind}, s.past)
	}
	text, err := s.run(&s.call)
	if err != nil {
		return lockagent.Inspection{}, Refused(err.Error())
	}
	if breaks {
		_, err := ReadBroken(text, s.past)
		return lockagent.Inspection{}, err
	}
	return ReadInspected(text)
}

// An agent that has a lock shows as which kind, however it got the lock.
func TestHolderOfAnotherKind(t *testing.T) {
	t.Parallel()
	for _, kind := range alike {
		ways := map[string]func(s *server) lockagent.AcquireRequest{
			"granted": func(s *server) lockagent.AcquireRequest {
				req := wish("orders", agentA, 1)
				s.as(kind, req)
				return req
			},
			"granted on the long way": func(s *server) lockagent.AcquireRequest {
				req := wish("orders", agentA, 1)
				s.Do("ZADD", "lockagent_notes:{orders}", "1", "an old note")
				s.as(kind, req)
				return req
			},
			"granted once more": func(s *server) lockagent.AcquireRequest {
				req := wish("orders", agentA, 1)
				s.as(kind, req)
				s.as(kind, req)
				return req
			},
			"begun by an earlier version": func(s *server) lockagent.AcquireRequest {
				req := wish("orders", agentA, 1)
				s.as(kind, req)
				s.holds(req.Tenure.String(), "1")
				s.as(kind, req)
				return req
			},
			"passed": func(s *server) lockagent.AcquireRequest {
				first, req := wish("orders", agentB, 1), queueing("orders", agentA, 1)
				s.waits(agentA, "orders")
				s.as(kind, first)
				s.as(kind, req)
				if r := s.releaseAs(kind, first); !r.Passed {
					s.t.Fatalf("%+v; want the lock passed", r)
				}
				return req
			},
		}
		if kind == lockagent.SpinLock {
			delete(ways, "passed") // nobody passes a spin lock
		}
		for how, begin := range ways {
			for _, room := range rooms(t) {
				t.Run(string(kind)+"/"+how+"/"+room.String(), func(t *testing.T) {
					s := start(t)
					s.room = room
					held := begin(s)
					for n, asks := range alike {
						want := kind
						if asks == kind {
							want = ""
						}
						s.expectUsed(asks, uint64(10+n), want)
						r, used := s.as(asks, wish("orders", agentC, uint64(20+n)))
						if used != want || r.Granted || want == "" && r.Holder != held.Tenure.String() {
							t.Errorf("as %s: %+v, in use as %q, want %q", asks, r, used, want)
						}
						for _, breaks := range []bool{false, true} {
							if breaks && asks == kind {
								continue
							}
							seen, err := s.looksAs(asks, breaks)
							told, _ := errors.AsType[*lockagent.KindError](err)
							refused := told != nil && told.Used == want
							shown := err == nil && seen.Holder == held.Tenure.String() && seen.HoldCount == 1
							if want != "" && !refused || want == "" && !shown {
								t.Errorf("as %s, broken %v: %+v, %v; want it in use as %q", asks, breaks, seen, err, want)
							}
						}
					}
					if r := s.renew(lockagent.RenewRequest{Name: "orders", Tenure: held.Tenure, Lease: time.Minute}); !r.Held {
						t.Error("a renewal finds that the tenure is over")
					}
					s.waits(agentC, "orders")
					if r, used := s.as(kind, held); !r.Granted {
						t.Errorf("the holder asks again: %+v, in use as %q", r, used)
					}
					if r := s.releaseAs(kind, held); !r.Released {
						t.Errorf("%+v; want it released", r)
					}
				})
			}
		}
	}
}

// Holders that do not say as which kind they have the lock refuse nobody. Nor does a waiter.
func TestHolderThatShowsNoKind(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct{ holder, count string }{
		"an agent of an earlier version":  {tenure(agentA, 1).String(), "1"},
		"an agent of a later version":     {tenure(agentA, 1).String(), "6"},
		"a thread that has it twice":      {java, "2"},
		"a thread that has it four times": {java, "4"},
		"an agent with another identity":  {"my-agent:1", "3"},
	} {
		t.Run(what, func(t *testing.T) {
			s := start(t)
			s.Do("SET", tokenKey, "3")
			s.holds(c.holder, c.count)
			for n, asks := range alike {
				for _, req := range []lockagent.AcquireRequest{
					wish("orders", agentC, uint64(n+1)),
					queueing("orders", agentC, uint64(n+1)),
				} {
					if r, used := s.as(asks, req); used != "" || r.Granted || r.Holder != c.holder {
						t.Errorf("as %s: %+v, in use as %q; want it held by %s", asks, r, used, c.holder)
					}
				}
				if seen, err := s.looksAs(asks, false); err != nil || seen.Holder != c.holder {
					t.Errorf("as %s: %+v, %v", asks, seen, err)
				}
			}
		})
	}
}

// The holder shows the kind, and the token key does not, whatever is in it and whoever had the lock before.
func TestHolderBesideATokenKey(t *testing.T) {
	t.Parallel()
	broken := func(s *server) {
		if _, err := s.looksAs(lockagent.FencedLock, true); err != nil {
			s.t.Error(err)
		}
	}
	for name, c := range map[string]struct {
		change func(s *server)
		used   lockagent.LockKind
	}{
		"broken, and then used as another kind": {func(s *server) {
			broken(s)
			s.grant(wish("orders", agentB, 1))
		}, lockagent.PlainLock},
		"broken, and then used for a shorter lease": {func(s *server) {
			broken(s)
			later := wish("orders", agentB, 1)
			later.Lease = 21 * time.Second
			s.grant(later)
		}, lockagent.PlainLock},
		"released, and then used as another kind": {func(s *server) {
			s.releaseAs(lockagent.FencedLock, wish("orders", agentA, 1))
			s.grant(wish("orders", agentB, 1))
		}, lockagent.PlainLock},
		"a key that counts from 1": {func(s *server) { s.Do("SET", tokenKey, "3") }, lockagent.FencedLock},
		"a key that is far ahead":  {func(s *server) { s.Do("INCRBY", tokenKey, "16000000") }, lockagent.FencedLock},
		"a key that is gone":       {func(s *server) { s.Do("DEL", tokenKey) }, lockagent.FencedLock},
		"a lease without end":      {func(s *server) { s.Do("PERSIST", "orders") }, lockagent.FencedLock},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			s.as(lockagent.FencedLock, wish("orders", agentA, 1))
			c.change(s)
			for _, asks := range alike {
				want := c.used
				if asks == want {
					want = ""
				}
				if r, used := s.as(asks, wish("orders", agentC, 9)); used != want || r.Granted {
					t.Errorf("as %s: %+v, in use as %q, want %q", asks, r, used, want)
				}
			}
		})
	}
}
