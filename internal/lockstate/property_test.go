package lockstate

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lockagent/lockagent"
)

// scene is a lock with a random test, and a ledger of its events. Its shell also gives commands
// that make no sense.
type scene struct {
	t        *rapid.T
	machine  machine
	step     func(Command) // at the instant now
	events   func() []Event
	modes    []Mode // of requests
	refold   func() // compares the state with the fold of all events
	now      Instant
	fresh    uint64 // of the last step
	calls    CallID
	token    lockagent.Token // no later tenure begins below it
	began    Instant         // of the last tenure, in the store
	ledger   ledger
	last     tokens
	noted    int             // events that the ledger knows
	sent     []uint64        // the tenures of the last calls to the store
	pending  map[uint64]Kind // the calls that the store has not answered, by tenure
	disowned map[uint64]bool // and those that end what the agent does not know of
	rests    map[uint64]bool // the tenures that may rest
	seen     map[Kind]int    // how many events there were of each kind
}

// often is the habit of an agent that has used the lock often enough to let it rest.
var often = habit{streak: mostStreak, usually: time.Millisecond}

// newScene is the random test of a State.
func newScene(t *rapid.T, cfg func(*Config)) *scene {
	r := newRig(t, cfg)
	r.s.habit, r.origin.habit = often, often
	s := &scene{
		t: t, machine: r.s, events: func() []Event { return r.events }, modes: []Mode{Exclusive, Shared},
		refold: r.refold,
	}
	s.step = func(c Command) {
		r.now = s.now
		r.step(c)
		s.fresh = r.fresh
	}
	return s.begin(r.token)
}

// newFairScene is the random test of a Fair.
func newFairScene(t *rapid.T, cfg func(*Config)) *scene {
	c := rigConfig()
	cfg(&c)
	c.Rest = 0
	s := &scene{t: t, modes: []Mode{Exclusive}, refold: func() {}}
	next := func() uint64 {
		s.fresh++
		return s.fresh
	}
	f := NewFair("orders", &c, next)
	var events []Event
	s.machine, s.events = f, func() []Event { return events }
	s.step = func(c Command) {
		do := func(c Command) {
			f.Step(c, Moment{Now: s.now, Fresh: next()}, func(e *Event) { events = append(events, *e) })
		}
		do(c)
		if at, ok := f.Alarm(); ok && at <= s.now { // of a part that the command does not concern
			do(Tick{})
		}
		for _, p := range f.parts {
			if p.heldBack && f.calls() >= mostCalls { // the answer to one of these calls lets the part ask
				continue
			}
			if problem := unsettled(p, Moment{Now: s.now, Fresh: s.fresh}); problem != "" {
				t.Fatalf("after %#v: %s", c, problem)
			}
		}
	}
	return s.begin(100)
}

func (s *scene) begin(token lockagent.Token) *scene {
	s.token, s.pending, s.disowned = token, make(map[uint64]Kind), make(map[uint64]bool)
	s.rests, s.seen = make(map[uint64]bool), make(map[Kind]int)
	return s
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
	cancel, _ := c.(Cancel)
	s.ledger.cancelled = cancel.ID
	s.step(c)
	for ; s.noted < len(s.events()); s.noted++ {
		e := &s.events()[s.noted]
		// The ledger looks only at the deadline, which grants do not move.
		if problem := s.ledger.note(e, s.machine, &s.last); problem != "" {
			s.t.Fatalf("after %#v: %s: %s", c, text(e), problem)
		}
		s.note(e)
	}
	for _, o := range []lockagent.Owner{"ann", "bob", "cid", "dan"} {
		count := 0
		s.machine.Grants(o, func(RequestID) bool {
			count++
			return true
		})
		if count != s.ledger.of(o) {
			s.t.Fatalf("after %#v: %q holds %d grants, the events tell of %d", c, o, count, s.ledger.of(o))
		}
	}
	if s.machine.Waiters() != len(s.ledger.waiting) {
		s.t.Fatalf("after %#v: %d wait, the events tell of %d", c, s.machine.Waiters(), len(s.ledger.waiting))
	}
}

