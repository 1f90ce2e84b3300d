package lockstate

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lockagent/lockagent"
)

// The small world: three agents, each a State, a Fair or Permits with a very simple shell, over a model of
// the store. The world changes by one [action] at a time. A test can choose every order of
// actions that is possible in the real world.

// tick is the unit of time in the world. Everything lasts whole ticks.
const tick = 100 * time.Millisecond

// The periods of the world. They are multiples of a few numbers, so that there are few different
// instants.
const (
	watchdog = 30 * tick // trusted for 27, renewed after 10
	pause    = 10 * tick // after a failed call
	// The lease of a pass has 20 ticks, and is trusted for 18.
)

func worldConfig() Config {
	return Config{
		Watchdog: watchdog, Claim: 10_000 * tick, HandOffGrants: 2, HandOffTime: 20 * tick,
		Yield: 10 * tick, MaxSleep: 200 * tick, RetryMin: pause, RetryMax: pause, Linger: 10 * tick,
	}
}

// outliving is the lease of requests with Outlive.
const outliving = 70 * tick

// person is an owner and its requests, which it makes one after the other.
type person struct {
	owner   lockagent.Owner
	agent   int
	mode    Mode
	session bool
	try     bool
	leases  []time.Duration // of its requests; 0 is kept
}

// chances bound how often each fault, and each rare action, may happen.
type chances struct {
	lost    int // replies, wake-ups or messages that do not arrive, or messages that arrive twice
	refused int // calls that the store refuses for good
	order   int // actions that come before the next one in order, see [world.errand]
	late    int // ticks that the machine delivers too late
	broken  int // locks that an operator breaks
	resets  int // losses of the store's memory
	ghosts  int // failovers that lose a release
	steps   int // steps back of the store's clock
	crashes int // losses of an agent's state
	restart int // agents that another process goes on with
	kills   int // agents that end at once, and go on from their journals
	gone    int // sessions that are closed
	closed  int // agents that are closed
	cancels int // requests whose context ends
	outside int // outsiders that come or go
	unseats int // agents whose places the store takes
	turns   int // times for which the store keeps the free lock for those that poll
}

// world is the state of everything. Only its own methods change it, and only copies.
type world struct {
	now    Instant
	people []person // not changed
	asked  [4]int   // how many requests each of the people has made
	left   chances

	store  storeModel
	agents [3]*agentModel // shared between copies until changed
	calls  []storeCall

	last    tokens // the greatest that were granted
	lateNow bool   // a tick was late: only deadlines protect now
	dropped bool   // a release was dropped, and the lease has to run out
	missed  bool   // a message was lost, and its agent does not know that
	blank   bool   // the store forgot the withdrawn tenures, and calls of theirs may be under way
	haunted bool   // one of these calls began a tenure
	slow    bool   // time went on while an answer was on its way

	problem string       // what went wrong, if anything
	log     func(string) // nil, or called with every event

	mortal bool                    // agents may be killed
	fair   bool                    // the lock is fair, or a semaphore
	wants  map[lockagent.Owner]int // of a semaphore: the permits of each request
	strays bool                    // a fault may have cost waiters their places
}

// machine is a State, a Fair or Permits.
type machine interface {
	Step(c Command, m Moment, do func(*Event))
	Alarm() (Instant, bool)
	Listening() bool
	Resting() bool
	Idle() bool
	Waiters() int
	Grants(owner lockagent.Owner, yield func(RequestID) bool)
	Deadline(tenure uint64) Instant
	Snapshot() Snapshot
}

// agentModel is an agent: the machine, and what its shell knows.
type agentModel struct {
	s      machine
	parts  []*State // of s, or s itself
	fair   *Fair    // s if it has parts
	cfg    *Config
	fresh  uint64
	ledger ledger
	news
	inbox   []Command // messages on their way
	calls   CallID
	journal Snapshot // what the next process would know; only if agents may be killed
	doomed  int      // if it is not 0, the agent is killed at that event of its next step which commits
	crashed bool
	told    []uint64 // in order: the ghosts in the way of an attempt about which the store has answered meanwhile
	joined  bool     // readers have joined since the last call was sent
}

// news is what is on its way to an agent.
type news struct {
	subscribed bool
	waking     bool // a wake-up
	missing    bool // the news that messages were missed
	resetting  bool // the news of a reset
}

// lone is the habit of an agent whose locks nobody else uses. Its rests last five ticks.
var lone = habit{streak: mostStreak, usually: 5 * tick / gapsOfRest, ended: never}

func newWorld(people []person, left chances, change func(*Config)) *world {
	w := &world{people: people, left: left, mortal: left.kills > 0}
	cfg := worldConfig()
	if change != nil {
		change(&cfg)
	}
	for i := range w.agents {
		own := cfg
		own.Agent = agentID(i)
		w.agents[i] = &agentModel{cfg: &own}
		w.resume(w.agents[i], Snapshot{}, 0)
	}
	return w
}

// makeFair gives all agents fair machines.
func (w *world) makeFair() {
	w.fair = true
	for _, a := range w.agents {
		w.resume(a, Snapshot{}, 0)
	}
}

