package lockagent

import (
	"fmt"
	"slices"
	"time"
)

// Grace is a layer of a [Store]: a store that may have forgotten tenures grants nothing new until their agents had time
// to come back. It is what servers of files and locks do after a restart, such as those of NFS and Chubby.
//
// A new incarnation of the store begins with a grace period. Meanwhile each Acquire ends with a [*GraceError], and no
// Release passes a lock on. Each change of permits ends with a [*GraceError], too. A Renew of a tenure that the store
// has forgotten puts the tenure back as it was, if its Last is given. If two agents claim one lock, the greater Last
// decides, and the Renew of the other is not Held.
//
// In the period a Release of a tenure that the store has forgotten is Released, if its Last is given: the store has
// granted the lock to nobody since. The Release is not Released if a program that is no agent has the lock. An agent
// that knows of the reset does not call Release while a Renew of the tenure is under way, unless the agent no longer
// trusts the tenure: the Renew could come later, and put back what has ended. So can a Renew that has failed. Then the
// tenure is a ghost, and its agent releases it when somebody meets it.
//
// The store knows which agents may have tenures: the roll. Every agent that calls Listen is on it. The period ends when
// each agent on the roll has come back, or when the longest lease is over that an agent which has not come back may
// have in use. Until then such an agent may trust its tenures, although it is cut off.
//
// # In a RenewRequest
//
// Last is the token of the tenure's last hold, or 0 if there was none. A tenure without holds is not put back.
//
// Permits and Total are for a tenure of a semaphore: the number of its permits, and the number of all permits when the
// store granted those, as in the [AcquireReply]. If the store has forgotten how many there are, the Total of the
// greatest Last counts.
type Grace interface {
	// Reasserted says that the agent has come back to an incarnation: it has made a Renew of each tenure with holds
	// since OnReset told of that incarnation, and has the answers. It also has the answers to each Release of such a
	// tenure that was under way. Reasserted does not wait.
	Reasserted(incarnation string)

	// Left says that the agent has no tenure and makes no further Acquire. No period waits for it from then on. Left
	// does not wait, and nobody tells whether the store has heard of it: the agent leaves the roll in any case when
	// its longest lease is over.
	Left()

	// OnGrace calls f when a grace period begins, as far as the store notices, and when it has ended. f must not
	// block.
	OnGrace(f func(GracePeriod)) (cancel func())
}

// PresentIncarnation stands for the incarnation in which an agent began to listen, in a call of [Grace].Reasserted: an
// agent that begins, or goes on with the tenures of another process, was told of no reset. The call does not count if
// the store has been reset since.
const PresentIncarnation = "present"

// GracePeriod is a time in which a store grants nothing new, see [Grace].
type GracePeriod struct {
	// Incarnation is that of the store.
	Incarnation string
	// Reason is for people: why the period began. It is as in [Reset], or "first start" if nobody knew the store.
	Reason string
	// Began is when the incarnation began, and Ended when the period had ended, on the store's clock. Ended is 0
	// while the period goes on.
	Began, Ended StoreTime
	// Roll are the agents for which the period waits, or, if it has ended, those that did not come back. More is how
	// many there are beside these: an event log names the first few hundred.
	Roll []AgentID
	More int
}

// Equal reports whether both say the same. Each may be nil, and then it says nothing.
func (p *GracePeriod) Equal(other *GracePeriod) bool {
	if p == nil || other == nil {
		return p == other
	}
	return p.Incarnation == other.Incarnation && p.Reason == other.Reason &&
		p.Began == other.Began && p.Ended == other.Ended && p.More == other.More && slices.Equal(p.Roll, other.Roll)
}

// GraceError answers a request that does not wait (a try), or a break, if the store is in a grace period: it may have
// forgotten tenures, and grants nothing new until their agents had time to come back. Nobody knows whether the lock is
// held. It also answers a change of permits, which then has changed nothing.
type GraceError struct {
	Name Name
	Left time.Duration // how long the grace period may still last; most often it ends within a second
}

func (e *GraceError) Error() string {
	return fmt.Sprintf("lockagent: lock %q: %s; try again", e.Name, e.reason())
}

// reason says why nothing is granted.
func (e *GraceError) reason() string {
	return fmt.Sprintf("the store may have forgotten who holds it, and waits for up to %v for the holders to come back",
		e.Left.Round(time.Millisecond))
}

// Is reports whether target is [ErrGrace], or [ErrStoreUnavailable]: the store cannot tell yet.
func (e *GraceError) Is(target error) bool {
	return target == ErrGrace || target == ErrStoreUnavailable
}