// note keeps account of the calls to the store.
func (s *scene) note(e *Event) {
	s.seen[e.Kind]++
	switch e.Kind {
	case Granted:
		// The store learns it when the tenure is returned, or from the next call.
		s.token = max(s.token, e.Token+lockagent.Token(e.Holds))
		return
	case Attempted, Returning, Withdrawing:
		s.pending[e.Tenure] = e.Kind
		s.rests[e.Tenure] = e.Kind == Attempted && e.Rests
	case Disowning:
		s.disowned[e.Tenure] = true
	case Renewing:
	default:
		return
	}
	if s.sent = append(s.sent, e.Tenure); len(s.sent) > 4 {
		s.sent = s.sent[1:]
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
		1, time.Millisecond, time.Second, 9 * time.Second, 10 * time.Second, 28 * time.Second, 30 * time.Second,
		time.Minute,
	})
)

// alone is an owner that makes no other request than the one, as owners do that are no sessions.
func alone(o lockagent.Owner, id RequestID) lockagent.Owner {
	return lockagent.Owner(fmt.Sprint(o, "/", id))
}

// someTenure is mostly the tenure of one of the last calls.
func (s *scene) someTenure(t *rapid.T) uint64 {
	tenures := []uint64{0, 1, s.fresh, 1 << 40}
	for _, sent := range s.sent {
		tenures = append(tenures, sent, sent)
	}
	if len(s.sent) > 0 {
		last := s.sent[len(s.sent)-1]
		tenures = append(tenures, last, last, last, last)
	}
	return rapid.SampledFrom(tenures).Draw(t, "tenure")
}

// actions are what may happen. What a good store and a good holder do comes more often.
func (s *scene) actions() map[string]func(*rapid.T) {
	actions := s.anyActions()
	for i := range 4 {
		actions[fmt.Sprint("an owner asks for a quiet lock ", i)] = func(t *rapid.T) {
			if len(s.ledger.waiting)+len(s.ledger.grants) == 0 {
				s.do(Acquire{Request: Request{Owner: alone(someOwner.Draw(t, "owner"), RequestID(s.fresh))}})
			}
		}
		actions[fmt.Sprint("the store answers ", i)] = func(*rapid.T) { s.serve() }
		actions[fmt.Sprint("a holder releases ", i)] = func(*rapid.T) {
			if len(s.ledger.grants) > 0 {
				s.do(Release{ID: s.ledger.grants[0].ID, Call: s.call()})
			}
		}
	}
	return actions
}

