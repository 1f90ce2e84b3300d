// Package lockstate is the core of one lock in one agent, as a state machine
// without goroutines, clocks or I/O. Package actor is the shell around it that
// has all three.
//
// # Usage
//
// [State.Step] takes a [Command] and the [Moment] it arrived. It decides what the
// command means, as [Event] values, folds each into the state, and hands it to
// the shell, which does what the event asks for: calls the store, delivers a
// grant, publishes. Then it settles: a short list of rules looks at the state
// alone and says what has to happen next, one event at a time, until none of
// them applies. What the shell has to keep armed is not an event but a function
// of the state: [State.Alarm] is when it wants a [Tick], [State.Listening] is
// whether it wants wake-ups.
//
//	command --> decide --> events --> apply --> state
//	                         ^                    |
//	                         +----- settle <------+     until nothing is left to do
//
// decide and settle only read the state, apply only folds. A panic in any of
// them therefore leaves the state as the last event left it.
//
// # The tenure
//
// What the agent has in the store goes through five phases:
//
//	           Attempted            Began
//	+-> Free ------------> Asking -----------> Held <--+ Granted, Ended: holds of local
//	|    ^                 |    ^               |      | owners, one after the other
//	|    | Forgot   Found- |    | Attempted     |      | Renewing, Renewed
//	|    |          Busy,  v    |               |------+
//	|    +------- Attempt- Sleeping             |
//	|             Failed      |                 | Returning
//	|                         | Returning       v
//	+-------------------------+-----------> Returning --+ ReturnFailed: again
//	|            Returned, Dropped              |  ^----+
//	+-------------------------------------------+
//
// A renewal that is Denied takes a tenure from Held to Free at once, or through
// Returning if an early attempt may still arrive. A lock that is [Recovering]
// starts in Returning.
//
// A tenure that may have begun without our knowing, because the answer to the
// attempt was lost, is asked for again under the same number while somebody
// waits, and withdrawn through Returning when nobody does any more.
//
// So is one that waits in the store's queue, which may be passed the lock at any
// time. Then it goes from Sleeping to Held without having asked; if it is Asking,
// the pass is Offered, and counts only if the answer does not grant the lock.
//
// # Guarantees
//
// These are stated against this package, and checked by exploring the interleavings
// of a small world of two agents and a model of the store, all of them up to a
// bound: by default the first 50,000 states of each variant, which have at least all
// schedules of six to ten actions after the set-up, and random walks beyond.
// LOCKSTATE_STATES sets the bound.
//
//   - Two owners never hold the lock inside their deadlines at the same time.
//     A deadline is the instant before the confirmed store call was sent, plus
//     the lease, minus a margin; the store counts the lease from a later instant.
//     Of a lease that began by a pass, that instant is the one at which the last
//     attempt was sent, plus what passed on the store's clock after its answer.
//   - The tokens of successive grants grow.
//   - Every request is answered exactly once, and so is every call to release.
//   - When everybody has gone, and the store answered before the lease had run
//     out, it holds nothing of this agent's.
//
// # Not guaranteed
//
// Nothing bounds how late a [Tick] arrives: that is the shell's and the machine's
// matter. Every decision takes the instant it is made, so a late tick ends a hold
// late, but a hold that has passed its deadline is never passed on.
//
// # Concurrency
//
// A State belongs to one goroutine at a time.
package lockstate
