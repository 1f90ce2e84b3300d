package events

import (
	"cmp"
	"maps"
	"slices"

	"github.com/lockagent/lockagent"
)

// Audit folds the records of all agents and shows whether they prove that no two
// holds of a lock overlapped.
//
// An agent that goes on in another process has a log of each epoch. They are read as
// one where a tenure goes on.
//
// The proof rests on what each agent says about itself in order, and on the
// clock of the store, the one clock that all agents share:
//
//   - Within one agent a hold must have ended before the next one was granted, by
//     the sequence of the agent's own events.
//   - Between agents, a hold must have ended before the store began the tenure of
//     the next: the latest time at which it can have ended must not lie after the
//     store's grant. That time is when the agent knew that it had ended, or when
//     the store took the tenure back, whichever came first; while the log may
//     still tell of the second, the first alone is held against nobody.
//   - The tokens of a lock must all be different, and grow with the time of the
//     grants.
//
// A reset of the store explains an overlap of two holds if it lies between the
// incarnations that confirmed them. The agents may notice it at different times.
//
// Holds of different agents are put in the order of their tokens. The order in
// which records are added does not matter, and repetitions do not either.
//
// An Audit keeps some hundred bytes for each hold. It must be made by [NewAudit]
// and is not safe for concurrent use.
type Audit struct {
	logs  map[logKey]*log
	locks map[lockagent.Name]*lockLog
	texts map[string]string // one copy of each

	counts          Counts
	unreadable      int
	unreadableNames []string // the first of them
}

// maxUnreadable bounds how many unreadable messages a report names.
const maxUnreadable = 10

// logKey names the log of one agent in one epoch.
type logKey struct {
	agent lockagent.AgentID
	epoch uint64
}

func (k logKey) compare(other logKey) int {
	return cmp.Or(cmp.Compare(k.agent, other.agent), cmp.Compare(k.epoch, other.epoch))
}

type log struct {
	logKey
	seen    ranges
	stopped uint64       // sequence of EventAgentStopped, or 0
	resets  []StoreReset // as the agent noticed them
}

// The facts that an audit keeps of each lock. Each has the log that it is from
// and the sequence in that log.
type (
	fact struct {
		log    *log
		seq    uint64
		tenure uint64
	}
	grant struct {
		fact
		token       lockagent.Token
		how         lockagent.How
		storeTime   lockagent.StoreTime
		incarnation string
	}
	ending struct {
		fact
		token  lockagent.Token
		kind   lockagent.EventKind
		reason lockagent.LossReason
		until  lockagent.StoreTime
	}
	reentry struct {
		fact
		token lockagent.Token
	}
	returned struct {
		fact
		storeTime lockagent.StoreTime // 0 if the store found the tenure over, since whenever
	}
)

func compareFacts(a, b fact) int {
	return cmp.Or(a.log.compare(b.log.logKey), cmp.Compare(a.seq, b.seq))
}

// before reports whether one agent recorded f before other.
func (f fact) before(other fact) bool { return compareFacts(f, other) < 0 }

func (f fact) tenureKey() tenureKey { return tenureKey{f.log.agent, f.tenure} }

// gap reports whether the agent may have recorded something between two facts that
// the log does not have.
func gap(from, to fact) bool {
	if from.log == to.log {
		_, hole := from.log.seen.hole(from.seq, to.seq)
		return hole
	}
	last := from.log.seen.last()
	_, tail := from.log.seen.hole(from.seq, last)
	_, head := to.log.seen.hole(0, to.seq)
	return tail || from.log.stopped != last || head
}

// lockLog is what is known of one lock.
type lockLog struct {
	breaks    []lockagent.StoreTime // of holds elsewhere, by operators
	grants    []grant
	endings   []ending
	reentries []reentry
	returns   []returned
}

// NewAudit returns an audit of an empty log.
func NewAudit() *Audit {
	return &Audit{
		logs:   make(map[logKey]*log),
		locks:  make(map[lockagent.Name]*lockLog),
		texts:  make(map[string]string),
		counts: Counts{Losses: make(map[string]int)},
	}
}

// Visit adds what a [Reader] or [ReadLines] passes: it is a [Visit] that never
// returns an error.
func (a *Audit) Visit(r Record, err error) error {
	if err != nil {
		a.AddError(err)
	} else {
		a.Add(r)
	}
	return nil
}