func (s *scene) anyActions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"acquire": func(t *rapid.T) {
			q := Request{
				Owner: someOwner.Draw(t, "owner"), Try: rapid.IntRange(0, 3).Draw(t, "try") == 0,
				Session: rapid.Bool().Draw(t, "session"),
				NoRest:  rapid.IntRange(0, 9).Draw(t, "no rest") == 0, Mode: rapid.SampledFrom(s.modes).Draw(t, "mode"),
			}
			if q.Mode == Exclusive && !q.Session {
				q.Holds = rapid.SampledFrom([]uint16{0, 1, 2, 64, 1000}).Draw(t, "holds")
			}
			if rapid.Bool().Draw(t, "fixed") {
				q.Lease = max(someSpan.Draw(t, "lease"), lockagent.MinLease)
				q.Outlive = rapid.Bool().Draw(t, "outlive")
			}
			if !q.Session {
				q.Owner = alone(q.Owner, RequestID(s.fresh))
			}
			s.do(Acquire{Request: q})
		},
		"cancel": func(t *rapid.T) {
			s.do(Cancel{ID: s.someID(t), TimedOut: rapid.Bool().Draw(t, "timed out"), Err: lockagent.ErrTimeout})
		},
		"release": func(t *rapid.T) {
			c := Release{ID: s.someID(t), Owner: someOwner.Draw(t, "owner"), Call: s.call()}
			if rapid.Bool().Draw(t, "by owner") {
				c.ID = 0
				s.machine.Grants(c.Owner, func(id RequestID) bool {
					if c.ID == 0 && rapid.Bool().Draw(t, "received") {
						c.ID = id
					}
					return c.ID == 0
				})
			}
			s.do(c)
		},
		"extend": func(t *rapid.T) {
			s.do(Extend{ID: s.someID(t), Lease: max(someSpan.Draw(t, "lease"), lockagent.MinLease)})
		},
		"unclaimed": func(t *rapid.T) { s.do(Unclaimed{ID: s.someID(t)}) },
		"break": func(t *rapid.T) {
			if rapid.IntRange(0, 3).Draw(t, "sure") > 0 {
				return
			}
			if s.do(Break{Call: s.call()}); s.machine.Resting() {
				t.Fatal("the lock rests although its agent has broken it")
			}
		},
		"break one": func(t *rapid.T) {
			c := Break{Call: s.call(), Token: 1}
			if len(s.ledger.grants) > 0 {
				c.Token = s.ledger.grants[0].token + lockagent.Token(rapid.IntRange(0, 2).Draw(t, "further"))
			}
			s.do(c)
		},
		"ownerGone": func(t *rapid.T) { s.do(OwnerGone{Owner: someOwner.Draw(t, "owner"), Call: s.call()}) },
		"close": func(t *rapid.T) {
			if rapid.IntRange(0, 99).Draw(t, "sure") == 0 { // seldom, to leave time for other commands
				s.do(Close{})
			}
		},
		"woken": func(t *rapid.T) { s.do(Woken{All: rapid.Bool().Draw(t, "all")}) },
		"reset": func(*rapid.T) { s.do(StoreReset{}) },
		"passed": func(t *rapid.T) {
			at := max(s.began, s.now.add(-someSpan.Draw(t, "late")))
			s.do(Passed{
				Tenure: s.someTenure(t), Token: s.tokens(at), At: storeTime(at),
				Outsiders: rapid.IntRange(0, 1).Draw(t, "outsiders"),
			})
		},
		"standby": func(t *rapid.T) {
			s.do(Standby{Tenure: s.someTenure(t), Remaining: someSpan.Draw(t, "remaining") - 5*time.Second})
		},
		"wanted": func(t *rapid.T) { s.do(Wanted{Tenure: s.someTenure(t)}) },
		"vacate": func(*rapid.T) { s.do(Vacate{}) },
		"broken": func(t *rapid.T) {
			s.do(Broken{Tenure: s.someTenure(t), At: storeTime(s.now).Add(-someSpan.Draw(t, "late"))})
		},
		"missed": func(*rapid.T) { s.do(Missed{}) },
		"disownReplied": func(t *rapid.T) {
			c := DisownReplied{
				Tenure: s.someTenure(t), Err: someErr.Draw(t, "err"),
				Reply: lockagent.ReleaseReply{Released: rapid.Bool().Draw(t, "released")},
			}
			delete(s.disowned, c.Tenure)
			s.do(c)
		},
		"acquireReplied": func(t *rapid.T) {
			c := AcquireReplied{Tenure: s.someTenure(t), Err: someErr.Draw(t, "err")}
			if c.Err == nil {
				c.Reply = lockagent.AcquireReply{
					At:     storeTime(s.now),
					Holder: rapid.SampledFrom([]string{"", "other:7", "this:7"}).Draw(t, "holder"),
				}
				if c.Reply.Granted = rapid.Bool().Draw(t, "granted"); c.Reply.Granted {
					c.Reply.Token, c.Reply.Rests = s.tokens(s.now), s.rests[c.Tenure]
				} else {
					c.Reply.Remaining = someSpan.Draw(t, "remaining") - 5*time.Second
					c.Reply.Queued, c.Reply.HolderRests = rapid.Bool().Draw(t, "queued"), rapid.Bool().Draw(t, "rests")
				}
			}
			s.answered(c.Tenure, Attempted)
			s.do(c)
		},
		"renewReplied": func(t *rapid.T) {
			s.do(RenewReplied{
				Tenure: s.someTenure(t), Err: someErr.Draw(t, "err"),
				Reply: lockagent.RenewReply{
					Held: rapid.IntRange(0, 3).Draw(t, "held") > 0, At: storeTime(s.now),
					Contested: rapid.IntRange(0, 3).Draw(t, "contested") == 0,
				},
			})
		},
		"releaseReplied": func(t *rapid.T) {
			c := ReleaseReplied{
				Tenure: s.someTenure(t), Err: someErr.Draw(t, "err"),
				Reply: lockagent.ReleaseReply{
					Released: rapid.Bool().Draw(t, "released"), At: storeTime(s.now),
					Others: rapid.IntRange(-1, 1).Draw(t, "others"),
					Passed: rapid.Bool().Draw(t, "passed"),
				},
			}
			s.answered(c.Tenure, Returning, Withdrawing)
			s.do(c)
		},
		"tick":     func(*rapid.T) { s.do(Tick{}) },
		"timeGoes": func(t *rapid.T) { s.now = s.now.add(someSpan.Draw(t, "span")) },
		"alarm": func(*rapid.T) {
			if at, ok := s.machine.Alarm(); ok {
				s.now = max(s.now, at)
				s.do(Tick{})
			}
		},
	}
}

// tokens are those of a tenure that begins in the store at an instant. They are greater than those of any tenure
// before.
func (s *scene) tokens(at Instant) (first lockagent.Token) {
	s.began, first = at, max(s.token+1, lockagent.Token(storeTime(at)))
	s.token = first + 99
	return first
}

