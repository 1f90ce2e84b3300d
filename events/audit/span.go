package audit

import (
	"slices"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/fold"
)

// lockLog is what an audit has to remember of one lock.
type lockLog struct {
	fold.LockKey
	Spans  []*span     `json:"spans,omitempty"`
	Breaks []lockBreak `json:"breaks,omitempty"`

	// Of a semaphore: the changes that are still to be judged, in any order, and the number of its permits.
	Changes []permitChange `json:"changes,omitempty"`
	Number  permitNumber   `json:"number,omitzero"`
	kept    bool           // only for the number

	// Mixed says that the name is used as another kind of lock, too. To the store both are one lock.
	Mixed bool `json:"mixed,omitempty"`

	Last *span `json:"last,omitempty"` // that with the greatest token of those that are forgotten

	// Those that may go on: the newest, and earlier ones.
	newest  *span
	earlier map[tenureKey]*span

	due     spot[*lockLog] // see storeLog
	touched bool
}

// live returns a tenure that may go on, or nil.
func (l *lockLog) live(agent lockagent.AgentID, number uint64) *span {
	if s := l.newest; s != nil && s.Tenure == number && s.Agent == agent {
		return s
	}
	if len(l.earlier) == 0 {
		return nil
	}
	return l.earlier[tenureKey{agent, number}]
}

// goOn says that a tenure may go on.
func (l *lockLog) goOn(s *span) {
	if last := l.newest; last != nil {
		if l.earlier == nil {
			l.earlier = make(map[tenureKey]*span)
		}
		l.earlier[tenureKey{last.Agent, last.Tenure}] = last
	}
	l.newest = s
}

// over says that it does not.
func (l *lockLog) over(s *span) {
	if l.newest == s {
		l.newest = nil
	} else if k := (tenureKey{s.Agent, s.Tenure}); l.earlier[k] == s {
		delete(l.earlier, k)
	}
}

// An agent never uses the number of a tenure again. So if two epochs of an agent have the same
// tenure, the next process went on with it, and with its holds.
type tenureKey struct {
	agent  lockagent.AgentID
	number uint64
}

// lockBreak is the end that an operator made of a tenure.
type lockBreak struct {
	At       lockagent.StoreTime `json:"at"`
	Operator string              `json:"operator,omitempty"`
	Deleted  bool                `json:"deleted,omitempty"` // an agent deleted the semaphore

	// Perhaps says that the semaphore may have been deleted from Since up to At.
	Perhaps bool                `json:"perhaps,omitempty"`
	Since   lockagent.StoreTime `json:"since,omitempty"`
}

