package events

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockagent/lockagent"
)

// world is a small model of agents that speak the truth, and of one store. It writes the log that
// they would write. Times are in milliseconds.
type world struct {
	rand  *rand.Rand
	cfg   worldConfig
	now   int
	locks map[lockagent.Name]*worldLock
	inc   int                 // the incarnation of the store
	born  int                 // when it began
	tick  lockagent.StoreTime // the latest beginning of a tenure

	agents []*worldAgent
	away   map[*worldAgent]int // those that come back, and when
	stream []Record            // in the order of arrival
	ids    int
}

type worldConfig struct {
	length  int // how long it goes on
	crashes bool
	resets  bool
	breaks  bool
	returns bool // agents come back, some of them late
}

// worldLock is a lock in the store.
type worldLock struct{ tenures []*worldTenure }

type worldTenure struct {
	agent     *worldAgent
	lock      lockagent.Name
	number    uint64
	mode      lockagent.Mode
	first     lockagent.StoreTime // when it began, and the token of its first hold
	confirmed int
	renewed   bool
	lease     int
	inc       int
	holds     int
	over      bool // the store has it no more

	// The hold that goes on, as the agent sees it.
	since  int
	owner  lockagent.Owner
	grants int
	ends   int // when the owner releases it
}

type worldAgent struct {
	id     lockagent.AgentID
	epoch  uint64
	seq    uint64
	inc    int // as it knows the store
	crash  int // when it will; 0: never
	stop   int
	tenure uint64
	has    map[lockagent.Name]*worldTenure
	alive  int // when it told last
	newest int // its last renewal

	queue []Record // not in the stream yet
	last  Place    // in the stream
}

const worldLease = 30_000

func newWorld(r *rand.Rand, cfg worldConfig) *world {
	w := &world{rand: r, cfg: cfg, locks: make(map[lockagent.Name]*worldLock), inc: 1, away: make(map[*worldAgent]int)}
	for _, name := range []lockagent.Name{"a", "b", "c/d"} {
		w.locks[name] = &worldLock{}
	}
	for range 3 {
		w.begin()
	}
	for w.now = 1; w.now < cfg.length; w.now += 1 + r.IntN(400) {
		w.step()
	}
	for _, a := range w.agents {
		w.stop(a)
	}
	for i := range w.stream {
		w.stream[i].Position = uint64(i) + 1
	}
	return w
}

func (w *world) begin() *worldAgent {
	w.ids++
	a := &worldAgent{id: lockagent.AgentID(fmt.Sprintf("A%d", w.ids)), epoch: 1, has: make(map[lockagent.Name]*worldTenure)}
	w.start(a)
	w.agents = append(w.agents, a)
	return a
}

func (w *world) start(a *worldAgent) {
	a.inc, a.crash, a.stop, a.alive = w.inc, 0, 0, w.now
	life := w.cfg.length
	if w.cfg.returns {
		life = min(life, 100_000)
	}
	if w.cfg.crashes && w.rand.IntN(3) == 0 {
		a.crash = w.now + 1000 + w.rand.IntN(life)
	} else if w.rand.IntN(3) == 0 {
		a.stop = w.now + 1000 + w.rand.IntN(life)
	}
	w.record(a, lockagent.Event{Kind: lockagent.EventAgentStarted, Process: lockagent.Process{Host: "h", PID: w.ids}})
	a.queue[len(a.queue)-1].Follows = a.last
}

func (w *world) record(a *worldAgent, e lockagent.Event) *Record {
	a.seq++
	e.Agent, e.Store = a.id, "s"
	if e.Time.IsZero() {
		e.Time = wall(w.now)
	}
	a.queue = append(a.queue, Record{Event: e, Epoch: a.epoch, Seq: a.seq})
	return &a.queue[len(a.queue)-1]
}

// publish brings what an agent recorded into the stream.
func (w *world) publish(a *worldAgent) {
	for _, r := range a.queue {
		r.Stored = wall(w.now)
		a.last = Place{r.Epoch, r.Seq}
		w.stream = append(w.stream, r)
	}
	a.queue = a.queue[:0]
}

