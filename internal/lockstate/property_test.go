package lockstate

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lockagent/lockagent"
)

// scene is a rig with a random test, and a ledger of its events. Its shell also gives commands
// that make no sense.
type scene struct {
	*rig
	ledger ledger
	last   tokens
	noted  int // events that the ledger knows
}

func (s *scene) do(c Command) {
	switch c := c.(type) {
	case Release:
		s.ledger.calls = append(s.ledger.calls, c.Call)
	case Break:
		s.ledger.calls = append(s.ledger.calls, c.Call)
	case OwnerGone:
		s.ledger.calls = append(s.ledger.calls, c.Call)
	}
	s.step(c)
	for ; s.noted < len(s.events); s.noted++ {
		e := &s.events[s.noted]
		after := s.s // the ledger only looks at the deadline, which grants do not move
		if problem := s.ledger.note(e, after, &s.last); problem != "" {
			s.t.Fatalf("after %#v: %s: %s", c, text(e), problem)
		}
	}
	if owner, _, count, _ := s.s.Hold(); count != s.ledger.of(owner) || s.s.grants.len() != len(s.ledger.grants) {
		s.t.Fatalf("%q holds %d of %d grants, the events tell of %d of %d", owner, count, s.s.grants.len(), s.ledger.of(owner), len(s.ledger.grants))
	}
	if s.s.Waiters() != len(s.ledger.waiting) {
		s.t.Fatalf("%d wait, the events tell of %d", s.s.Waiters(), len(s.ledger.waiting))
	}
}

func (s *scene) call() CallID {
	s.calls++
	return s.calls
}

// someID is the id of a request of this scene, or nobody's.
func (s *scene) someID(t *rapid.T) RequestID {
	ids := []RequestID{0, 1 << 40}
	for _, r := range s.ledger.waiting {
		ids = append(ids, r.ID)
	}
	for _, g := range s.ledger.grants {
		ids = append(ids, g.ID, g.ID)
	}
	if s.fresh > 0 {
		ids = append(ids, RequestID(rapid.Uint64Range(1, s.fresh).Draw(t, "old id")))
	}
	return rapid.SampledFrom(ids).Draw(t, "id")
}

var (
	someOwner = rapid.SampledFrom([]lockagent.Owner{"ann", "bob", "cid", "dan"})
	someErr   = rapid.SampledFrom([]error{
		nil, nil, nil, nil, errStore, errStore, lockagent.ErrNotPermitted, lockagent.ErrWithdrawn, lockagent.ErrClosed,
	})
	// Leases and pauses of the same few sizes, so that things coincide.
	someSpan = rapid.SampledFrom([]time.Duration{
		1, time.Millisecond, time.Second, 9 * time.Second, 10 * time.Second, 28 * time.Second, 30 * time.Second, time.Minute,
	})
)

// alone is an owner that makes no other request than the one, as owners do that are no sessions.
func alone(o lockagent.Owner, id RequestID) lockagent.Owner {
	return lockagent.Owner(fmt.Sprint(o, "/", id))
}

// someTenure is mostly the tenure of the call under way.
func (s *scene) someTenure(t *rapid.T) uint64 {
	return rapid.SampledFrom([]uint64{s.asked, s.asked, s.asked, s.asked, 0, 1, s.fresh, 1 << 40}).Draw(t, "tenure")
}