// resume gives an agent a new machine.
func (w *world) resume(a *agentModel, n Snapshot, now Instant) {
	if w.store.permits > 0 {
		a.s = ResumePermits("orders", a.cfg, a.next, n, 0, now)
	} else if w.fair {
		a.s = ResumeFair("orders", a.cfg, a.next, n, 0, now)
	} else {
		a.s = Resume("orders", a.cfg, n, 0, now)
	}
	a.look()
}

// look notes the parts of the machine.
func (a *agentModel) look() {
	switch s := a.s.(type) {
	case *State:
		a.parts = []*State{s}
		return
	case *Fair:
		a.fair = s
	case *Permits:
		a.fair = &s.Fair
	}
	a.parts = a.fair.parts
}

func (a *agentModel) next() uint64 {
	a.fresh++
	return a.fresh
}

func (w *world) clone() *world {
	c := *w
	c.store.queue = slices.Clone(w.store.queue)
	c.store.holders = slices.Clone(w.store.holders)
	c.store.withdrawn = slices.Clone(w.store.withdrawn)
	c.store.excused = slices.Clone(w.store.excused)
	c.calls = slices.Clone(w.calls)
	return &c
}

// agent returns an agent to change: a copy, which takes the place of the shared one.
func (w *world) agent(i int) *agentModel {
	c := *w.agents[i]
	switch s := c.s.(type) {
	case *State:
		c.s = clone(s)
	case *Fair:
		c.s = cloneFair(s, c.next)
	case *Permits:
		c.s = &Permits{*cloneFair(&s.Fair, c.next)}
	}
	c.look()
	c.ledger = c.ledger.clone()
	c.inbox = slices.Clone(c.inbox)
	w.agents[i] = &c
	return &c
}

func cloneFair(f *Fair, fresh func() uint64) *Fair {
	c := *f
	c.fresh, c.parts, c.owed, c.ghosts = fresh, nil, slices.Clone(f.owed), maps.Clone(f.ghosts)
	for _, p := range f.parts {
		c.parts = append(c.parts, clone(p))
	}
	return &c
}

// least is the shortest lease that anybody asks for.
func (w *world) least() time.Duration {
	least := watchdog
	for i := range w.people {
		for _, lease := range w.people[i].leases {
			if lease != 0 {
				least = min(least, lease)
			}
		}
	}
	return least
}

func (w *world) fail(format string, args ...any) {
	if w.problem == "" {
		w.problem = fmt.Sprintf(format, args...)
	}
}

// tell gives a command to an agent, and does what the events ask for.
func (w *world) tell(i int, c Command) {
	a := w.agent(i)
	switch c.(type) {
	case Release, Break, OwnerGone:
		a.ledger.calls = append(a.ledger.calls, a.calls)
	}
	if r, ok := c.(DisownReplied); ok && slices.ContainsFunc(
		a.parts, func(s *State) bool { return s.attempt.ghost == r.Tenure },
	) {
		if at, known := slices.BinarySearch(a.told, r.Tenure); !known {
			a.told = slices.Insert(slices.Clone(a.told), at, r.Tenure)
		}
	}
	cancel, _ := c.(Cancel)
	a.ledger.cancelled = cancel.ID
	m := Moment{Now: w.now, Fresh: a.next()}
	broke := false
	overdue := a.overdue(c, m)
	killed := false
	a.s.Step(c, m, func(e *Event) {
		if killed = killed || w.commit(a, e); killed {
			return
		}
		if w.log != nil {
			w.log(fmt.Sprintf("    agent %d: %s", i+1, text(e)))
		}
		last := &w.last
		if w.isExcused(i, e.Tenure) { // its tokens are old, and that protects the others
			last = new(tokens)
		}
		if problem := a.ledger.note(e, a.s, last); problem != "" {
			w.fail("agent %d: %s: %s", i+1, text(e), problem)
		}
		switch e.Kind {
		case Attempted:
			w.send(storeCall{
				agent: i, kind: callAcquire, number: e.Tenure, mode: e.Request.Mode, lease: e.AskedLease, token: e.Floor,
				queue: e.Queue, rests: e.Rests, request: e.Request.ID, permits: e.Request.Permits,
			})
		case Renewing:
			a.joined = false
			w.send(storeCall{agent: i, kind: callRenew, number: e.Tenure, mode: e.Mode, lease: e.AskedLease})
		case Began:
			a.joined = false
		case Returning, Withdrawing:
			w.send(storeCall{agent: i, kind: callRelease, number: e.Tenure, token: e.Floor, unanswered: e.Unanswered})
		case Disowning:
			w.send(storeCall{agent: i, kind: callDisown, number: e.Tenure, token: e.Floor})
		case Granted:
			w.overlap(i, e)
			w.outOfTurn(i, e)
			w.unaware(i, e)
			a.joined = a.joined || e.How == lockagent.ByHandOff
		case FoundBusy:
			most := mostPoll
			if e.Holder == "" {
				most = turnLasts + tick
			}
			if a.cfg.Polls && e.RetryAt > w.now.add(most) {
				w.fail("agent %d sleeps until %v, though nobody will wake it", i+1, time.Duration(e.RetryAt))
			}
		case Answered:
			w.turnedAway(i, e)
		case AskBreak:
			broke = true
		case Ended:
			if e.Reason == lockagent.LostDenied && w.store.permits > 0 && !w.isExcused(i, e.Tenure) &&
				w.store.holder(tenureID{i, e.Tenure}, w.now) != nil {
				w.fail("agent %d gives up tenure %d, which still has its permits", i+1, e.Tenure)
			}
		case Dropped:
			w.dropped = true
		}
	})
	// Pauses are scattered. So there would be many instants that differ little. Each may be the
	// last possible one, so take that.
	a.look()
	if !slices.ContainsFunc(a.parts, func(s *State) bool { return s.attempt.number != 0 }) {
		a.told = nil // nobody asks any more: the next attempt has to ask anew
	}
	for _, s := range a.parts {
		if s.phase == sleeping || s.phase == releasing {
			s.retryAt = ceil(s.retryAt, w.now)
		}
		s.renewal.retryAt = ceil(s.renewal.retryAt, w.now)
		if s.cfg.Rest > 0 {
			s.habit = lone
		}
		if problem := unsettled(s, m); problem != "" && !slices.Contains(overdue, s) {
			w.fail("agent %d after %T: %s", i+1, c, problem)
		}
	}
	if killed {
		w.kill(i)
		return
	}
	a.doomed = 0
	if _, ok := c.(Acquire); ok && w.mortal {
		a.journal = a.s.Snapshot()
	}
	if !a.s.Listening() {
		a.subscribed, a.waking = false, false
	}
	if broke {
		w.breakLock(i)
	}
}