func (w *world) step() {
	if w.cfg.resets && w.rand.IntN(60) == 0 {
		w.inc++
		w.born = w.now
		for _, l := range w.locks {
			for _, t := range l.tenures {
				t.over = true
			}
			l.tenures = nil
		}
	}
	for _, a := range slices.SortedFunc(maps.Keys(w.away), func(a, b *worldAgent) int { return cmp.Compare(a.id, b.id) }) {
		if w.now >= w.away[a] {
			delete(w.away, a)
			w.start(a)
			w.agents = append(w.agents, a)
		}
	}
	for _, a := range slices.Clone(w.agents) {
		switch {
		case a.crash != 0 && w.now >= a.crash:
			w.crashed(a)
			continue
		case a.stop != 0 && w.now >= a.stop:
			w.stop(a)
			w.begin()
			if w.cfg.returns {
				w.comeBack(a)
			}
			continue
		}
		w.act(a)
		if w.now-a.alive >= 10_000 || a.newest > a.alive && w.now-a.newest >= 1000 {
			w.tellAlive(a)
		}
		if w.rand.IntN(3) > 0 {
			w.publish(a)
		}
	}
}

func (w *world) tellAlive(a *worldAgent) {
	e := lockagent.Event{Kind: lockagent.EventAlive, StoreTime: clock(w.now) - 50}
	if a.newest != 0 {
		e.Confirmed = clock(a.newest)
	}
	a.alive = w.now
	w.record(a, e)
}

// crashed ends an agent. What it has not published is lost. Another one takes its place, with its
// identity or another.
func (w *world) crashed(a *worldAgent) {
	a.queue = nil
	w.agents = slices.DeleteFunc(w.agents, func(x *worldAgent) bool { return x == a })
	if w.rand.IntN(2) == 0 || a.last.Seq == 0 {
		w.begin()
		return
	}
	if w.cfg.returns {
		w.begin()
		w.comeBack(a)
		return
	}
	next := a.next()
	w.start(next)
	w.agents = append(w.agents, next)
}

// next is an agent in its next life.
func (a *worldAgent) next() *worldAgent {
	return &worldAgent{id: a.id, epoch: a.epoch + 1, last: a.last, tenure: a.tenure + 1000, has: make(map[lockagent.Name]*worldTenure)}
}

// comeBack has an agent come back, in a moment or much later.
func (w *world) comeBack(a *worldAgent) {
	w.away[a.next()] = w.now + []int{1000, 100_000, 400_000, 900_000}[w.rand.IntN(4)]
}

func (w *world) stop(a *worldAgent) {
	for _, name := range w.names() {
		if t := a.has[name]; t != nil {
			w.end(a, t, lockagent.EventLost, lockagent.LostClosed, w.now)
			w.giveBack(a, t)
		}
	}
	w.record(a, lockagent.Event{Kind: lockagent.EventAgentStopped})
	w.publish(a)
	w.agents = slices.DeleteFunc(slices.Clone(w.agents), func(x *worldAgent) bool { return x == a })
}

func (w *world) names() []lockagent.Name { return []lockagent.Name{"a", "b", "c/d"} }

func (w *world) act(a *worldAgent) {
	name := w.names()[w.rand.IntN(3)]
	for _, lock := range w.names() {
		if t := a.has[lock]; t != nil {
			w.keep(a, t)
		}
	}
	if a.has[name] == nil {
		if w.cfg.breaks && w.rand.IntN(40) == 0 {
			w.breaks(a, name)
		}
		w.acquire(a, name)
	}
}

// meets makes an agent notice another incarnation.
func (w *world) meets(a *worldAgent) {
	if a.inc == w.inc {
		return
	}
	w.record(a, lockagent.Event{Kind: lockagent.EventStoreReset, Reset: lockagent.Reset{
		From: incarnation(a.inc), To: incarnation(w.inc), Reason: "emptied", After: clock(min(a.alive, w.born)), Before: clock(w.now),
	}})
	a.inc = w.inc
}

func incarnation(n int) string { return fmt.Sprintf("i%d", n) }

