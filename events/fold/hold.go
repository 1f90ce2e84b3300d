package fold

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
)

// LockKey names a lock among those of all stores.
type LockKey struct {
	Store string             `json:"store,omitempty"` // the identity of the store, empty if the log does not say it
	Kind  lockagent.LockKind `json:"lock_kind,omitempty"`
	Lock  lockagent.Name     `json:"lock"`
}

// KeyOf names the lock that a record is about, of a store by that identity. A record that does not say the kind of the
// lock is about a plain lock.
func KeyOf(store string, r *events.Record) LockKey {
	return LockKey{store, lockKind(r.LockKind), r.Lock}
}

// lockKind is the kind of a lock. A log that does not say it is about plain locks.
func lockKind(k lockagent.LockKind) lockagent.LockKind {
	if k == "" {
		return lockagent.PlainLock
	}
	return k
}

// Excludes reports whether exclusive holds of the lock keep all others out. To the store, locks with one name are one
// lock, of whichever kind that does so they are.
func (k LockKey) Excludes() bool {
	switch k.Kind {
	case lockagent.PlainLock, lockagent.FairLock, lockagent.FencedLock, lockagent.SpinLock, lockagent.ReadWriteLock:
		return true
	}
	return false
}

// HasPermits reports whether the holds of the lock are permits: several go on side by side, and no more are in use than
// there are.
func (k LockKey) HasPermits() bool {
	return k.Kind == lockagent.Semaphore || k.Kind == lockagent.Permits
}

// Compare compares two locks by their names, then by their kinds and stores.
func (k LockKey) Compare(other LockKey) int {
	return cmp.Or(cmp.Compare(k.Lock, other.Lock), cmp.Compare(k.Kind, other.Kind), cmp.Compare(k.Store, other.Store))
}

// Hold is one hold of a lock, as a log tells of it. Times of the wall are those of the holder's
// machine, and for people. Times of the store are on the clock of the store, and can be
// compared. Either is zero if the log does not say it.
type Hold struct {
	LockKey
	Owner   lockagent.Owner   `json:"owner,omitempty"`
	Who     Who               `json:"who,omitzero"` // asked for it; the owner may be of another process than the agent
	Agent   lockagent.AgentID `json:"agent"`
	Process Process           `json:"process,omitzero"` // of the agent
	Epoch   uint64            `json:"epoch"`
	Seq     uint64            `json:"seq"` // of the first record that tells of it: most often that of its grant
	Request uint64            `json:"request,omitempty"`
	Tenure  uint64            `json:"tenure,omitempty"`
	Token   lockagent.Token   `json:"token,omitempty"`
	Mode    lockagent.Mode    `json:"mode,omitempty"`
	How     lockagent.How     `json:"-"`
	Grants  int               `json:"grants,omitempty"` // that the owner has

	// Permits is how many permits of a semaphore it has, where 0 is 1, and Total how many there were when the
	// store granted them, or 0.
	Permits int `json:"permits,omitempty"`
	Total   int `json:"total,omitempty"`

	// Replicas is how many replicas of the store were known to have it when it was granted, or 0 if the store does not
	// ask them.
	Replicas int `json:"replicas,omitempty"`

	// Holds is how many holds the owner could make of the grant, one after the other, where 0 is 1. They have the
	// tokens from Token on.
	Holds int `json:"holds,omitempty"`

	// From and Until are times of the wall. Until is zero while the lock is held.
	From  time.Time `json:"from,omitzero"`
	Until time.Time `json:"until,omitzero"`

	// Behind had the lock when the request was queued. It is nil if the log does not say that.
	Behind *Party `json:"behind,omitempty"`

	// Waited leads from the request to the grant, Held from the grant to the end.
	Waited time.Duration `json:"-"`
	Held   time.Duration `json:"-"`

	// Start is when the store began the tenure of the hold, or had confirmed it last when the
	// hold began. End is the latest store time at which the hold can have ended.
	Start lockagent.StoreTime `json:"start_us,omitempty"`
	End   lockagent.StoreTime `json:"end_us,omitempty"`

	// Lease is what the store has confirmed last, at Confirmed at the latest that is known. If the log
	// does not say it of this hold, it is the lease that its agent keeps.
	Lease       time.Duration       `json:"-"`
	Fixed       bool                `json:"fixed,omitempty"`
	Confirmed   lockagent.StoreTime `json:"confirmed_us,omitempty"`
	Incarnation string              `json:"incarnation,omitempty"`

	// Uncertain is since when renewals fail, in times of the wall, or zero.
	Uncertain time.Time `json:"uncertain,omitzero"`

	// Ended is how it ended: 0 while the lock is held. Reason says more of a loss.
	// Operator broke the lock.
	Ended    lockagent.EventKind  `json:"-"`
	Reason   lockagent.LossReason `json:"-"`
	Operator string               `json:"operator,omitempty"`
	Err      string               `json:"error,omitempty"`

	// Gone says that the log of the agent ended while it held the lock: it has crashed, or has
	// left the hold to another process. Then the hold is over at LeaseEnd, unless the agent goes on.
	Gone bool `json:"gone,omitempty"`

	// Left says that its agent closed its locks, and left its lease in the store: nobody is granted the lock until
	// LeaseEnd.
	Left bool `json:"left,omitempty"`

	// Superseded says that the log does not have its end, though it is over: the lock was granted
	// to another owner since. It was over at End at the latest: when its lease ended, or when the
	// next tenure began. End is 0 if the log says neither. If the owner is of another agent, the
	// end may still come.
	Superseded bool `json:"superseded,omitempty"`

	stray  bool      // the log has its end, but not its grant
	shares int       // how many of the grants of an exclusive hold are shared
	told   time.Time // when the stream took the last record which says that it begins, or goes on
}

