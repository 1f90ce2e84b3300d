package audit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
)

// world is a model of stores and of agents that speak the truth. It makes a true history: it knows
// from when to when each owner believed that it had a lock. It also writes the log that the
// agents would write. All times are in milliseconds of a true time, which nobody in the world knows.
type world struct {
	rand   *rand.Rand
	cfg    worldConfig
	now    int
	stores []*worldStore
	agents []*worldAgent
	ids    int

	stream []events.Record // in the order of arrival
	holds  []*trueHold
	when   map[identity]int // when each record was made
	had    map[string]bool  // what happened
	lives  map[lifeOf]bool  // those that left a record
}

type worldConfig struct {
	length  int // how long it goes on
	crashes bool
	resets  bool
	grace   bool // after a reset the store waits for its agents
	hasty   bool // some agents do not keep to that
	breaks  bool
	steps   bool // of the clocks of the stores
	pauses  bool // of processes
	outages bool // of NATS, and of the way to the store
	late    bool // agents learn the identity of their store some time after their start
	resumes bool // the next process of an agent may go on with its holds
	mixed   bool // tenures become shared, and permits are set, drained and given back by their ids
	waits   bool // agents tell of requests that wait, of renewals that fail, and of events that found no room
	stores  int  // at least 1
	evil    evil
}

// evil is what a store does wrong.
type evil int

const (
	sound      evil = iota
	grantTwice      // grants what is held
	forget          // loses a tenure without a trace
	confirmAll      // loses a tenure, and goes on confirming it
	tokensFall
	evils
	impatient // does not wait in a grace period
)

// identity is that of a record.
type identity struct {
	agent lockagent.AgentID
	events.Place
}

func identityOf(r *events.Record) identity {
	return identity{r.Agent, events.Place{Epoch: r.Epoch, Seq: r.Seq}}
}

type lifeOf struct {
	agent lockagent.AgentID
	epoch uint64
}

// trueHold is a hold as it was.
type trueHold struct {
	store  string
	lock   lockagent.Name
	mode   lockagent.Mode
	n      int // permits, of so many
	total  int
	agent  lockagent.AgentID
	epoch  uint64
	tenure uint64
	token  lockagent.Token
	from   int
	reads  int                 // when it became shared, or 0
	until  int                 // when the owner knew that it was over
	lease  int                 // when it was over, unless its process did not run
	began  lockagent.StoreTime // as the store said
	ends   []trueEnd           // of the processes that had it, but for the last one
	back   []int               // when permits of it were given back by their ids
}

type worldStore struct {
	id     string
	kind   lockagent.LockKind // of its semaphore,
	total  int                // which has so many permits; 0: nobody has set it
	locks  map[lockagent.Name][]*worldTenure
	loose  map[lockagent.Name]lockagent.StoreTime // by when tenures whose answers were lost had ended
	inc    int                                    // the incarnation
	set    int                                    // how far its clock is from the true time
	token  lockagent.StoreTime                    // the greatest that it gave out
	behind lockagent.StoreTime                    // by which tokens are too small
	grace  worldGrace
}

// clock is what it shows. It never goes back, and is ahead for a moment of the times that it gave out.
func (s *worldStore) clock(ms int) lockagent.StoreTime { return max(clock(ms+s.set), s.token) }

// begin is when a tenure begins: no two begin at the same time.
func (s *worldStore) begin(ms int) lockagent.StoreTime {
	s.token = s.clock(ms) + 10 // more than a tenure has holds
	return s.token
}

type worldTenure struct {
	agent  *worldAgent
	lock   lockagent.Name
	number uint64
	mode   lockagent.Mode      // as the store knows
	n      int                 // permits, if it is one of a semaphore
	total  int                 // which had so many when the store granted them
	back   int                 // so many of them were given back by their ids
	token  lockagent.StoreTime // of its first hold
	lease  int
	fixed  bool
	inc    int
	holds  int

	begun      lockagent.StoreTime // when the store began it
	told       lockagent.StoreTime // when the store answered last, as the store said,
	at         int                 // and as it was
	confirmed  lockagent.StoreTime // likewise, of the last answer that confirmed it
	expires    int                 // when the store ends it
	over       bool                // the store has it no more
	rests      bool                // it is the agent's still, and nobody holds it
	broken     bool
	away       bool                // the store has forgotten it, and its agent has not come back
	turns      bool                // it is shared from now on, and the store does not know that yet
	doubt      bool                // the process that goes on with it has not asked the store yet
	silent     bool                // no record tells that it is returned
	unanswered bool                // the store has ended it, and the answer was lost
	ended      lockagent.StoreTime // when a hold of it was over at the latest, as its agent says

	worldHold
	beside *worldHold // another one, which goes on at the same time, or nil
}

