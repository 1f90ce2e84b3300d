package actor

import (
	"context"
	"errors"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
)

// publish records an event of the state machine, if applications have an event for it. r is the
// request that the event is about, or nil.
func (l *lock) publish(r *request, e *lockstate.Event) {
	if l.agent.cfg.Recorder == nil || !published(e.Kind) {
		return
	}
	values := context.Background()
	if r != nil {
		values = r.values()
	}
	if !l.agent.recording(values) {
		return
	}
	out := lockagent.Event{
		Time: l.time, Lock: l.entry.name, LockKind: l.entry.kind, Mode: modeOf(e.Mode), Tenure: e.Tenure,
	}
	if of := &e.Request; of.ID != 0 {
		out.Request, out.Owner, out.Lease, out.Mode = uint64(of.ID), of.Owner, of.Lease, modeOf(of.Mode)
		out.Waited = e.Now.Sub(of.Arrived)
		if out.Who = l.agent.who; r != nil && !r.Who.IsZero() {
			out.Who = r.Who
		}
	}
	switch e.Kind {
	case lockstate.AttemptFailed:
		if r == nil || e.Failures > 1 {
			return // the first failure was published
		}
		out.Kind, out.Err = lockagent.EventRequested, e.Err.Error()
		out.Tenure = 0 // it has not begun
	case lockstate.Queued:
		out.Kind, out.Waiters, out.Holder = lockagent.EventQueued, e.Waiters, l.holder()
	case lockstate.Answered:
		switch {
		case errors.Is(e.Err, lockstate.ErrOpen):
			return // nothing was granted, and nothing refused
		case e.TimedOut:
			out.Kind = lockagent.EventTimedOut
		case e.Cancelled && !l.draining:
			out.Kind = lockagent.EventCancelled
		default:
			out.Kind = lockagent.EventRefused
		}
		out.Err = e.Err.Error()
	case lockstate.Granted, lockstate.Reentered:
		out.Kind = lockagent.EventGranted
		if e.Kind == lockstate.Reentered {
			out.Kind = lockagent.EventReentered
		}
		out.Token, out.How, out.Count = e.Token, e.How, e.Count
		out.StoreTime, out.Confirmed, out.Incarnation = e.StoreTime, e.Again, e.Incarnation
		out.Lease, out.Fixed = e.Lease, e.Request.Lease != 0
		out.Permits, out.Total, out.Replicas, out.Holds = permitsOf(&e.Request), r.total, e.Replicas, holdsOf(e.Holds)
		if l.link != nil && l.link.tenure == e.Tenure && e.How == lockagent.ByStore {
			out.Link = l.link.trace
		}
	case lockstate.Ended:
		out.Kind, out.Reason, out.Operator = endKind(e.Reason), e.Reason, e.Operator
		out.Token, out.Count, out.Held = e.Token, e.Count, e.Now.Sub(e.Since)
		out.Confirmed, out.Lease, out.Fixed = e.StoreTime, e.Lease, e.Request.Lease != 0
		out.Permits, out.Total, out.Replicas, out.Holds = permitsOf(&e.Request), r.total, r.Replicas(), holdsOf(r.Holds)
		if out.Until = e.Until; e.Reason != 0 || r.heard {
			// The owner, or what works under the context of its grant, learned of the end between e.Now, when the
			// step began, and now. Nobody but the caller had to learn of any other release, and did before.
			out.Until = out.Until.Add(l.agent.clock.now().Sub(e.Now))
		}
		out.Waited = 0
	case lockstate.Renewed:
		if !e.Served {
			return // its first grant tells of the renewal, if there is one
		}
		out.Kind, out.StoreTime, out.Lease, out.Replicas = lockagent.EventRenewed, e.StoreTime, e.Lease, e.Replicas
		out.Remaining = l.state.Deadline(e.Tenure).Sub(e.Now)
	case lockstate.RenewFailed:
		if e.Failures > 1 {
			return // the first failure was published
		}
		oldest := l.oldestHold(e.Tenure)
		if oldest == nil {
			return // a release waits, or a first hold
		}
		out.Kind, out.Err = lockagent.EventUncertain, e.Err.Error()
		out.Owner, out.Token = oldest.Owner, oldest.token
		out.Remaining = l.state.Deadline(e.Tenure).Sub(e.Now)
	case lockstate.Returned, lockstate.Denied:
		if !e.Served {
			return // the tenure served no hold
		}
		out.Kind, out.Returned = lockagent.EventReturned, e.StoreTime
		if e.Kind == lockstate.Denied {
			out.Reason = e.Reason
		} else if !e.Released {
			out.Reason = lockagent.LostDenied
		} else {
			out.Until = e.Until
		}
	}
	l.agent.record(values, &out)
}

// published reports whether applications may learn of such events. Most are for the actor alone, and for
// those an Event, which is large, is not even begun.
func published(k lockstate.Kind) bool {
	switch k {
	case lockstate.AttemptFailed, lockstate.Queued, lockstate.Answered, lockstate.Granted, lockstate.Reentered,
		lockstate.Ended, lockstate.Renewed, lockstate.RenewFailed, lockstate.Returned, lockstate.Denied:
		return true
	}
	return false
}

// permitsOf is what the log says of one permit and of several: 0, and how many they are.
func permitsOf(r *lockstate.Request) int {
	if r.Permits == 1 {
		return 0
	}
	return r.Permits
}

// holdsOf is what the log says of one hold and of several: 0, and how many they are.
func holdsOf(n uint16) int {
	if n == 1 {
		return 0
	}
	return int(n)
}

// link is the trace context of the release that passed the lock to a tenure.
type link struct {
	tenure uint64
	trace  string
}

func modeOf(m lockstate.Mode) lockagent.Mode {
	if m == lockstate.Shared {
		return lockagent.Shared
	}
	return lockagent.Exclusive
}

// modeIn is the inverse of modeOf.
func modeIn(m lockagent.Mode) lockstate.Mode {
	if m == lockagent.Shared {
		return lockstate.Shared
	}
	return lockstate.Exclusive
}

func endKind(why lockagent.LossReason) lockagent.EventKind {
	switch why {
	case 0:
		return lockagent.EventReleased
	case lockagent.LostExpired:
		return lockagent.EventExpired
	case lockagent.LostBroken:
		return lockagent.EventBroken
	case lockagent.LostUnclaimed:
		return lockagent.EventUnclaimed
	}
	return lockagent.EventLost
}