// restart makes another process go on with the holds of an agent. Calls of the old process may
// still arrive, but nobody hears the answers. Owners that wait have to ask again.
func (w *world) restart(i int) {
	before := w.agents[i]
	snapshot := before.s.Snapshot().withoutWaiting()
	holds := before.ledger.clone().grants
	w.tell(i, Detach{})
	if a := w.agents[i]; len(a.ledger.waiting)+len(a.ledger.grants)+len(a.ledger.calls) > 0 || !a.s.Idle() {
		w.fail("agent %d is detached, but somebody waits for it", i+1)
	}
	a := w.agent(i)
	w.resume(a, snapshot, w.now)
	a.ledger = ledger{grants: holds}
	a.inbox, a.subscribed, a.waking, a.missing = nil, false, false, true
	for c := range w.calls {
		if c := &w.calls[c]; c.agent == i {
			*c = c.again()
		}
	}
}

// overdue are the parts whose tick is due and still to come. The command may not concern them. A request that does not
// wait may be due before its tick: the world rounds that up.
func (a *agentModel) overdue(c Command, m Moment) (parts []*State) {
	if a.fair == nil {
		return nil
	}
	for _, s := range a.parts {
		recalled := s.phase == sleeping && s.attempt.notified != 0 && !recalling(s.attempt.notified, m.Now)
		if recalled || c != (Tick{}) && s.concerns(Tick{}, m) {
			parts = append(parts, s)
		}
	}
	return parts
}

// has reports whether a part other than one has a tenure.
func (a *agentModel) has(tenure uint64, not *State) bool {
	return slices.ContainsFunc(a.parts, func(s *State) bool { return s != not && s.has(tenure) })
}

// ceil rounds an instant in the future up: to a whole pause, or to the longest sleep.
func ceil(i, now Instant) Instant {
	switch left := i.Sub(now); {
	case i == never || left <= 0:
		return i
	case left < pause:
		return now.add(pause)
	default:
		return now.add((left - time.Millisecond).Truncate(tick) + 2*tick)
	}
}

func (w *world) send(c storeCall) {
	c.sent = w.now
	for i := range w.calls {
		o := &w.calls[i]
		// Calls of one tenure come one at a time. There are two exceptions: a release does not wait for the answer
		// to a renewal, but see below, and a dropped release may be under way.
		overtakes := c.kind == callRelease && o.kind == callRenew || c.kind == callDisown && o.kind != callAcquire
		if o.agent != c.agent || o.number != c.number || o.zombie || w.agents[c.agent].crashed {
			continue
		}
		// In a grace period the renewal of a tenure in doubt puts the tenure back, if there were holds.
		doubted := slices.ContainsFunc(w.agents[c.agent].parts, func(s *State) bool {
			return s.tenure.number == c.number && s.InDoubt() && w.now < s.tenure.deadline && !s.leaving.unanswered
		})
		if c.kind == callRelease && o.kind == callRenew && doubted {
			w.fail("agent %d releases tenure %d, which a renewal may put back", c.agent+1, c.number)
		}
		if !overtakes {
			w.fail("agent %d makes two calls at a time for tenure %d", c.agent+1, c.number)
		}
	}
	w.calls = append(w.calls, c)
}
