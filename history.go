package lockagent

import (
	"context"
	"time"
)

// History is a layer of a [Store]: it tells what an audit, or a store made of stores, has to know of the past.
//
// Without it, the events of an agent name no store, and tell less of the store's clock: neither what it shows while
// nothing happens, nor when somebody set it. So an audit proves nothing of what happened in the store. It takes all
// agents that name no store for agents of one store. Agents of two such stores may then seem to have a lock at once.
//
// # In an AcquireRequest
//
// Exact says that no greater token of this lock than Floor was given out. A store whose clock is behind Floor then
// sets it to Floor, and no further. Otherwise there may be tokens that the agent does not know of, and the store sets
// its clock a good deal further.
//
// # In an AcquireReply
//
// Clock names the clock of At. The difference of two StoreTimes is a duration only if their Clocks are the same:
// somebody may set a server's clock, and another server may take over. It is empty if At is not the reading of one
// clock: then no difference is one.
type History interface {
	// Identity is the identity of the store, which the store itself keeps: a text that no other
	// store has. All Stores of one store, in all processes, have the same one. A reset does not
	// change it, or the store tells of the change: see [Reset].Store. Identity never blocks. It
	// is empty if the identity is not known yet.
	Identity() string

	// RemembersSince is an instant on the clock of this process. The store has forgotten nothing that
	// it granted after it. What it granted before, it may have forgotten, or the lease may have ended
	// early. It is zero if neither has ever happened. A store that cannot tell says when it was
	// opened. After a reset RemembersSince changes before any call is answered from what the reset has
	// left, if the store can tell its incarnation. It never blocks.
	RemembersSince() time.Time

	// Time tells what the store's clock shows. It is a lower bound: nothing that the store
	// decides after the call is earlier. In a Cluster it is the clock of one node.
	Time(ctx context.Context, done func(StoreTime, error))
}
