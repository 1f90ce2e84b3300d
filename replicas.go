package lockagent

import "fmt"

// ReplicasError says that too few replicas of the store knew in time that it had granted the lock, or renewed
// it. So a failover might grant the lock to somebody else.
//
// A grant was given back, and nobody holds the lock. The error answers all requests of the agent that wait for
// the lock. Ask again when the replicas are back. After a Renewal the hold goes on until its deadline, and the agent
// tries again.
//
// # Replicas of a store
//
// A [Store] that has replicas may demand that some of them know of a tenure. An Acquire then ends with a
// [*ReplicasError] if too few do: the store had granted the tenure, and has released it again. A Renew ends with one,
// too. Such a Renew may be tried again: the tenure may have its new lease. A pass of a [Queue] waits for no replicas.
// So its message is Unconfirmed, and the agent asks before it grants anything.
//
// Replicas in a reply is how many replicas are known to have the tenure, if it was granted or is held. It is 0 if the
// store does not ask its replicas.
type ReplicasError struct {
	Name         Name
	Acknowledged int  // how many replicas knew of it
	Wanted       int  // how many have to
	Renewal      bool // of a tenure that had the lock
}

func (e *ReplicasError) Error() string {
	tried := "granted"
	if e.Renewal {
		tried = "renewed"
	}
	return fmt.Sprintf("lockagent: lock %q was not %s: %d replicas of the store acknowledged it in time, and %d have "+
		"to; see whether they run and follow", e.Name, tried, e.Acknowledged, e.Wanted)
}

// Is reports whether target is [ErrTooFewReplicas].
func (e *ReplicasError) Is(target error) bool { return target == ErrTooFewReplicas }