// span is a tenure with its holds, from its beginning in the store to the end of its last hold. Other
// agents have no part in it, so what they hold is compared with the whole tenure.
type span struct {
	Agent  lockagent.AgentID   `json:"agent"`
	Tenure uint64              `json:"tenure"`
	Start  lockagent.StoreTime `json:"start,omitempty"` // the earliest that its grants tell

	// The last hold ended after Least, and at Until at the latest; 0 if that is not known.
	Least lockagent.StoreTime `json:"least,omitempty"`
	Until lockagent.StoreTime `json:"until,omitempty"`
	// After is a time at which the last of its holds had not begun: the hold before had not ended. It is 0 if there was
	// none.
	After lockagent.StoreTime `json:"after,omitempty"`
	// Lasted is when a hold went on by the clock of its agent, which told so while the hold went on.
	Lasted lockagent.StoreTime `json:"lasted,omitempty"`
	// Told is later than Until if the owner learned of the end late: its process did not run.
	Told lockagent.StoreTime `json:"told,omitempty"`

	Confirmed lockagent.StoreTime `json:"confirmed,omitempty"`
	Lease     time.Duration       `json:"lease,omitempty"`

	Open int `json:"open,omitempty"` // holds that go on
	// If the span is Gone, the lease of the holds is over at LeaseEnd. But the process may have lived until Lived, and
	// a renewal may be lost with the end of its log.
	LeaseEnd lockagent.StoreTime `json:"lease_end,omitempty"`
	Lived    lockagent.StoreTime `json:"lived,omitempty"`

	FirstToken lockagent.Token `json:"first_token,omitempty"`
	LastToken  lockagent.Token `json:"last_token,omitempty"`

	// Exclusive is how many exclusive holds go on. The last exclusive hold that is over ended after AloneLeast, and had
	// ended at Alone, which is 0 if there was none or nobody knows. A tenure that has become shared is shared from then
	// on. AloneToken is the greatest of their tokens.
	Exclusive  int                 `json:"exclusive,omitempty"`
	AloneLeast lockagent.StoreTime `json:"alone_least,omitempty"`
	Alone      lockagent.StoreTime `json:"alone,omitempty"`
	AloneToken lockagent.Token     `json:"alone_token,omitempty"`

	// Of a semaphore. Permits is how many the hold has. Back has those that were given back by their ids.
	// Total is how many there were in all, as the store told. Limit is the number that the hold is judged by.
	Permits int          `json:"permits,omitempty"`
	Back    []permitBack `json:"back,omitempty"`
	Total   int          `json:"total,omitempty"`
	Limit   int          `json:"limit,omitempty"`

	First *piece `json:"first,omitempty"` // the first hold, or nil if it is the last
	Last  piece  `json:"last,omitzero"`   // the hold that ended last, or began last if none has ended

	Begun    int                 `json:"begun,omitempty"` // how many grants began it
	DeniedAt lockagent.StoreTime `json:"denied_at,omitempty"`
	Cut      *piece              `json:"cut,omitempty"`     // a hold without an end, that a later one follows
	Found    []suspect           `json:"suspect,omitempty"` // what it says that cannot be
	Doubt    string              `json:"doubt,omitempty"`   // the first reason why it proves nothing; few have one

	// An audit has tens of thousands of spans. So what is small is here together, and what few have is elsewhere. Each
	// span would be larger by an eighth otherwise.

	HolesBefore uint32 `json:"holes_before,omitempty"` // those that the log of the agent had when it began
	Seen        uint32 `json:"seen,omitempty"`         // those when the next process told that it goes on
	Modes       modes  `json:"modes,omitempty"`
	Gone        bool   `json:"gone,omitempty"`        // the log of the agent has ended before the holds did
	Over        bool   `json:"over,omitempty"`        // the log tells that it was returned, or found over
	Denied      bool   `json:"denied,omitempty"`      // the store said that it was over
	NoEnd       bool   `json:"no_end,omitempty"`      // of a hold the end is missing
	EndMissing  bool   `json:"end_missing,omitempty"` // records of the agent are missing since it began
	Ordered     bool   `json:"ordered,omitempty"`     // its token was compared with the one that began before it
	Rough       bool   `json:"rough,omitempty"`       // Start is too early: the log does not have it
	Late        bool   `json:"late,omitempty"`        // it was told when its time had been judged
	Guilty      bool   `json:"guilty,omitempty"`      // it is the first of a violation
	Excused     bool   `json:"excused,omitempty"`     // a reset explains an overlap of it

	// The grant of a semaphore is Numbered when its Limit is known, and Counted when the permits in use then have been
	// compared with it. It has Excess if they were too many.
	Numbered bool `json:"numbered,omitempty"`
	Unknown  bool `json:"unknown,omitempty"` // how many permits there were
	Counted  bool `json:"counted,omitempty"`
	Excess   bool `json:"excess,omitempty"`
}

// suspect is a contradiction within a hold, unless the clock of the store was set.
type suspect struct {
	Kind ViolationKind       `json:"kind"`
	Hold piece               `json:"hold"`
	By   time.Duration       `json:"by"`
	At   lockagent.StoreTime `json:"at"`
	Why  string              `json:"why"`

	// Unsure says that records of the agent are missing, which may tell that the clock was set.
	Unsure bool `json:"unsure,omitempty"`
}

// modes are those of the holds of a tenure.
type modes uint8

const (
	exclusive modes = 1 << iota
	shared
	strange // a mode that this version does not know
)

func modeOf(m lockagent.Mode) modes {
	switch m {
	case lockagent.Exclusive, "":
		return exclusive
	case lockagent.Shared:
		return shared
	}
	return strange
}