// worldHold is a hold that goes on, as the agent sees it.
type worldHold struct {
	hold   *trueHold
	mode   lockagent.Mode
	owner  lockagent.Owner
	grants int
	reads  int // of an exclusive hold: how many of its grants are shared
	ends   int // when the owner releases it
	how    lockagent.How
	said   int // when the agent told last that it goes on
}

// both are the holds of a tenure that does not rest.
func (t *worldTenure) both() []*worldHold {
	if t.beside == nil {
		return []*worldHold{&t.worldHold}
	}
	return []*worldHold{&t.worldHold, t.beside}
}

// swap makes the other one of two holds the one that is dealt with.
func (t *worldTenure) swap() { t.worldHold, *t.beside = *t.beside, t.worldHold }

// left goes on with the other one of two holds, when one is over. It is false if there is no other.
func (t *worldTenure) left() bool {
	if t.beside == nil {
		return false
	}
	t.swap()
	t.beside = nil
	return true
}

// deadline is when the agent trusts the lease no longer.
func (t *worldTenure) deadline() int { return t.at + t.lease - min(t.lease/10, 2000) }

// until is what the agent knows of the clock of the store.
func (t *worldTenure) until(ms int) lockagent.StoreTime {
	return t.told.Add(time.Duration(ms-t.at) * time.Millisecond)
}

type worldAgent struct {
	id     lockagent.AgentID
	epoch  uint64
	seq    uint64
	store  *worldStore
	skew   int // of its wall clock
	named  int // when it learns the identity of its store
	tenure uint64
	waits  uint64 // how many requests have waited
	has    map[lockagent.Name]*worldTenure
	debts  []*worldTenure // to be returned when the store can be reached
	tells  []worldChange  // of permits, which are told later

	hasty         bool                // it keeps to no grace period
	grace         int                 // the incarnation of the grace period of which it has told
	begins        bool                // its process begins when it is paused no longer, and goes on with holds
	crash, stop   int                 // when it will; 0: never
	paused, from  int                 // until when and since when its process does not run
	mute          int                 // until when it does not reach NATS
	deaf          int                 // until when it does not reach the store
	alive, newest int                 // when it told last, and its last renewal,
	confirmed     lockagent.StoreTime // as the store said
	inc, set      int                 // of the store, as it knows
	shown         lockagent.StoreTime // what its clock showed
	shownAt       int                 // at that time
	reads         int                 // when it looks at that clock, of an agent that does nothing else; else 0

	queue []events.Record // not in the stream yet
	last  events.Place    // in the stream
	said  int             // when that came there
}

var worldLocks = []lockagent.Name{"a", "b", "c/d", semaphore}

func newWorld(r *rand.Rand, cfg worldConfig) *world {
	w := &world{
		rand: r, cfg: cfg,
		when: make(map[identity]int), had: make(map[string]bool), lives: make(map[lifeOf]bool),
	}
	for n := range max(cfg.stores, 1) {
		w.stores = append(w.stores, &worldStore{
			id: fmt.Sprintf("s%d", n), kind: []lockagent.LockKind{lockagent.Semaphore, lockagent.Permits}[r.IntN(2)],
			locks: make(map[lockagent.Name][]*worldTenure), loose: make(map[lockagent.Name]lockagent.StoreTime), inc: 1,
		})
		if cfg.grace {
			w.startsInGrace(w.stores[n])
		}
	}
	for n := range 2 + len(w.stores) {
		w.begin(w.stores[n%len(w.stores)])
	}
	if cfg.steps {
		for _, s := range w.stores {
			w.beginQuiet(s)
		}
	}
	for w.now = 1; w.now < cfg.length; w.now += 1 + r.IntN(400) {
		w.step()
	}
	for _, a := range slices.Clone(w.agents) {
		switch {
		case a.begins:
			w.neverBegins(a)
		case w.now >= a.paused:
			w.stop(a)
		default:
			w.crashed(a)
		}
	}
	return w
}

func (w *world) chance(of int) bool { return w.rand.IntN(of) == 0 }

// happened notes that something happened by a chance of one in so many, if it may.
func (w *world) happened(may bool, of int, what string) bool {
	if !may || !w.chance(of) {
		return false
	}
	w.had[what] = true
	return true
}

func (w *world) begin(s *worldStore) {
	w.ids++
	hasty := w.cfg.hasty && w.chance(3)
	w.start(&worldAgent{id: lockagent.AgentID(fmt.Sprintf("A%d", w.ids)), epoch: 1, store: s, hasty: hasty})
}