// AddError notes that something in the log could not be read. An audit with an
// error proves nothing.
func (a *Audit) AddError(err error) {
	a.unreadable++
	if len(a.unreadableNames) < maxUnreadable {
		a.unreadableNames = append(a.unreadableNames, err.Error())
	}
}

// Add adds a record.
func (a *Audit) Add(r Record) {
	key := logKey{r.Agent, r.Epoch}
	l := a.logs[key]
	if l == nil {
		l = &log{logKey: key}
		a.logs[key] = l
	}
	if !l.seen.add(r.Seq) {
		a.counts.Duplicates++
		return
	}
	a.counts.Events++
	f := fact{log: l, seq: r.Seq, tenure: r.Tenure}
	switch {
	case r.Kind == lockagent.EventAgentStopped:
		l.stopped = r.Seq
	case r.Kind == lockagent.EventStoreReset:
		l.resets = append(l.resets, StoreReset(r.Reset))
	case r.Kind == lockagent.EventGranted:
		a.counts.Grants++
		if r.How == lockagent.ByHandOff {
			a.counts.HandOffs++
		}
		lock := a.lock(r.Lock)
		lock.grants = append(lock.grants, grant{f, r.Token, r.How, r.StoreTime, a.text(r.Incarnation)})
	case r.Kind == lockagent.EventReentered:
		lock := a.lock(r.Lock)
		lock.reentries = append(lock.reentries, reentry{f, r.Token})
	case r.Kind == lockagent.EventReturned:
		at := r.StoreTime
		if r.Reason != 0 {
			at = 0
		}
		lock := a.lock(r.Lock)
		lock.returns = append(lock.returns, returned{f, at})
	case r.Kind == lockagent.EventBroken && r.Token == 0:
		lock := a.lock(r.Lock)
		lock.breaks = append(lock.breaks, r.StoreTime)
	case r.Kind.EndsHold() && r.Count == 0:
		if r.Kind != lockagent.EventReleased {
			a.counts.Losses[lossOf(r.Kind, r.Reason)]++
		}
		lock := a.lock(r.Lock)
		lock.endings = append(lock.endings, ending{f, r.Token, r.Kind, r.Reason, r.Until})
	}
}

// lossOf is the word under which the end of a hold is counted that was not a
// release.
func lossOf(kind lockagent.EventKind, reason lockagent.LossReason) string {
	if reason == 0 {
		return kind.String()
	}
	return reason.String()
}

func (a *Audit) lock(name lockagent.Name) *lockLog {
	l := a.locks[name]
	if l == nil {
		l = &lockLog{}
		a.locks[name] = l
	}
	return l
}

func (a *Audit) text(s string) string {
	if _, ok := a.texts[s]; !ok {
		a.texts[s] = s
	}
	return a.texts[s]
}

// Report judges what was added so far. More may be added afterwards.
func (a *Audit) Report() Report {
	r := Report{Counts: a.counts, Unreadable: a.unreadable, UnreadableNames: slices.Clone(a.unreadableNames)}
	r.Losses = maps.Clone(a.counts.Losses)
	agents := make(map[lockagent.AgentID]bool)
	for _, key := range slices.SortedFunc(maps.Keys(a.logs), logKey.compare) {
		l := a.logs[key]
		agents[key.agent] = true
		slices.SortFunc(l.resets, StoreReset.compare)
		r.Resets = append(r.Resets, l.resets...)
		for _, hole := range l.seen.holes() {
			r.Gaps = append(r.Gaps, Gap{Agent: key.agent, Epoch: key.epoch, Range: hole})
		}
		if last := l.seen.last(); l.stopped != last {
			r.OpenEnds = append(r.OpenEnds, OpenEnd{Agent: key.agent, Epoch: key.epoch, Last: last})
		}
	}
	r.Agents, r.Locks = len(agents), len(a.locks)
	slices.SortFunc(r.Resets, StoreReset.compare)
	r.Resets = slices.Compact(r.Resets)
	resets := newResets(r.Resets)
	for _, name := range slices.Sorted(maps.Keys(a.locks)) {
		newJudge(name, a.locks[name], resets, &r).judge()
	}
	return r.withVerdict()
}