// piece is what a span remembers of one hold, for people.
type piece struct {
	Owner     lockagent.Owner      `json:"owner,omitempty"`
	Who       fold.Who             `json:"who,omitzero"`
	Epoch     uint64               `json:"epoch,omitempty"`
	Seq       uint64               `json:"seq,omitempty"`
	Token     lockagent.Token      `json:"token,omitempty"`
	Mode      lockagent.Mode       `json:"mode,omitempty"`
	From      time.Time            `json:"from,omitzero"`
	Until     time.Time            `json:"until,omitzero"`
	Held      time.Duration        `json:"held,omitempty"`
	Start     lockagent.StoreTime  `json:"start,omitempty"`
	End       lockagent.StoreTime  `json:"end,omitempty"`
	Fixed     bool                 `json:"fixed,omitempty"`
	Kind      lockagent.EventKind  `json:"kind,omitempty"`
	Reason    lockagent.LossReason `json:"reason,omitempty"`
	Operator  string               `json:"operator,omitempty"`
	Incarnate string               `json:"incarnation,omitempty"`
}

func pieceOf(h *fold.Hold) piece {
	return piece{
		Owner: h.Owner, Who: h.Who, Epoch: h.Epoch, Seq: h.Seq, Token: h.Token, Mode: h.Mode, From: h.From, Until: h.Until,
		Held: h.Held, Start: h.Start, Fixed: h.Fixed, Incarnate: h.Incarnation,
	}
}

// first is the first hold of the tenure, with its end if that is known.
func (s *span) first() *piece {
	if s.First == nil {
		return &s.Last
	}
	return s.First
}

// hold is the hold of a piece, as reports tell it.
func (a *Audit) hold(key fold.LockKey, s *span, p *piece) fold.Hold {
	h := fold.Hold{
		LockKey: key, Agent: s.Agent, Tenure: s.Tenure, Owner: p.Owner, Who: p.Who, Epoch: p.Epoch, Seq: p.Seq,
		Token: p.Token, Mode: p.Mode, From: p.From, Until: p.Until, Held: p.Held, Start: p.Start, End: p.End, Fixed: p.Fixed,
		Ended: p.Kind, Reason: p.Reason,
		Operator: p.Operator, Incarnation: p.Incarnate, Lease: s.Lease, Confirmed: s.Confirmed,
	}
	if key.HasPermits() {
		if h.Total = s.Total; s.Permits > 1 {
			h.Permits = s.Permits
		}
	}
	if p.Token == s.Last.Token && p.Kind != 0 {
		h.End = s.Until
	}
	h.Gone = p.Kind == 0 && s.Gone && a.gone(s, p.Token)
	h.Process = a.process(s.Agent, p.Epoch)
	return h
}

// gone reports whether no process goes on with a hold, as far as the log tells.
func (a *Audit) gone(s *span, token lockagent.Token) bool {
	if l := a.logs[s.Agent]; l != nil {
		for _, h := range a.fold.Holds(l.ID) {
			if h.Tenure == s.Tenure && h.Token == token {
				return h.Gone
			}
		}
	}
	return true
}

// processOf is where the present process of an agent runs.
func (a *Audit) processOf(l *agentLog) fold.Process {
	s, _ := a.fold.Agent(l.ID)
	return s.Process
}

// process is where an agent ran in an epoch, if the audit remembers it.
func (a *Audit) process(id lockagent.AgentID, epoch uint64) fold.Process {
	if l := a.logs[id]; l != nil {
		if e := l.Epochs[epoch]; e != nil {
			return e.Process
		}
		return fold.Process{}
	}
	if p := a.past.with(id)[id]; p.Epoch == epoch {
		return p.Process
	}
	return fold.Process{}
}

// lock returns what the audit remembers of a lock.
func (a *Audit) lock(key fold.LockKey) *lockLog {
	if a.latest != nil && a.latest.LockKey == key {
		a.touch(a.latest)
		return a.latest
	}
	l := a.locks[key]
	if l == nil {
		l = &lockLog{LockKey: key}
		a.locks[key] = l
		a.mixes(l)
		key.Store = "" // another identity of the store may turn up
		a.count(a.store(l.Store), keySum(key))
	}
	a.latest = l
	a.touch(l)
	return l
}

// mixes finds that a name is used as two kinds of lock which exclude each other.
func (a *Audit) mixes(l *lockLog) {
	if !l.Excludes() {
		return
	}
	for _, kind := range lockagent.LockKinds() {
		key := fold.LockKey{Store: l.Store, Kind: kind, Lock: l.Lock}
		if other := a.locks[key]; key.Excludes() && other != nil && other != l {
			l.Mixed, other.Mixed = true, true
		}
	}
}