// quietFor is how long an agent that does nothing else does not look at the clock of its store.
const quietFor = 600_000

// beginQuiet begins an agent that has looked at the clock some minutes ago.
func (w *world) beginQuiet(s *worldStore) {
	w.begin(s)
	a := w.agents[len(w.agents)-1]
	a.reads = 1 + w.rand.IntN(w.cfg.length)
	a.inc, a.shownAt = s.inc, a.reads-quietFor
	a.shown = s.clock(a.shownAt)
}

// follow has the identity of an agent go on in the next epoch, or another agent take its place.
func (w *world) follow(a *worldAgent) {
	if w.chance(2) || a.last.Seq == 0 {
		w.begin(a.store)
		return
	}
	w.had["epoch"] = true
	w.start(&worldAgent{
		id: a.id, epoch: a.epoch + 1, last: a.last, tenure: a.tenure + 1000, store: a.store, hasty: a.hasty,
	})
}

func (w *world) start(a *worldAgent) {
	a.has, a.skew = make(map[lockagent.Name]*worldTenure), w.rand.IntN(10_000_000)-5_000_000
	w.agents = append(w.agents, a)
	w.begun(a)
}

// begun begins the process of an agent.
func (w *world) begun(a *worldAgent) {
	a.alive = w.now
	if w.cfg.crashes && w.chance(3) {
		a.crash = w.now + 1000 + w.rand.IntN(w.cfg.length)
	} else if w.chance(3) {
		a.stop = w.now + 1000 + w.rand.IntN(w.cfg.length)
	}
	if w.happened(w.cfg.late, 2, "nameless") {
		a.named = w.now + w.rand.IntN(40_000)
	}
	e := lockagent.Event{Kind: lockagent.EventAgentStarted, Process: lockagent.Process{Host: "h", PID: w.ids}}
	e.Count, e.Sum = a.holding()
	w.record(a, e)
	a.queue[len(a.queue)-1].Follows = a.last
}

func (w *world) record(a *worldAgent, e lockagent.Event) *events.Record {
	return w.recordAt(a, w.now, e)
}

func (w *world) recordAt(a *worldAgent, ms int, e lockagent.Event) *events.Record {
	a.seq++
	e.Agent, e.Time = a.id, wall(ms+a.skew)
	if ms >= a.named {
		e.Store = a.store.id
	}
	a.queue = append(a.queue, events.Record{Event: e, Epoch: a.epoch, Seq: a.seq})
	r := &a.queue[len(a.queue)-1]
	w.when[identityOf(r)] = ms
	return r
}

// publish brings what an agent recorded up to a time into the stream, in messages of one lock.
func (w *world) publish(a *worldAgent, until int) {
	for len(a.queue) > 0 && w.when[identityOf(&a.queue[0])] <= until {
		r := a.queue[0]
		a.queue = a.queue[1:]
		r.Stored, r.Position = wall(w.now), 1
		if n := len(w.stream); n > 0 {
			last := &w.stream[n-1]
			r.Position = last.Position
			if last.Agent != r.Agent || last.Lock != r.Lock || r.Lock == "" || events.Urgent(r.Kind) ||
				events.Urgent(last.Kind) || !last.Stored.Equal(r.Stored) {
				r.Position++
			}
		}
		if r.Kind == lockagent.EventAgentStarted && w.now-w.when[identityOf(&r)] > int(delay.Milliseconds()) {
			// Others go on meanwhile. Whoever reads the log cannot know of an agent that has not told of its
			// start, and judges without it. Its holds are named then: the log told of them late.
			w.had["late"] = true
		}
		if a.last.Epoch+1 >= r.Epoch && a.said > 0 && w.now-a.said > int(DefaultPatience.Milliseconds()) {
			w.had["late"] = true // an audit takes it for dead
		}
		a.last, a.said = events.Place{Epoch: r.Epoch, Seq: r.Seq}, w.now
		w.lives[lifeOf{r.Agent, r.Epoch}] = true
		w.stream = append(w.stream, r)
	}
}

func (w *world) step() {
	for _, s := range w.stores {
		w.endsGrace(s)
		switch reset := w.happened(w.cfg.resets, 80, "reset"); {
		case !reset:
		case w.cfg.grace:
			w.forgets(s)
		default:
			s.inc++
			s.total = 0
			for name := range s.locks {
				w.empty(s, name)
			}
		}
		if !w.had["step of "+s.id] && w.happened(w.cfg.steps, 80, "step") {
			w.had["step of "+s.id] = true
			d := []int{-30_000, -5000, -300, 300, 5000, 60_000}[w.rand.IntN(6)]
			s.set += max(d, 0) // it never goes back, but leases last longer
			for _, l := range s.locks {
				for _, t := range l {
					t.expires -= d
				}
			}
		}
		w.harm(s)
	}
	for _, a := range slices.Clone(w.agents) {
		w.live(a)
	}
}