func (s *scene) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"acquire": func(t *rapid.T) {
			q := Request{Owner: someOwner.Draw(t, "owner"), Try: rapid.IntRange(0, 3).Draw(t, "try") == 0, Session: rapid.Bool().Draw(t, "session"), Mode: rapid.SampledFrom([]Mode{Exclusive, Shared}).Draw(t, "mode")}
			if q.Mode == Exclusive && !q.Session {
				q.Holds = rapid.SampledFrom([]uint16{0, 1, 2, 64}).Draw(t, "holds")
			}
			if rapid.Bool().Draw(t, "fixed") {
				q.Lease = max(someSpan.Draw(t, "lease"), lockagent.MinLease)
			}
			if !q.Session {
				q.Owner = alone(q.Owner, RequestID(s.fresh))
			}
			_, admits := s.s.Admits(s.now)
			s.do(Acquire{Request: q})
			if admits && q.Mode == Shared && q.Lease == 0 && s.s.grants.find(RequestID(s.fresh)) == 0 {
				t.Fatalf("a reader was admitted, and not granted the lock: %+v", q)
			}
		},
		"cancel": func(t *rapid.T) {
			s.do(Cancel{ID: s.someID(t), TimedOut: rapid.Bool().Draw(t, "timed out"), Err: lockagent.ErrTimeout})
		},
		"release": func(t *rapid.T) {
			c := Release{ID: s.someID(t), Owner: someOwner.Draw(t, "owner"), Call: s.call()}
			if rapid.Bool().Draw(t, "by owner") {
				c.ID = youngest(s.s, c.Owner, func(RequestID) bool { return rapid.Bool().Draw(t, "received") })
			}
			s.do(c)
		},
		"extend": func(t *rapid.T) {
			s.do(Extend{ID: s.someID(t), Lease: max(someSpan.Draw(t, "lease"), lockagent.MinLease)})
		},
		"unclaimed": func(t *rapid.T) { s.do(Unclaimed{ID: s.someID(t)}) },
		"joined":    func(*rapid.T) { s.do(Joined{}) },
		"break":     func(*rapid.T) { s.do(Break{Call: s.call()}) },
		"break one": func(t *rapid.T) {
			c := Break{Call: s.call(), Token: 1}
			if s.s.grants.len() > 0 {
				c.Token = s.s.grants.first().token + lockagent.Token(rapid.IntRange(0, 2).Draw(t, "further"))
			}
			s.do(c)
		},
		"ownerGone": func(t *rapid.T) { s.do(OwnerGone{Owner: someOwner.Draw(t, "owner"), Call: s.call()}) },
		"close": func(t *rapid.T) {
			if rapid.IntRange(0, 9).Draw(t, "sure") == 0 { // seldom, to leave time for other commands
				s.do(Close{})
			}
		},
		"woken": func(*rapid.T) { s.do(Woken{}) },
		"reset": func(*rapid.T) { s.do(StoreReset{}) },
		"passed": func(t *rapid.T) {
			s.do(Passed{Tenure: s.someTenure(t), Token: s.token + 1, At: storeTime(s.now).Add(-someSpan.Draw(t, "late")), Outsiders: rapid.IntRange(0, 1).Draw(t, "outsiders")})
			s.token += 100
		},
		"standby": func(t *rapid.T) {
			s.do(Standby{Tenure: s.someTenure(t), Remaining: someSpan.Draw(t, "remaining") - 5*time.Second})
		},
		"wanted": func(t *rapid.T) { s.do(Wanted{Tenure: s.someTenure(t)}) },
		"broken": func(t *rapid.T) {
			s.do(Broken{Tenure: s.someTenure(t), At: storeTime(s.now).Add(-someSpan.Draw(t, "late"))})
		},
		"missed": func(*rapid.T) { s.do(Missed{}) },
		"disownReplied": func(t *rapid.T) {
			s.do(DisownReplied{Tenure: s.someTenure(t), Err: someErr.Draw(t, "err"), Reply: lockagent.ReleaseReply{Released: rapid.Bool().Draw(t, "released")}})
		},
		"acquireReplied": func(t *rapid.T) {
			c := AcquireReplied{Tenure: s.someTenure(t), Err: someErr.Draw(t, "err")}
			if c.Err == nil {
				c.Reply = lockagent.AcquireReply{At: storeTime(s.now), Holder: rapid.SampledFrom([]string{"", "other:7", "this:7"}).Draw(t, "holder")}
				if c.Reply.Granted = rapid.Bool().Draw(t, "granted"); c.Reply.Granted {
					c.Reply.Token = s.token + 1
					s.token += 100
				} else {
					c.Reply.Remaining = someSpan.Draw(t, "remaining") - 5*time.Second
					c.Reply.Queued = rapid.Bool().Draw(t, "queued")
				}
			}
			s.do(c)
		},
		"renewReplied": func(t *rapid.T) {
			s.do(RenewReplied{
				Tenure: s.someTenure(t), Err: someErr.Draw(t, "err"),
				Reply: lockagent.RenewReply{Held: rapid.IntRange(0, 3).Draw(t, "held") > 0, At: storeTime(s.now)},
			})
		},
		"releaseReplied": func(t *rapid.T) {
			s.do(ReleaseReplied{
				Tenure: s.someTenure(t), Err: someErr.Draw(t, "err"),
				Reply: lockagent.ReleaseReply{
					Released: rapid.Bool().Draw(t, "released"), At: storeTime(s.now), Others: rapid.IntRange(-1, 1).Draw(t, "others"),
					Passed: rapid.Bool().Draw(t, "passed"),
				},
			})
		},
		"tick":     func(*rapid.T) { s.do(Tick{}) },
		"timeGoes": func(t *rapid.T) { s.passLate(someSpan.Draw(t, "span")) },
		"alarm": func(*rapid.T) {
			if at, ok := s.s.Alarm(); ok {
				s.now = max(s.now, at)
				s.do(Tick{})
			}
		},
	}
}

