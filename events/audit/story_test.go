package audit

import (
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/internal/logtest"
)

// story writes the log of one agent by hand, about lock "a" unless it is told otherwise. All
// times are in milliseconds after a beginning; the clocks of the agents and of the store agree.
type story struct {
	agent   lockagent.AgentID
	epoch   uint64
	store   string
	lock    lockagent.Name
	kind    lockagent.LockKind
	mode    lockagent.Mode
	n       int // permits of each hold,
	total   int // of so many
	inc     string
	lease   time.Duration
	fixed   bool
	seq     uint64
	holds   map[lockagent.Token]*storyHold
	latest  map[uint64]lockagent.Token // of each tenure
	begun   map[uint64]int
	conf    map[uint64]int // when each tenure was confirmed last
	records []events.Record
}

type storyHold struct {
	at, grants int
	epoch      uint64
	sum        uint64
}

// agent begins the log of an agent that starts.
func agent(id lockagent.AgentID) *story {
	s := &story{
		agent: id, epoch: 1, store: "s", lock: "a", kind: lockagent.PlainLock, mode: lockagent.Exclusive,
		lease: 30 * time.Second,
		holds: make(map[lockagent.Token]*storyHold), latest: make(map[uint64]lockagent.Token), begun: make(map[uint64]int),
		conf: make(map[uint64]int),
	}
	return s.started()
}

func (s *story) started() *story {
	return s.add(lockagent.Event{
		Kind:    lockagent.EventAgentStarted,
		Process: lockagent.Process{Host: "host-" + string(s.agent), Program: "billing", PID: 7},
	})
}

// next begins the next epoch. What the agent had it keeps.
func (s *story) next() *story {
	follows := events.Place{Epoch: s.epoch, Seq: s.seq}
	s.epoch++
	s.seq = 0
	s.started()
	return s.edit(func(r *events.Record) { r.Follows = follows })
}

func (s *story) of(lock lockagent.Name) *story  { s.lock = lock; return s }
func (s *story) on(incarnation string) *story   { s.inc = incarnation; return s }
func (s *story) at(store string) *story         { s.store = store; return s }
func (s *story) leasing(d time.Duration) *story { s.lease = d; return s }
func (s *story) in(mode lockagent.Mode) *story  { s.mode = mode; return s }
func (s *story) missing(n uint64) *story        { s.seq += n; return s }
func (s *story) stop() *story                   { return s.add(lockagent.Event{Kind: lockagent.EventAgentStopped}) }

func (s *story) edit(change func(*events.Record)) *story {
	change(&s.records[len(s.records)-1])
	return s
}

func (s *story) reset(r lockagent.Reset) *story {
	return s.add(lockagent.Event{Kind: lockagent.EventStoreReset, Reset: r})
}

func (s *story) dropped(kinds ...lockagent.EventKind) *story {
	s.seq += uint64(len(kinds))
	s.add(lockagent.Event{Kind: lockagent.EventDropped})
	return s.edit(func(r *events.Record) {
		for _, k := range kinds {
			r.Dropped[k]++
		}
	})
}

func (s *story) alive(ms int) *story {
	holds, sum := 0, uint64(0)
	for _, h := range s.holds {
		if h.grants > 0 && h.epoch == s.epoch {
			holds++
			sum += h.sum
		}
	}
	return s.add(lockagent.Event{Kind: lockagent.EventAlive, StoreTime: clock(ms), Time: wall(ms), Count: holds, Sum: sum})
}

// holding tells that the latest hold of a tenure goes on.
func (s *story) holding(tenure uint64, ms int) *story {
	e := s.about(ms, lockagent.EventHolding, tenure, s.latest[tenure])
	h := s.holds[e.Token]
	e.Count, e.Held, e.Incarnation = h.grants, time.Duration(ms-h.at)*time.Millisecond, s.inc
	e.Confirmed, e.StoreTime = clock(s.conf[tenure]), clock(h.at)
	if lockagent.Token(clock(h.at)) == e.Token {
		e.How = lockagent.ByStore
	}
	return s.add(e)
}

var (
	clock = logtest.Clock
	wall  = logtest.Wall
	seeds = logtest.Seeds
)

func (s *story) add(e lockagent.Event) *story {
	s.seq++
	e.Agent, e.Store = s.agent, s.store
	s.records = append(s.records, events.Record{Event: e, Epoch: s.epoch, Seq: s.seq})
	return s
}

func (s *story) about(ms int, kind lockagent.EventKind, tenure uint64, token lockagent.Token) lockagent.Event {
	return lockagent.Event{
		Kind: kind, Lock: s.lock, LockKind: s.kind, Permits: s.n, Total: s.total, Mode: s.mode, Time: wall(ms),
		Tenure: tenure, Token: token,
		Owner: lockagent.Owner("owner-" + string(s.agent)), Lease: s.lease, Fixed: s.fixed,
	}
}

