package audit

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/fold"
)

// What an audit takes for granted of agents that speak the truth.
const (
	// heartbeat is how often an agent tells that it is alive.
	heartbeat = 10 * time.Second

	// outage is how long a stream takes no message only if NATS is away.
	outage = heartbeat + time.Second

	// aliveLag is by how much the clock of the store may be ahead of what a sign of life says.
	aliveLag = heartbeat + heartbeat/2

	// delay bounds the time from a decision of the store to its record: a call takes no longer.
	delay = 5 * time.Second

	// recordPatience is how long an audit waits for a record that is missing, while the log goes on.
	recordPatience = heartbeat

	// maxPending bounds the records of one agent that wait for a missing one.
	maxPending = 1024
)

// The defaults of an [Audit].
const (
	DefaultTail     = heartbeat + heartbeat/2
	DefaultPatience = 6 * heartbeat
)

// Audit folds the records of all agents and shows whether they prove that no two holds of a lock
// overlapped. What it proves, and from what, is in docs/audit.md.
//
// Records may come in any order and more than once, if they all come before the first report. A
// log that has positions (see [events.Record.Position]) is judged while it is read. When all living
// agents have told of a time, the holds up to then are judged for good, and forgotten. So such a
// log has to be read in its order, with the records of all agents. What comes too late is named
// in the report.
//
// An Audit must be made by [New] or [Resume] and is not safe for concurrent use.
type Audit struct {
	// Tail is how long after its last sign of life an agent that did not stop is taken to have lived,
	// unless the log shows something else. It may have had holds in that time. The audit takes for
	// granted that such an agent was not cut off from NATS for longer. Defaults to [DefaultTail].
	Tail time.Duration

	// Patience is how long an agent may be silent, while the log goes on, until it counts as dead. Until
	// then nothing is judged that it may still tell of. Defaults to [DefaultPatience].
	Patience time.Duration

	within TimeRange       // that the verdict is about
	cutOff map[string]bool // stores with agents that lived when the log ended, if it has come to its end

	fold   *fold.Fold
	logs   map[lockagent.AgentID]*agentLog
	past   pastAgents
	stores map[string]*storeLog
	locks  map[fold.LockKey]*lockLog
	found  findings

	stream   string // see Checkpoint
	clock    activity
	position uint64 // of the last record
	resumed  uint64 // the position of the checkpoint
	ordered  bool   // the records have positions, and they grew
	late     bool   // the beginning of the log is missing
	kept     int    // semaphores that nobody has permits of, and of which the number is remembered
	lapsed   bool   // the number of one was forgotten
	whole    bool   // each message of the stream is read

	first time.Time   // when the stream took the first message that was read
	lost  MessageHole // the last one

	// origins have, of each stream from which forwarders bring messages, the latest time of each store that these tell
	// of.
	origins map[string]storeTimes

	nowhere  *storeLog       // the store "", which is among the stores only if it has holds
	anywhere []hole          // of agents that had not named their store
	watched  heap[*agentLog] // by the time at which there is something to do about it

	current *agentLog // of the record that is applied now
	latest  *lockLog  // the lock of the last record
	near    *storeLog // and its store
	spare   []*span
}

// New returns an audit of an empty log.
func New() *Audit {
	a := &Audit{
		Tail:     DefaultTail,
		Patience: DefaultPatience,

		fold:    fold.New(),
		logs:    make(map[lockagent.AgentID]*agentLog),
		stores:  make(map[string]*storeLog),
		locks:   make(map[fold.LockKey]*lockLog),
		origins: make(map[string]storeTimes),
		nowhere: &storeLog{},
		ordered: true,
	}
	a.found.Losses = make(map[string]int)
	a.fold.Watch(follower{a})
	return a
}

// BeginsLate says that the beginning of the log is missing: it was retired, or is not read. Then
// the proof holds from where the log begins. Call it before the first Add. A stream of which the
// first messages were retired says so by itself.
func (a *Audit) BeginsLate() { a.late = true }

// Visit adds what a [natslog.Reader] or [events.ReadLines] passes: it is a [events.Visit] that never returns an error.
func (a *Audit) Visit(r *events.Record, err error) error {
	if err != nil {
		a.follow(r)
		a.AddError(err)
	} else {
		a.add(r)
	}
	return nil
}

// AddError notes that something in the log could not be read. An audit with an error proves
// nothing.
func (a *Audit) AddError(err error) { a.found.Unreadable.add(Note(err.Error())) }

// Position is that of the last record. Read on from there: a message may have several records, and the
// last may not have been read to its end. What was read of it is not counted again.
func (a *Audit) Position() uint64 { return a.position }

