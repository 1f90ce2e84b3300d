package saved

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
)

// Agent is an agent with its locks. Keep it secret: with it, a program can release these locks.
type Agent struct {
	Stay
	// Locks are the locks with a record, in the order of their names.
	Locks []Lock
}

// Stay is an agent without its locks.
type Stay struct {
	// ID is the identity of the agent.
	ID lockagent.AgentID
	// First and Last bound the numbers that the agent may have used, of tenures and requests: they are above First, and
	// not above Last. Tenures that it went on with itself have lower ones.
	First, Last uint64
	// Taken is when the agent wrote this.
	Taken Stamp
}

// Lock is one lock of an agent.
type Lock struct {
	Name     lockagent.Name
	Kind     lockagent.LockKind
	Floor    lockagent.Token         // see [lockstate.Snapshot]
	Tenures  []lockstate.SavedTenure // in the order of their numbers
	Requests []Request               // as in a [lockstate.Snapshot]
}

// Request is a request, and what its state machine does not know of it.
type Request struct {
	lockstate.SavedRequest
	Tag   string            // for whoever resumes the request
	Until lockstate.Instant // when the wait ends, or 0
	Total int               // of a hold of a semaphore: how many permits there were, or 0 if that is not known
}

// Snapshot is the lock as its state machine knows it.
func (l *Lock) Snapshot() lockstate.Snapshot {
	n := lockstate.Snapshot{Floor: l.Floor, Tenures: l.Tenures}
	n.Requests = make([]lockstate.SavedRequest, len(l.Requests))
	for i := range l.Requests {
		n.Requests[i] = l.Requests[i].SavedRequest
	}
	return n
}

// Age returns how long ago the agent wrote the time, and false if nobody knows.
func (a *Agent) Age() (passed time.Duration, known bool) { return a.Taken.age() }

// Holds is how many holds the next process goes on with, and the sum of these: see [lockagent.HoldSum]. A session has
// one hold of a lock, however often it was granted the lock.
func (a *Agent) Holds() (n int, sum uint64) {
	if _, known := a.Age(); !known {
		return 0, 0
	}
	for i := range a.Locks {
		of := &a.Locks[i]
		owners := make(map[lockagent.Owner]bool)
		for j := range of.Requests {
			if r := &of.Requests[j]; r.Tenure != 0 && !owners[r.Owner] {
				owners[r.Owner] = true
				n++
				sum += lockagent.HoldSum(of.Name, r.Tenure, r.Token)
			}
		}
	}
	return n, sum
}

// Check returns an error if no agent could have written this.
func (a *Agent) Check() error {
	if _, err := lockagent.ParseAgentID(string(a.ID)); err != nil {
		return err
	}
	if a.Last > lockagent.MaxTenure {
		return bad("number %d is greater than %d", a.Last, uint64(lockagent.MaxTenure))
	}
	if a.First > a.Last {
		return bad("the numbers are above %d, and the last one is %d", a.First, a.Last)
	}
	for i := range a.Locks {
		if i > 0 && a.Locks[i].Name <= a.Locks[i-1].Name {
			return bad("lock %q is out of order", a.Locks[i].Name)
		}
		if err := a.Locks[i].check(a.Last); err != nil {
			return err
		}
	}
	return nil
}

func (l *Lock) check(last uint64) error {
	if _, err := lockagent.ParseName(string(l.Name)); err != nil {
		return err
	}
	if !slices.Contains(lockagent.LockKinds(), l.Kind) {
		return bad("lock %q is of the kind %.64q, which this version does not have", l.Name, l.Kind)
	}
	if len(l.Requests) > 0 && l.Kind == lockagent.Latch {
		return bad("latch %q has requests", l.Name)
	}
	begun, parts := make(map[uint64]bool, len(l.Tenures)), make(map[uint64]bool)
	for i := range l.Tenures {
		t := &l.Tenures[i]
		if _, twice := begun[t.Number]; t.Number == 0 || t.Number > last || twice || t.Mode > lockstate.Shared {
			return bad("lock %q has tenure %d of mode %d, the last number is %d", l.Name, t.Number, t.Mode, last)
		}
		if t.Part != 0 && parts[t.Part] {
			return bad("lock %q has tenure %d, and another one in part %d", l.Name, t.Number, t.Part)
		}
		begun[t.Number], parts[t.Part] = !t.Asks, true
	}
	seen := make(map[lockstate.RequestID]bool)
	for i := range l.Requests {
		r := &l.Requests[i]
		if seen[r.ID] {
			return bad("lock %q has request %d twice", l.Name, r.ID)
		}
		seen[r.ID] = true
		if r.Tenure != 0 && !begun[r.Tenure] {
			return bad("lock %q has request %d in tenure %d, which is not held", l.Name, r.ID, r.Tenure)
		}
		if err := r.check(l.Name, last); err != nil {
			return err
		}
	}
	return nil
}

func (r *Request) check(name lockagent.Name, last uint64) error {
	if _, err := lockagent.ParseOwner(string(r.Owner)); err != nil {
		return err
	}
	if r.Lease != 0 {
		if err := lockagent.CheckLease(r.Lease); err != nil {
			return err
		}
	}
	if r.ID == 0 || uint64(r.ID) > last || r.Mode > lockstate.Shared {
		return bad("lock %q has request %d of mode %d", name, r.ID, r.Mode)
	}
	if (r.Tenure != 0) != (r.Token != 0) || (r.Fixed != 0 || r.Own != 0) && r.Request.Lease == 0 {
		return bad(
			"lock %q has request %d in tenure %d with token %d, until %d", name, r.ID, r.Tenure, r.Token, r.Fixed,
		)
	}
	return nil
}

func bad(format string, args ...any) error {
	return &lockagent.OptionError{Option: "journal", Reason: fmt.Sprintf(format, args...)}
}

// byName compares the names of two locks.
func byName(x, y Lock) int { return strings.Compare(string(x.Name), string(y.Name)) }