// Process is a [lockagent.Process] as reports write it.
type Process struct {
	Host    string `json:"host,omitempty"`
	Program string `json:"program,omitempty"`
	Version string `json:"version,omitempty"`
	PID     int    `json:"pid,omitempty"`
	User    string `json:"user,omitempty"`
	Command string `json:"command,omitempty"`
}

// LastToken is the greatest token that the owner may have used.
func (h *Hold) LastToken() lockagent.Token { return h.Token + lockagent.Token(max(1, h.Holds)-1) }

// LeaseEnd is the time on the clock of the store at which the lease of h is over, unless there
// was another renewal. It is 0 if the log does not say that.
func (h *Hold) LeaseEnd() lockagent.StoreTime {
	confirmed := max(h.Confirmed, h.Start)
	if confirmed == 0 || h.Lease == 0 {
		return 0
	}
	return confirmed.Add(h.Lease)
}

// Waiter is a request that waits for a lock. A log tells only of requests that wait for a while.
type Waiter struct {
	Agent   lockagent.AgentID `json:"agent"`
	Owner   lockagent.Owner   `json:"owner,omitempty"`
	Who     Who               `json:"who,omitzero"`
	Request uint64            `json:"request"`
	Mode    lockagent.Mode    `json:"mode,omitempty"`
	Since   time.Time         `json:"since,omitzero"` // by the wall clock of the agent

	// Holder had the lock when the request was queued: an owner of the same agent, or what
	// the store knows. It is empty if the log does not say that. Behind is who that is.
	Holder string `json:"holder,omitempty"`
	Behind *Party `json:"behind,omitempty"`
}

// LockState is what a log tells of one lock at one time.
type LockState struct {
	LockKey
	Holders []Hold   `json:"holders,omitempty"` // the holds that have no end in the log: see Now
	Waiters []Waiter `json:"waiters,omitempty"` // in the order of their arrival at each agent

	// Left are holds that are over, but left their lease in the store. A Fold has no clock, so that may be over, too.
	Left []Hold `json:"left,omitempty"`
}

// Now returns the holders of which nothing shows that they hold the lock no more: those that are not
// superseded.
func (s LockState) Now() (all []Hold) {
	for i := range s.Holders {
		if !s.Holders[i].Superseded {
			all = append(all, s.Holders[i])
		}
	}
	return all
}

// AgentState is what a log tells of one agent at one time.
type AgentState struct {
	Agent   lockagent.AgentID `json:"agent"`
	Epoch   uint64            `json:"epoch"`
	Seq     uint64            `json:"seq"` // its last record
	Process Process           `json:"process,omitzero"`
	Store   string            `json:"store,omitempty"`
	Stopped bool              `json:"stopped"`
	Time    time.Time         `json:"time,omitzero"`  // of the last record, by its wall clock
	Alive   time.Time         `json:"alive,omitzero"` // likewise, of the last record that says it is alive

	// Settled is a time on the clock of the store. The log has all that the agent did before.
	Settled lockagent.StoreTime `json:"settled_us,omitempty"`
	// Confirmed is the latest renewal of any of its tenures. At that time and Lease all leases are over
	// that were renewed until then. Lease is at least the one that the agent keeps, as far as the log says it.
	Confirmed lockagent.StoreTime `json:"confirmed_us,omitempty"`
	Lease     time.Duration       `json:"lease_ns,omitempty"`
}

// holdFields are the fields of a Hold that have another form in JSON.
type holdFields struct {
	*plainHold
	How      string `json:"how,omitempty"`
	WaitedUS int64  `json:"waited_us,omitempty"`
	HeldUS   int64  `json:"held_us,omitempty"`
	LeaseUS  int64  `json:"lease_us,omitempty"`
	Ended    string `json:"ended,omitempty"`
	Reason   string `json:"reason,omitempty"`
}

type plainHold Hold

// MarshalJSON implements [json.Marshaler]. Durations are in microseconds, as in the log.
func (h Hold) MarshalJSON() ([]byte, error) {
	f := holdFields{
		plainHold: (*plainHold)(&h), How: h.How.String(), WaitedUS: h.Waited.Microseconds(),
		HeldUS: h.Held.Microseconds(), LeaseUS: h.Lease.Microseconds(), Reason: h.Reason.String(),
	}
	if h.Ended != 0 {
		f.Ended = h.Ended.String()
	}
	return json.Marshal(f)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (h *Hold) UnmarshalJSON(b []byte) error {
	f := holdFields{plainHold: (*plainHold)(h)}
	if err := json.Unmarshal(b, &f); err != nil {
		return err
	}
	h.Waited, h.Held, h.Lease = micros(f.WaitedUS), micros(f.HeldUS), micros(f.LeaseUS)
	h.How = 0
	for _, how := range []lockagent.How{lockagent.ByStore, lockagent.ByHandOff, lockagent.ByRest} {
		if how.String() == f.How {
			h.How = how
		}
	}
	h.Ended, _ = lockagent.ParseEventKind(f.Ended)
	h.Reason, _ = lockagent.ParseLossReason(f.Reason)
	if f.Reason == lockagent.LostUnknown.String() {
		h.Reason = lockagent.LostUnknown
	}
	return nil
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