// Stored is when the stream took the last record, by the clock of its server.
func (a *Audit) Stored() time.Time { return a.clock.Stored }

// Add adds a record.
func (a *Audit) Add(record events.Record) {
	a.add(&record)
}

func (a *Audit) add(r *events.Record) {
	a.follow(r)
	a.hear(r)
	l := a.log(r.Agent)
	l.Heard, l.Stored, l.Later = a.clock.Now, r.Stored, time.Time{}
	e := l.Epochs[r.Epoch]
	switch {
	case e != nil && e == l.current && len(l.pending) == 0 && r.Seq == e.Next:
		a.take(l, r) // most records are the next of their agent
	case e != nil && r.Seq < e.Next:
		a.again(l, e, r)
	case l.wait(r, a.clock.Now):
		a.repeated(l, r)
	default:
		a.drain(l, len(l.pending) > maxPending)
	}
	a.place(l)
}

// hear follows the log as a whole.
func (a *Audit) hear(r *events.Record) {
	before := a.clock.Stored
	second := a.clock.hear(r)
	if a.clock.Quiet == a.clock.Now && a.clock.Stored != before {
		a.quiet(before, a.clock.Stored)
	}
	if second && a.ordered {
		a.overdue()
	}
}

// activity is a clock that runs while a log goes on. Breaks in the log, such as an outage of its
// server, count little: when the log goes on, its agents need a moment to speak again.
type activity struct {
	Now    time.Duration       `json:"now"`
	Stored time.Time           `json:"stored,omitzero"`
	Told   lockagent.StoreTime `json:"told,omitempty"`
	Second time.Duration       `json:"second,omitempty"`
	Quiet  time.Duration       `json:"quiet,omitempty"` // when the last outage was over, or 0
}

// hear reports whether another second has passed.
func (c *activity) hear(r *events.Record) bool {
	if !r.Stored.IsZero() {
		if c.Stored.IsZero() {
			c.Stored = r.Stored
		}
		if step := r.Stored.Sub(c.Stored); step > 0 {
			c.Now += min(step, heartbeat)
			c.Stored = r.Stored
			if step > outage {
				c.Quiet = c.Now
			}
		}
	} else if t := told(r); t > c.Told {
		// What an agent kept back during an outage comes at once, and looks like a time that
		// passed. So this clock runs at half the speed.
		if c.Told != 0 {
			c.Now += min(t.Sub(c.Told), heartbeat) / 2
		}
		c.Told = t
	}
	if c.Now-c.Second < time.Second {
		return false
	}
	c.Second = c.Now
	return true
}

// outage reports whether an outage is so fresh that an agent may still have to tell of it.
func (c *activity) outage(d time.Duration) bool { return c.Quiet != 0 && c.Now-c.Quiet < d }

// told is a time that the clock of the store had reached when the agent recorded r, or 0.
func told(r *events.Record) lockagent.StoreTime {
	if r.Kind == lockagent.EventStoreReset {
		return 0 // the clock may be another one from now on
	}
	return max(r.StoreTime, r.Confirmed, r.Returned)
}

// fresh is a time that the clock of the store showed after the process of the agent had begun, or 0.
func fresh(r *events.Record) lockagent.StoreTime {
	switch {
	case r.Kind == lockagent.EventAlive, r.How == lockagent.ByStore:
		return r.StoreTime
	}
	return r.Returned
}

// named notes which store an agent uses.
func (a *Audit) named(l *agentLog, r *events.Record) {
	if r.Store == "" || r.Store == l.Store {
		return
	}
	if id := a.fold.Store(r.Store); id != l.Store {
		if l.Store == "" {
			a.move(l, id)
		}
		s := a.store(id)
		l.Store, l.Judged, l.Born = id, s.Floor, s.Newest
	}
}

// overdue looks for agents that are silent, and for records that are missing for too long. In a
// log without an order, what is missing may come at the end.
//
// Records that wait are taken first, for they may tell of an earlier time than that which is judged
// then. The order is that of the names, so what is found does not depend on how the agents are kept.
func (a *Audit) overdue() {
	var late []*agentLog
	a.watched.before(int64(a.clock.Now), func(l *agentLog) { late = append(late, l) })
	slices.SortFunc(late, func(x, y *agentLog) int { return cmp.Compare(x.ID, y.ID) })
	silent := func(l *agentLog) bool { return !l.Stopped && !l.Dead && a.clock.Now-l.Heard > a.Patience }
	for _, l := range late {
		if len(l.pending) > 0 && (silent(l) || a.clock.Now-l.Since > recordPatience) {
			a.drain(l, true)
			a.place(l)
		}
	}
	for _, l := range late {
		if silent(l) {
			a.died(l)
			a.place(l)
			a.settle(l.Store)
		}
		a.watched.remove(&l.watch)
		if !a.retire(l) {
			a.place(l)
		}
	}
}