// newSpan begins a tenure with its first hold.
func (a *Audit) newSpan(lock *lockLog, h *fold.Hold) *span {
	var s *span
	if n := len(a.spare); n > 0 {
		s, a.spare = a.spare[n-1], a.spare[:n-1]
	} else {
		s = new(span)
	}
	*s = span{
		Agent: h.Agent, Tenure: h.Tenure, Start: h.Start, Least: h.Start, Confirmed: h.Confirmed, Lease: h.Lease,
		HolesBefore: a.logs[h.Agent].Holes, FirstToken: h.Token, LastToken: h.LastToken(), Modes: modeOf(h.Mode),
		Last:  pieceOf(h),
		Total: h.Total,
	}
	if lock.HasPermits() {
		s.Permits = permitsOf(h)
	}
	s.beginAlone(h)
	s.Late = a.toldLate(h, h.Start)
	if h.Start < a.store(h.Store).Floor {
		a.recount(lock, h.Start)
	}
	lock.Spans = append(lock.Spans, s)
	lock.goOn(s)
	l := a.logs[s.Agent]
	l.spans++
	l.Kept++
	return s
}

// beginAlone and endAlone note an exclusive hold of the tenure, and its end.
func (s *span) beginAlone(h *fold.Hold) {
	if modeOf(h.Mode) == exclusive {
		s.Exclusive++
		s.AloneToken = max(s.AloneToken, h.LastToken())
		s.AloneLeast = max(s.AloneLeast, h.Start)
	}
}

func (s *span) endAlone(h *fold.Hold, least, until lockagent.StoreTime) {
	if modeOf(h.Mode) == exclusive && until != 0 {
		s.Exclusive--
		s.AloneLeast, s.Alone = max(s.AloneLeast, min(least, until)), max(s.Alone, until)
	}
}

// sharedBy is when the tenure had no exclusive hold any more, so that readers of other agents may have joined it. It is
// 0 if the tenure has not become shared, or if nobody knows when.
func (s *span) sharedBy() lockagent.StoreTime {
	if s.Modes != exclusive|shared || s.Exclusive != 0 {
		return 0
	}
	return s.Alone
}

// toldLate reports whether something may be forgotten that a hold has to be compared with, if the log tells only now
// that it was held since a time.
func (a *Audit) toldLate(h *fold.Hold, since lockagent.StoreTime) bool {
	store := a.store(h.Store)
	return since < store.Floor && store.Floor > store.From && store.forgot(h.LockKey, h.Agent, since)
}

// outlasts notes that a hold goes on when the log of its agent has ended. Others were compared with it up to the end of
// its lease.
func (a *Audit) outlasts(h *fold.Hold, s *span) {
	if s.Gone {
		s.Late = s.Late || a.toldLate(h, s.LeaseEnd)
		a.recount(a.lock(h.LockKey), s.LeaseEnd)
	}
}

// leave notes that the log of an agent has ended while it had holds. Their leases are over at the
// latest when those are over of which the log knows.
func (a *Audit) leave(l *agentLog) {
	state, _ := a.fold.Agent(l.ID)
	for _, h := range a.fold.Holds(l.ID) {
		s := a.spanOf(h)
		if s == nil || s.Gone {
			continue
		}
		last := s.Least // that shows the hold
		s.EndMissing = s.EndMissing || s.endMissing(l)
		if !s.EndMissing {
			s.Least = max(s.Least, l.Settled)
			last = max(s.Least, l.low(), l.Ended)
		}
		s.Gone, s.LeaseEnd, s.Lived = true, 0, 0
		then := *h
		then.Confirmed, then.Lease = s.Confirmed, s.Lease
		confirmed, lease := state.Renewed(&then)
		if confirmed != 0 {
			s.LeaseEnd = confirmed.Add(lease)
			if s.LeaseEnd < last {
				// It went on for longer. Either the log does not tell of a renewal: a reset came before the
				// next sign of life. Or the process did not run. So the end is less certain at both sides.
				s.Least, s.LeaseEnd = min(s.Least, s.LeaseEnd), last.Add(lease)
			}
		}
	}
	a.fold.SetGone(l.ID, true)
}

// endMissing reports whether the end of a hold that goes on, as far as the log tells, may be among records that are
// missing.
func (s *span) endMissing(l *agentLog) bool { return max(s.HolesBefore, s.Seen) != l.Holes }