// empty ends all tenures of a lock in the store.
func (w *world) empty(s *worldStore, name lockagent.Name) {
	for _, t := range s.locks[name] {
		t.over = true
	}
	s.locks[name] = nil
}

// harm is what an evil store does by itself.
func (w *world) harm(s *worldStore) {
	switch w.cfg.evil {
	case forget, confirmAll:
		name := worldLocks[w.rand.IntN(len(worldLocks))]
		if len(s.locks[name]) > 0 && w.happened(true, 20, "evil") {
			w.empty(s, name)
		}
	case tokensFall:
		if w.happened(true, 40, "evil") {
			s.behind += 1_000_000_000
		}
	}
}

func (w *world) live(a *worldAgent) {
	switch {
	case a.begins:
		if w.now >= a.paused {
			w.goesOn(a)
		}
		return
	case a.crash != 0 && w.now >= a.crash && w.now >= a.mute:
		if w.happened(w.cfg.resumes, 2, "resume") {
			w.had["crash"] = true
			w.leaves(a, w.now-w.rand.IntN(3000))
			return
		}
		w.crashed(a)
		w.follow(a)
		return
	case w.now < a.paused:
		return
	case a.stop != 0 && w.now >= a.stop:
		if w.happened(w.cfg.resumes, 2, "resume") {
			w.tellChanges(a, math.MaxInt)
			w.record(a, lockagent.Event{Kind: lockagent.EventAgentStopped})
			w.leaves(a, w.now)
			return
		}
		w.stop(a)
		w.follow(a)
		return
	case w.happened(w.cfg.pauses, 80, "pause"):
		a.from, a.paused = w.now, w.now+w.rand.IntN(40_000)
		return
	}
	if w.now >= a.mute && w.happened(w.cfg.outages, 80, "mute") {
		a.mute = w.now + w.rand.IntN(40_000)
		if w.chance(6) {
			a.mute += 60_000
		}
		w.had["late"] = w.had["late"] || a.mute-w.now > 40_000
	}
	if w.now >= a.deaf && w.happened(w.cfg.outages || w.cfg.waits, 80, "deaf") {
		a.deaf = w.now + w.rand.IntN(40_000)
	}
	w.act(a)
	if w.now < a.mute {
		return
	}
	if w.now-a.alive >= 10_000 || a.newest > a.alive && w.now-a.newest >= 1000 {
		w.tellAlive(a)
	}
	if !w.chance(3) {
		w.publish(a, w.now)
	}
}

func (w *world) tellAlive(a *worldAgent) {
	e := lockagent.Event{Kind: lockagent.EventAlive}
	e.Count, e.Sum = a.holding()
	if a.shown != 0 {
		passed := w.now - a.shownAt
		e.StoreTime = a.shown.Add(time.Duration(passed)*time.Millisecond - time.Duration(passed)*time.Microsecond)
	}
	if a.newest != 0 {
		e.Confirmed = a.confirmed
	}
	a.alive = w.now
	w.record(a, e)
}

// crashed ends an agent. What it did last is lost.
func (w *world) crashed(a *worldAgent) {
	w.had["crash"] = true
	w.publish(a, w.now-w.rand.IntN(3000))
	died := w.now
	if w.now < a.paused {
		died = a.from
	}
	for _, t := range a.has {
		if t.rests {
			continue
		}
		t.hold.until, t.hold.lease = died, t.deadline()
		if t.left() {
			t.hold.until, t.hold.lease = died, t.deadline()
		}
	}
	w.gone(a)
}

func (w *world) gone(a *worldAgent) {
	w.agents = slices.DeleteFunc(w.agents, func(x *worldAgent) bool { return x == a })
}

func (w *world) stop(a *worldAgent) {
	for _, name := range worldLocks {
		if t := a.has[name]; t != nil && t.rests {
			w.giveBack(a, t)
		}
		if t := a.has[name]; t != nil {
			w.lapse(a, t)
		}
		if t := a.has[name]; t != nil {
			w.lose(a, t, lockagent.EventLost, lockagent.LostClosed, w.now)
			w.giveBack(a, t)
		}
	}
	w.tellChanges(a, math.MaxInt)
	w.record(a, lockagent.Event{Kind: lockagent.EventAgentStopped})
	if w.now < a.mute && w.chance(2) {
		w.had["crash"] = true // to those who read the log
	} else {
		w.publish(a, w.now)
	}
	w.gone(a)
}
