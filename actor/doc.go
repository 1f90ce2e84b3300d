// Package actor is the shell around the lock state machine: one actor for every
// lock name in use, with a mailbox, ticks, and asynchronous calls to the store.
// Applications use it through package channelapi.
//
// # Usage
//
// [New] makes an [Agent]. [Agent.Acquire] returns a channel that delivers the one
// grant the request ends in. [Agent.Lock] waits for it. [Agent.Close] answers and releases
// everything; [Agent.Shutdown] lets the holders finish first. [Agent.Detach] gives nothing back:
// the next version of the process goes on with the same holds by [Resume].
//
// # How a lock lives
//
// The first message to a name makes its actor; idle actors leave. A registry
// counts, for every actor, the messages it still has to process and the store
// calls under way for it. A sender first raises that count, which fails only if
// the actor has retired, and then a new one is made; the actor retires by one
// atomic exchange that succeeds only while the count is zero. So no message that
// is counted can ever meet an actor that is gone. Messages that an idle actor may
// as well miss (a tick, a wake-up, the end of a context) are not counted.
//
// The actor of an idle lock runs in the goroutine that sends it a message: acquiring and
// releasing, the replies of the store, ticks. So a hand-off needs no goroutine but
// those of the two owners.
//
// An actor is sent a tick when something of its lock is due. One timer serves all locks
// of an agent: what is due at about the same time is done in one goroutine, one lock after
// the other. If that takes longer than 10 ms, say because a callback blocks, another
// goroutine goes on with the rest.
//
// # Guarantees
//
// Every request is answered exactly once: also when the actor panics, when a callback ends
// its goroutine, and when the agent is closed. A store that panics has failed, like one that
// cannot be reached; a recorder that panics costs nobody a lock. A grant is given back if
// nobody receives it, or if nobody refers to it any more. An actor never waits: not
// for a receiver (channels have room for their one value), not for the store,
// not for the recorder of events. A holder is told that its hold is over before
// the lock is given to anybody else or back to the store. Neither a waiter nor a
// subscription nor an idle lock costs a goroutine.
//
// # Not guaranteed
//
// A process that does not run cannot be told anything. Deadlines count the time
// that the machine was suspended (on Linux), but a holder learns of them when it
// runs again.
//
// # Concurrency
//
// An [Agent] is safe for concurrent use. Everything inside a lock's actor belongs
// to that actor; what other goroutines read of it is atomic.
//
// # Testing
//
// All timing is the time package's, so tests run an Agent over memstore in
// testing/synctest bubbles.
package actor
