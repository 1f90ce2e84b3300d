// Package wire writes events as JSON. A fact is an event in little space; facts of one lock that follow each other are
// written as a table.
package wire

import (
	"time"

	"github.com/lockagent/lockagent"
)

// Fact is an event as the queue keeps it: a third as large. A busy agent records on one processor, and the
// sender reads on another, so each line of memory costs both of them time. What most events do not have
// lies elsewhere, and so does what an event has in common with one before it.
//
// The agent of an event is that of the publisher, and its Link is not in the log.
type Fact struct {
	Common *Common
	More   *More // or nil

	Kind   lockagent.EventKind
	How    lockagent.How
	Reason lockagent.LossReason
	Fixed  bool

	nanosecond int32 // of the time
	second     int64 // since 1970

	Count                                 int
	Owner                                 lockagent.Owner
	Who                                   lockagent.Who
	TraceParent                           string
	Request, Tenure                       uint64
	Token                                 lockagent.Token
	Waited, Held, Lease                   time.Duration
	StoreTime, Until, Confirmed, Returned lockagent.StoreTime
}

// Common is what many events of one lock have in common, such as its grants. It never changes.
type Common struct {
	Store       string
	Lock        lockagent.Name
	LockKind    lockagent.LockKind
	Mode        lockagent.Mode
	Incarnation string
	Permits     int
	Total       int
	Replicas    int
	Holds       int
}

// More is what few events have. It does not change while a record has it.
type More struct {
	Holder, Operator, Err string
	Waiters               int
	Remaining             time.Duration
	Op                    lockagent.PermitsOp
	Permit                lockagent.PermitID
	Reset                 lockagent.Reset
	Process               lockagent.Process
	Sum                   uint64
	Grace                 *lockagent.GracePeriod
}

// Set makes f the fact of e, with what e has in common with others, and what few have, or nil. Each field of an
// Event has its place here and in event, see TestFactKeepsAll.
func (f *Fact) Set(e *lockagent.Event, c *Common, m *More) {
	f.Common, f.More = c, m
	f.Kind, f.How, f.Reason, f.Fixed = e.Kind, e.How, e.Reason, e.Fixed
	f.second, f.nanosecond = e.Time.Unix(), int32(e.Time.Nanosecond())
	f.Count, f.Owner, f.Who, f.TraceParent = e.Count, e.Owner, e.Who, e.TraceParent
	f.Request, f.Tenure, f.Token = e.Request, e.Tenure, e.Token
	f.Waited, f.Held, f.Lease = e.Waited, e.Held, e.Lease
	f.StoreTime, f.Until, f.Confirmed, f.Returned = e.StoreTime, e.Until, e.Confirmed, e.Returned
}

func CommonOf(e *lockagent.Event) Common {
	return Common{e.Store, e.Lock, e.LockKind, e.Mode, e.Incarnation, e.Permits, e.Total, e.Replicas, e.Holds}
}

// Of reports whether e has this in common with others.
func (c *Common) Of(e *lockagent.Event) bool {
	return c.Lock == e.Lock && c.Store == e.Store && c.LockKind == e.LockKind && c.Mode == e.Mode &&
		c.Incarnation == e.Incarnation &&
		c.Permits == e.Permits && c.Total == e.Total && c.Replicas == e.Replicas && c.Holds == e.Holds
}

// FactOf returns the fact of e, which shares nothing with others.
func FactOf(e *lockagent.Event) (f Fact) {
	c := CommonOf(e)
	var m *More
	if HasMore(e) {
		few := MoreOf(e)
		m = &few
	}
	f.Set(e, &c, m)
	return f
}

// HasMore reports whether e has something that few events have.
func HasMore(e *lockagent.Event) bool {
	return e.Holder != "" || e.Operator != "" || e.Err != "" || e.Waiters != 0 || e.Remaining != 0 || e.Op != "" ||
		e.Permit != "" ||
		e.Reset != (lockagent.Reset{}) || e.Process != (lockagent.Process{}) || e.Sum != 0 || e.Grace != nil
}

func MoreOf(e *lockagent.Event) More {
	return More{e.Holder, e.Operator, e.Err, e.Waiters, e.Remaining, e.Op, e.Permit, e.Reset, e.Process, e.Sum, e.Grace}
}

// graceSize is half of what a grace period takes beside its texts.
const graceSize = 80

// Size is about how many bytes the record of f has in a batch, and never less than half of them. All but these texts
// takes at most 880 bytes, 80 more if it is about permits, and 100 more if it has a Who. A byte of a text takes up to
// six.
func (f *Fact) Size() int {
	c := f.Common
	texts := c.bytes() + len(c.Lock) + len(f.Owner) + len(f.TraceParent)
	fixed := 440
	if c.Permits != 0 || c.Total != 0 || f.Kind == lockagent.EventPermits {
		fixed += 40
	}
	if m := f.More; m != nil {
		r, p := &m.Reset, &m.Process
		texts += len(m.Holder) + len(m.Operator) + len(m.Err) + len(m.Op) + len(m.Permit) + len(r.From) + len(r.To) +
			len(r.Reason) + len(r.Store) +
			len(p.Host) + len(p.Program) + len(p.Version) + len(p.User) + len(p.Command)
		if g := m.Grace; g != nil {
			texts += len(g.Incarnation) + len(g.Reason)
			fixed += graceSize + 2*len(g.Roll)
			for _, agent := range g.Roll {
				texts += len(agent)
			}
		}
	}
	return fixed + 3*texts + whoSize(f.Who)
}

// RowSize is the same of f as a row of a table.
func (f *Fact) RowSize() int { return 110 + 3*len(f.Owner) }

// Event makes e the event of f.
func (f *Fact) Event(e *lockagent.Event) {
	*e = lockagent.Event{}
	c := f.Common
	e.Store, e.Lock, e.LockKind, e.Mode, e.Incarnation = c.Store, c.Lock, c.LockKind, c.Mode, c.Incarnation
	e.Permits, e.Total, e.Replicas, e.Holds = c.Permits, c.Total, c.Replicas, c.Holds
	if m := f.More; m != nil {
		e.Op, e.Permit = m.Op, m.Permit
		e.Holder, e.Operator, e.Err, e.Reset, e.Process = m.Holder, m.Operator, m.Err, m.Reset, m.Process
		e.Waiters, e.Remaining, e.Sum, e.Grace = m.Waiters, m.Remaining, m.Sum, m.Grace
	}
	e.Kind, e.How, e.Reason, e.Fixed = f.Kind, f.How, f.Reason, f.Fixed
	e.Time = f.time()
	e.Count, e.Owner, e.Who, e.TraceParent = f.Count, f.Owner, f.Who, f.TraceParent
	e.Request, e.Tenure, e.Token = f.Request, f.Tenure, f.Token
	e.Waited, e.Held, e.Lease = f.Waited, f.Held, f.Lease
	e.StoreTime, e.Until, e.Confirmed, e.Returned = f.StoreTime, f.Until, f.Confirmed, f.Returned
}

func (f *Fact) time() time.Time { return time.Unix(f.second, int64(f.nanosecond)).UTC() }