// answered notes that the store has answered a call of one of these kinds.
func (s *scene) answered(tenure uint64, kinds ...Kind) {
	if slices.Contains(kinds, s.pending[tenure]) {
		delete(s.pending, tenure)
	}
}

// serve answers the oldest call as a store does that has no other clients. It reports false if there is none.
func (s *scene) serve() bool {
	switch tenure, kind := s.unanswered(); kind {
	case 0:
		return false
	case Attempted:
		s.answered(tenure, kind)
		s.do(AcquireReplied{
			Tenure: tenure,
			Reply: lockagent.AcquireReply{
				Granted: true, Token: s.tokens(s.now), At: storeTime(s.now), Rests: s.rests[tenure],
			},
		})
	case Disowning:
		delete(s.disowned, tenure)
		s.do(DisownReplied{Tenure: tenure, Reply: lockagent.ReleaseReply{Released: true}})
	default:
		s.answered(tenure, kind)
		s.do(ReleaseReplied{Tenure: tenure, Reply: lockagent.ReleaseReply{Released: true, At: storeTime(s.now)}})
	}
	return true
}

// leave ends all requests and holds, while the store answers every call.
func (s *scene) leave(t *rapid.T) {
	for range 10_000 {
		switch {
		case s.serve():
		case len(s.ledger.waiting) > 0:
			s.do(Cancel{ID: s.ledger.waiting[0].ID, Err: lockagent.ErrTimeout})
		case len(s.ledger.grants) > 0:
			s.do(Release{ID: s.ledger.grants[0].ID, Call: s.call()})
		case !s.machine.Idle():
			at, ok := s.machine.Alarm()
			if !ok {
				t.Fatalf("the lock is not idle, but wants nothing: %+v", s.machine)
			}
			s.now = max(s.now, at)
			s.do(Tick{})
		default:
			if len(s.ledger.calls) > 0 {
				t.Fatalf("calls %v were not answered", s.ledger.calls)
			}
			if at, ok := s.machine.Alarm(); ok {
				t.Fatalf("the lock is idle at %v, and there is an alarm at %v", time.Duration(s.now), time.Duration(at))
			}
			return
		}
	}
	t.Fatalf("the lock does not become idle: %+v", s.machine)
}

// unanswered is the oldest call that the store has not answered, or nothing.
func (s *scene) unanswered() (tenure uint64, kind Kind) {
	if len(s.disowned) > 0 {
		return slices.Min(slices.Collect(maps.Keys(s.disowned))), Disowning
	}
	if len(s.pending) > 0 {
		tenure = slices.Min(slices.Collect(maps.Keys(s.pending)))
	}
	return tenure, s.pending[tenure]
}

// Random commands in a random order. The following is always true:
//
//   - Every request and every call is answered exactly once. Every grant ends exactly once.
//   - Tokens grow.
//   - Nothing is granted past a deadline or to two owners.
//   - The state always settles. That of a State is the fold of its events.
//   - When all owners have gone, nothing is left.
//
// The lock was used often enough to rest.
func TestAnySequenceOfCommands(t *testing.T) {
	for what, scene := range map[string]func(*rapid.T, func(*Config)) *scene{
		"of a lock": newScene, "of a fair lock": newFairScene,
	} {
		t.Run(what, func(t *testing.T) {
			seen := make(map[Kind]int)
			rapid.Check(t, func(t *rapid.T) {
				s := scene(t, func(c *Config) {
					c.HandOffGrants = rapid.IntRange(1, 3).Draw(t, "HandOffGrants")
					for _, d := range []*time.Duration{
						&c.Watchdog, &c.Claim, &c.HandOffTime, &c.Yield, &c.MaxSleep, &c.RetryMin, &c.RetryMax,
						&c.Linger, &c.Rest,
					} {
						*d = someSpan.Draw(t, "config")
					}
					c.Watchdog = max(c.Watchdog, 10*time.Millisecond)
				})
				for range 10 { // one Repeat has some ten actions
					t.Repeat(s.actions())
				}
				s.refold()
				s.leave(t)
				s.refold()
				for kind, n := range s.seen {
					seen[kind] += n
				}
			})
			kinds := []Kind{Granted, Returned}
			if what == "of a lock" {
				kinds = append(kinds, Rested, Contested)
			}
			for _, kind := range kinds {
				if seen[kind] == 0 {
					t.Errorf("no %s in all of the sequences", kindNames[kind])
				}
			}
		})
	}
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