// home is the store of an agent. One that has not named it yet has none.
func (a *Audit) home(l *agentLog) *storeLog {
	if l.Store == "" {
		return a.nowhere
	}
	return a.store(l.Store)
}

// place puts an agent where an audit finds it. An agent that lives is among those of its store. An
// agent that something has to be done about is among all, by the time for that.
func (a *Audit) place(l *agentLog) {
	if home := l.home; home != nil && (home.ID != l.Store || !l.speaks()) {
		home.living.remove(&l.least)
		l.home = nil
	}
	if l.speaks() {
		l.home = a.home(l)
		l.home.living.set(&l.least, l, int64(a.behind(l)))
	}
	// The time may be too early: most agents speak again before it.
	if at := int64(a.next(l)); l.watch.index == 0 || at < l.watch.at {
		a.watched.set(&l.watch, l, at)
	}
}

// take applies the next record of an agent.
func (a *Audit) take(l *agentLog, r *events.Record) {
	e := l.current
	if e != nil && r.Epoch < l.Epoch {
		// Two processes publish as one agent. The fold follows the later one.
		a.found.Late.add(lateRecord(r))
		return
	}
	back := (l.Dead || l.Stopped) && r.Epoch == l.Epoch
	if e == nil || r.Epoch != l.Epoch {
		e = a.turn(l, r)
	}
	if r.Seq != e.Next {
		a.judgeMissing(l, e, r)
	}
	e.note(r)
	a.found.Events++
	a.current = l
	if back {
		a.comesBack(l, r)
	}
	l.Stopped, l.Dead = false, false
	a.named(l, r)
	switch r.Kind {
	case 0:
		a.found.Unknown++
		l.Whole = false
	case lockagent.EventStoreReset:
		a.reset(l, r)
	case lockagent.EventGraceBegan, lockagent.EventGraceEnded:
		a.grace(l, r)
	case lockagent.EventDropped:
		for _, n := range r.Dropped {
			a.found.Dropped += int(n)
		}
	}
	a.fold.Follow(r)
	switch {
	case r.Kind == lockagent.EventAgentStarted:
		e.Process = a.processOf(l)
		l.Whole, l.Kept, l.Free = r.Seq == 1 && r.HasNoHolds(), 0, 0
		a.tells(l, r)
	case r.Kind == lockagent.EventRequested && r.Lock == "":
		// It stands for what the agent recorded of a lock that the audit does not ask for.
		l.Whole, l.Partial, l.Hides = false, true, 0
		a.shows(l, 0)
	}
	a.heard(l, e, r)
}

// heard follows what an agent has told of the clock of the store.
func (a *Audit) heard(l *agentLog, e *epochLog, r *events.Record) {
	if t := told(r); t != 0 {
		l.Told, l.Early = max(l.Told, t), max(l.Early, t)
		s := a.store(l.Store)
		if t > s.Newest {
			s.Newest, s.Heard = t, a.clock.Now
		}
		a.timed(s, t, r.Stored)
		a.toldOf(r, l.Store, t)
	}
	l.Ended = max(l.Ended, r.Until, r.Reset.Before)
	if t := fresh(r); t != 0 {
		l.Timed = true
		a.begunBy(l, t)
	}
	if r.Until != 0 {
		l.Timed = true
		a.bounded(l, r.Until.Add(slack))
	}
	switch r.Kind {
	case lockagent.EventAlive:
		l.Unsigned = false
		a.agrees(l, r)
		a.tells(l, r)
		if r.StoreTime == 0 {
			return
		}
		a.bounded(l, r.StoreTime.Add(aliveLag))
		l.Settled, l.Young = max(l.Settled, r.StoreTime), false
		a.place(l)
		a.settle(l.Store)
	case lockagent.EventAgentStopped:
		a.departed(l, a.home(l).at(r.Stored))
		l.Stopped, e.Stopped = true, true // the next process may go on with a hidden hold
		a.leave(l)
		a.place(l)
		a.settle(l.Store)
	}
}

// log returns the log of an agent.
func (a *Audit) log(id lockagent.AgentID) *agentLog {
	l := a.logs[id]
	if l == nil {
		l = &agentLog{ID: id, Epochs: make(map[uint64]*epochLog), Began: a.clock.Now}
		a.logs[id] = l
		if p, found := a.past.take(id); found {
			a.revive(l, &p)
		} else {
			a.found.Agents++
		}
	}
	return l
}