// leave ends all requests and holds, while the store answers every call.
func (s *scene) leave(t *rapid.T) {
	for range 100 {
		switch {
		case s.s.phase == asking:
			s.do(AcquireReplied{Tenure: s.asked, Reply: lockagent.AcquireReply{Granted: true, Token: s.token + 1}})
			s.token += 100
		case s.s.phase == releasing && s.s.leaving.inFlight:
			s.do(ReleaseReplied{Tenure: s.asked, Reply: lockagent.ReleaseReply{Released: true}})
		case len(s.ledger.waiting) > 0:
			s.do(Cancel{ID: s.ledger.waiting[0].ID, Err: lockagent.ErrTimeout})
		case len(s.ledger.grants) > 0:
			s.do(Release{ID: s.ledger.grants[0].ID, Call: s.call()})
		case !s.s.Idle():
			at, ok := s.s.Alarm()
			if !ok {
				t.Fatalf("the lock is not idle, but wants nothing: %+v", s.s)
			}
			s.now = max(s.now, at)
			s.do(Tick{})
		default:
			if len(s.ledger.calls) > 0 {
				t.Fatalf("calls %v were not answered", s.ledger.calls)
			}
			s.noAlarm()
			return
		}
	}
	t.Fatalf("the lock does not become idle: %+v", s.s)
}

// Random commands in a random order. The following is always true:
//
//   - Every request and every call is answered exactly once. Every grant ends exactly once.
//   - Tokens grow.
//   - Nothing is granted past a deadline or to two owners.
//   - The state is the fold of its events, and always settles.
//   - When all owners have gone, nothing is left.
func TestAnySequenceOfCommands(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &scene{rig: newRig(t, func(c *Config) {
			c.HandOffGrants = rapid.IntRange(1, 3).Draw(t, "HandOffGrants")
			for _, d := range []*time.Duration{&c.Watchdog, &c.Claim, &c.HandOffTime, &c.Yield, &c.MaxSleep, &c.RetryMin, &c.RetryMax, &c.Linger} {
				*d = someSpan.Draw(t, "config")
			}
			c.Watchdog = max(c.Watchdog, 10*time.Millisecond)
		})}
		t.Repeat(s.actions())
		s.refold()
		s.leave(t)
		s.refold()
	})
}

// Step panics if it does not settle in time. The bound grows with the number of requests and
// grants. The longest step stays far below it.
func TestSettlingManyAtOnce(t *testing.T) {
	const many = 100
	r := newRig(t)
	for range many {
		r.acquire("ann+")
	}
	r.granted() // each is granted in a round of its own
	if _, _, count, _ := r.s.Hold(); count != many {
		t.Errorf("held %d times, want %d", count, many)
	}
	for range many {
		r.acquire("bob")
	}
	r.step(Close{}) // each hold ends, and each request is answered, in a round of its own
	if _, _, count, _ := r.s.Hold(); count != 0 || r.s.Waiters() != 0 {
		t.Errorf("held %d times and %d wait, after closing", count, r.s.Waiters())
	}
}