// livedOn notes up to when the process of an agent may have lived, and renewed the leases that were not over.
func (a *Audit) livedOn(l *agentLog, w *hole) {
	for _, h := range a.fold.Holds(l.ID) {
		if s := a.spanOf(h); s != nil && s.Gone && s.LeaseEnd >= w.Low && h.Renewable() {
			a.recount(a.lock(h.LockKey), s.LeaseEnd)
			if s.Lived = max(s.Lived, w.High); s.Lived == endOfTime {
				s.LeaseEnd, s.Lived = 0, 0 // nobody knows when it was over
			}
		}
	}
}

// believed is up to when an owner may have believed that it had the lock, if that is later than the end of its lease.
func (s *span) believed() lockagent.StoreTime {
	if s.Open > 0 && s.Gone {
		return max(s.Told, s.Lived)
	}
	return s.Told
}

// goesOn notes that a hold goes on, perhaps in another process, and returns its tenure, or nil if its kind is not
// judged.
func (a *Audit) goesOn(h *fold.Hold) *span {
	s := a.spanOf(h)
	switch {
	case s != nil:
		a.outlasts(h, s)
		s.Gone = false
	case judged(h.LockKey):
		s = a.anew(h)
	}
	return s
}

// hasAll reports whether the log has all that an agent did since a tenure began, or nil.
func (a *Audit) hasAll(s *span) bool {
	return s != nil && !s.Rough && s.HolesBefore == a.logs[s.Agent].Holes
}

// anew begins a tenure once more that was judged until its lease was over, for a hold of it went on. It is not proven.
func (a *Audit) anew(h *fold.Hold) *span {
	same := func(o NamedHold) bool { return o.Agent == h.Agent && o.Tenure == h.Tenure && o.LockKey == h.LockKey }
	if slices.ContainsFunc(a.found.OpenHolds.First, same) {
		a.found.OpenHolds.remove(same)
	}
	s := a.newSpan(a.lock(h.LockKey), h)
	s.Open, s.Rough = 1, true
	s.doubt("it was judged until its lease was over, and went on")
	for _, x := range a.fold.Holds(h.Agent) {
		if x != h && x.Tenure == h.Tenure && x.LockKey == h.LockKey {
			s.Open++
			s.Modes |= modeOf(x.Mode)
			s.Confirmed, s.Lease = max(s.Confirmed, x.Confirmed), max(s.Lease, x.Lease)
			s.FirstToken, s.LastToken = min(s.FirstToken, x.Token), max(s.LastToken, x.LastToken())
		}
	}
	return s
}

// comesBack notes that an agent goes on that had counted as dead, or had stopped. Its holds go on. What was judged
// without it stays judged. So nothing is proven of the time that has been judged since all was known that the agent
// did.
func (a *Audit) comesBack(l *agentLog, r *events.Record) {
	late := lateRecord(r)
	late.Dead, late.In = true, a.judgedWithout(l)
	a.found.Late.add(late)
	for _, h := range a.fold.Holds(l.ID) {
		a.goesOn(h)
	}
	a.fold.SetGone(l.ID, false)
}

// judgedWithout is what has been judged of the time of which the log does not have all that an agent did. If it has not
// named its store, it may have had holds in any.
func (a *Audit) judgedWithout(l *agentLog) (all []Stretch) {
	for _, s := range sorted(a.stores) {
		if low := max(0, l.hidden()); (l.Store == s.ID || l.Store == "") && low < s.Floor {
			all = append(all, Stretch{s.ID, low, s.Floor})
		}
	}
	return all
}

// spanOf returns the tenure of a hold that goes on, or nil if it is not judged.
func (a *Audit) spanOf(h *fold.Hold) *span {
	if lock := a.locks[h.LockKey]; lock != nil {
		a.touch(lock)
		return lock.live(h.Agent, h.Tenure)
	}
	return nil
}

// mostNames bounds how many locks of a store are counted.
const mostNames = 10_000

// count counts a lock of a store, once.
func (a *Audit) count(s *storeLog, name uint64) {
	switch {
	case s.Names[name]:
	case len(s.Names) == mostNames:
		a.found.MoreLocks = true
	default:
		if s.Names == nil {
			s.Names = make(map[uint64]bool)
		}
		s.Names[name] = true
	}
}