// granted is a grant by the store: the tenure begins.
func (s *story) granted(tenure uint64, ms int) *story {
	e := s.about(ms, lockagent.EventGranted, tenure, lockagent.Token(clock(ms)))
	e.How, e.StoreTime, e.Count, e.Incarnation = lockagent.ByStore, clock(ms), 1, s.inc
	s.latest[tenure], s.conf[tenure] = e.Token, ms
	s.holds[e.Token] = &storyHold{ms, 1, s.epoch, lockagent.HoldSum(s.lock, tenure, e.Token)}
	return s.add(e)
}

// handedOff is the next hold of a tenure.
func (s *story) handedOff(tenure uint64, ms int) *story {
	e := s.about(ms, lockagent.EventGranted, tenure, s.latest[tenure]+1)
	e.How, e.StoreTime, e.Count, e.Incarnation = lockagent.ByHandOff, clock(s.conf[tenure]), 1, s.inc
	s.latest[tenure] = e.Token
	s.holds[e.Token] = &storyHold{ms, 1, s.epoch, lockagent.HoldSum(s.lock, tenure, e.Token)}
	return s.add(e)
}

// rested is the next hold of a tenure that rested.
func (s *story) rested(tenure uint64, ms int) *story {
	return s.handedOff(tenure, ms).edit(func(r *events.Record) { r.How = lockagent.ByRest })
}

func (s *story) renewed(tenure uint64, ms int) *story { s.conf[tenure] = ms; return s }

// renewing is a renewal of which a record tells.
func (s *story) renewing(tenure uint64, ms int) *story {
	e := s.about(ms, lockagent.EventRenewed, tenure, 0)
	e.Owner, e.Fixed, e.Permits, e.Total, e.StoreTime = "", false, 0, 0, clock(ms)
	return s.renewed(tenure, ms).add(e)
}

func (s *story) reentered(tenure uint64, ms int) *story {
	e := s.about(ms, lockagent.EventReentered, tenure, s.latest[tenure])
	if h := s.holds[e.Token]; h != nil {
		h.grants++
		e.Count = h.grants
	}
	e.StoreTime = clock(s.conf[tenure])
	return s.add(e)
}

// ended ends the latest hold of a tenure, or gives back one of its grants.
func (s *story) ended(kind lockagent.EventKind, reason lockagent.LossReason, tenure uint64, ms int) *story {
	return s.endedOf(kind, reason, tenure, s.latest[tenure], ms)
}

func (s *story) endedOf(kind lockagent.EventKind, reason lockagent.LossReason, tenure uint64, token lockagent.Token,
	ms int,
) *story {
	e := s.about(ms, kind, tenure, token)
	e.Reason, e.Until, e.Confirmed = reason, clock(ms)+100, clock(s.conf[tenure])
	if h := s.holds[token]; h != nil {
		h.grants--
		e.Count, e.Held = h.grants, time.Duration(ms-h.at)*time.Millisecond
	}
	return s.add(e)
}

func (s *story) released(tenure uint64, ms int) *story {
	return s.ended(lockagent.EventReleased, 0, tenure, ms)
}

func (s *story) lost(reason lockagent.LossReason, tenure uint64, ms int) *story {
	return s.ended(lockagent.EventLost, reason, tenure, ms)
}

func (s *story) returned(tenure uint64, ms int) *story {
	e := s.about(ms, lockagent.EventReturned, tenure, 0)
	e.Returned = clock(ms)
	return s.add(e)
}

// foundOver is a return of a tenure that the store did not have any more.
func (s *story) foundOver(tenure uint64, ms int) *story {
	s.returned(tenure, ms)
	return s.edit(func(r *events.Record) { r.Reason = lockagent.LostDenied })
}

// held is a hold with all that belongs to it.
func (s *story) held(tenure uint64, from, to int) *story {
	e := s.about(from, lockagent.EventHeld, tenure, lockagent.Token(clock(from)))
	e.How, e.StoreTime, e.Incarnation, e.Held = lockagent.ByStore, clock(from), s.inc,
		time.Duration(to-from)*time.Millisecond
	e.Confirmed, e.Until, e.Returned = clock(from), clock(to)+100, clock(to)+50
	s.latest[tenure], s.conf[tenure] = e.Token, from
	return s.add(e)
}

// broke says that an operator broke the lock of another agent.
func (s *story) broke(ms int) *story {
	return s.add(lockagent.Event{
		Kind: lockagent.EventBroken, Lock: s.lock, LockKind: s.kind, StoreTime: clock(ms), Time: wall(ms), Operator: "olga",
	})
}