func (w *world) acquire(a *worldAgent, name lockagent.Name) {
	mode := lockagent.Exclusive
	if w.rand.IntN(3) == 0 {
		mode = lockagent.Shared
	}
	w.meets(a)
	l := w.locks[name]
	l.tenures = slices.DeleteFunc(l.tenures, func(t *worldTenure) bool {
		t.over = t.over || w.now > t.confirmed+t.lease
		return t.over
	})
	for _, t := range l.tenures {
		if t.mode != lockagent.Shared || mode != lockagent.Shared {
			return // busy
		}
	}
	a.tenure++
	w.tick = max(clock(w.now), w.tick+10) // more than a tenure has holds
	t := &worldTenure{agent: a, lock: name, number: a.tenure, mode: mode, first: w.tick, confirmed: w.now, lease: worldLease, inc: w.inc}
	l.tenures = append(l.tenures, t)
	a.has[name] = t
	w.grant(a, t, lockagent.ByStore)
	if d := t.ends - w.now; d < 20 { // a short hold is one record
		w.short(a, t)
	}
}

func (w *world) grant(a *worldAgent, t *worldTenure, how lockagent.How) {
	t.since, t.grants = w.now, 1
	t.owner = lockagent.Owner(fmt.Sprintf("o%d", w.rand.IntN(9)))
	t.ends = w.now + []int{1, 15, 300, 2000, 25_000, 70_000}[w.rand.IntN(6)]
	t.holds++
	e := w.about(t, lockagent.EventGranted)
	e.How, e.StoreTime, e.Count, e.Incarnation = how, t.told(), 1, incarnation(t.inc)
	w.record(a, e)
}

// told is when the store confirmed the tenure last.
func (t *worldTenure) told() lockagent.StoreTime {
	if t.renewed {
		return clock(t.confirmed)
	}
	return t.first
}

func (w *world) about(t *worldTenure, kind lockagent.EventKind) lockagent.Event {
	return lockagent.Event{
		Kind: kind, Lock: t.lock, LockKind: lockagent.PlainLock, Mode: t.mode, Owner: t.owner, Tenure: t.number,
		Token: lockagent.Token(t.first) + lockagent.Token(t.holds) - 1, Lease: worldLease * time.Millisecond,
	}
}

// short makes a whole hold of the grant that was just recorded.
func (w *world) short(a *worldAgent, t *worldTenure) {
	r := &a.queue[len(a.queue)-1]
	ms := t.ends - w.now
	r.Kind, r.Count, r.Held = lockagent.EventHeld, 0, time.Duration(ms)*time.Millisecond
	r.Confirmed, r.Until = t.told(), clock(t.ends)+1
	r.Returned = clock(t.ends)
	w.forget(a, t)
	w.now = t.ends
}

func (w *world) forget(a *worldAgent, t *worldTenure) {
	delete(a.has, t.lock)
	l := w.locks[t.lock]
	l.tenures = slices.DeleteFunc(l.tenures, func(x *worldTenure) bool { return x == t })
}

func (w *world) keep(a *worldAgent, t *worldTenure) {
	switch {
	case w.now >= t.confirmed+t.lease-3000:
		// The model was too slow: its clock jumps. An agent would have lost the hold by now.
		w.end(a, t, lockagent.EventLost, lockagent.LostDeadline, t.confirmed+t.lease-3000)
		w.giveBack(a, t)
	case t.over && w.now-t.confirmed >= 8000: // it asks for more time
		w.end(a, t, lockagent.EventLost, lockagent.LostDenied, w.now)
		w.meets(a)
		w.giveBack(a, t)
	case w.now-t.confirmed >= 8000:
		t.confirmed, t.renewed, a.newest = w.now, true, w.now
	case w.now < t.ends && t.grants == 1 && w.rand.IntN(20) == 0:
		t.grants++
		e := w.about(t, lockagent.EventReentered)
		e.Count, e.StoreTime = t.grants, t.told()
		w.record(a, e)
	case w.now < t.ends:
	case t.grants > 1:
		w.end(a, t, lockagent.EventReleased, 0, w.now)
	default:
		w.end(a, t, lockagent.EventReleased, 0, w.now)
		if w.rand.IntN(2) == 0 && t.holds < 5 {
			w.grant(a, t, lockagent.ByHandOff)
			return
		}
		w.giveBack(a, t)
	}
}

// end ends the hold of a tenure, or gives back one of two grants.
func (w *world) end(a *worldAgent, t *worldTenure, kind lockagent.EventKind, why lockagent.LossReason, ms int) {
	for {
		t.grants--
		e := w.about(t, kind)
		e.Reason, e.Count, e.Held = why, t.grants, time.Duration(ms-t.since)*time.Millisecond
		e.Confirmed, e.Until, e.Time = t.told(), clock(ms)+1+lockagent.StoreTime(w.rand.IntN(900)), wall(ms)
		w.record(a, e)
		if why == 0 || t.grants == 0 {
			return
		}
	}
}

// giveBack returns a tenure to the store.
func (w *world) giveBack(a *worldAgent, t *worldTenure) {
	e := w.about(t, lockagent.EventReturned)
	e.Token, e.Owner = 0, ""
	e.Returned = clock(w.now)
	if t.over || w.now > t.confirmed+t.lease {
		e.Reason = lockagent.LostDenied
		w.meets(a)
	}
	w.record(a, e)
	w.forget(a, t)
}

// breaks is what an operator does through an agent.
func (w *world) breaks(a *worldAgent, name lockagent.Name) {
	l := w.locks[name]
	if len(l.tenures) == 0 {
		return
	}
	w.meets(a)
	for _, t := range l.tenures {
		t.over = true
	}
	l.tenures = nil
	w.tick = max(clock(w.now), w.tick+1)
	w.record(a, lockagent.Event{Kind: lockagent.EventBroken, Lock: name, LockKind: lockagent.PlainLock, StoreTime: w.tick, Operator: "olga"})
}

// naive is what somebody finds out about holds who looks at one record after the other, without
// an eye to speed or to what may be missing.
type naive struct {
	key        LockKey
	agent      lockagent.AgentID
	shared     bool
	start, end lockagent.StoreTime
	token      lockagent.Token
}

// overlaps returns the pairs of holds that may have overlapped, and the holds whose token is not
// greater than that of an earlier one.
func overlaps(records []Record) (pairs [][2]naive) {
	byAgent := make(map[lockagent.AgentID][]Record)
	for _, r := range records {
		byAgent[r.Agent] = append(byAgent[r.Agent], r)
	}
	type id struct {
		LockKey
		agent  lockagent.AgentID
		tenure uint64
		token  lockagent.Token
	}
	var all []naive
	for agent, log := range byAgent {
		slices.SortStableFunc(log, func(a, b Record) int { return comparePlaces(&a, &b) })
		open := make(map[id]naive)
		starts := make(map[id]lockagent.StoreTime)
		last := make(map[id][]int)
		for _, r := range log {
			k := id{LockKey{r.Store, r.LockKind, r.Lock}, agent, r.Tenure, r.Token}
			tenure := id{k.LockKey, agent, r.Tenure, 0}
			if r.Kind == lockagent.EventGranted || r.Kind == lockagent.EventHeld {
				if _, again := starts[tenure]; !again {
					starts[tenure] = r.StoreTime
				}
				open[k] = naive{key: k.LockKey, agent: agent, shared: r.Mode == lockagent.Shared, start: starts[tenure], token: r.Token}
			}
			if h, ok := open[k]; ok && r.Kind.EndsHold() && r.Count == 0 {
				h.end = r.Until
				if r.Returned != 0 {
					h.end = min(h.end, r.Returned)
				}
				if limit := r.Confirmed.Add(r.Lease); r.Reason == lockagent.LostDeadline || r.Kind == lockagent.EventExpired {
					h.end = min(h.end, limit)
				}
				all = append(all, h)
				last[tenure] = append(last[tenure], len(all)-1)
				delete(open, k)
			}
			if r.Kind == lockagent.EventReturned && r.Reason == 0 {
				for _, i := range last[tenure] {
					all[i].end = min(all[i].end, r.Returned)
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b naive) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.token, b.token)) })
	for i, a := range all {
		for _, b := range all[i+1:] {
			if b.start >= a.end {
				break
			}
			if a.key == b.key && a.agent != b.agent && !(a.shared && b.shared) && a.key.Kind == lockagent.PlainLock {
				pairs = append(pairs, [2]naive{a, b})
			}
		}
	}
	return pairs
}
