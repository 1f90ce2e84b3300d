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
// What the agent has in the store goes through phases. An uncontended one goes straight on,
// and serves its holds one after the other:
//
//	     Attempted         Began         Returning            Returned
//	Free ---------> Asking -----> Held ------------> Releasing --------> Free
//	                              ^  |
//	                              +--+ Granted, Ended, Renewing, Renewed, RenewFailed
//
// A busy lock, or a store that does not answer, adds a phase:
//
//	       FoundBusy, AttemptFailed,           Attempted    (woken, or it is time)
//	       AttemptRefused                     +---------> Asking
//	Asking ------------------------> Sleeping +---------> Held        Began (passed the lock)
//	                                          +---------> Free        Forgot (nobody waits)
//	                                          +---------> Releasing   Withdrawing (the same, but it may have begun)
//
// And not everything ends by a return:
//
//	Held      ---------> Free        Denied (the store has it no more)
//	Held      ---------> Releasing   Denied (the same, but it may begin once more), Withdrawing
//	Releasing ---------> Releasing   ReleaseFailed; Returning or Withdrawing again
//	Releasing ---------> Free        Withdrawn; or Dropped (there was no answer for as long as a lease)
//
// A tenure in the store's queue goes from Sleeping to Held without having asked, when a
// release passes the lock to it. If it is Asking when it hears of that, the pass is
// Offered, and counts only if the answer does not grant the lock.
//
// # Modes
//
// A grant is exclusive or shared. A tenure is begun in the mode of the request at the head
// of the queue, and keeps it. In a shared tenure all grants are shared, as may be other
// tenures of the lock at the same time. In an exclusive one shared grants may follow an exclusive
// one. Each grant has its owner and token; a session has one token for all its grants.
//
// A session that holds the lock is let in again at once, past those who wait. So re-entries
// that overlap keep the lock for as long as they do: to refuse them would make the session
// wait for itself.
//
// Requests are granted in the order of their arrival, so readers that come after a local
// writer wait behind it. Readers join a shared tenure at any time while nobody is known to wait
// for that elsewhere. If another agent wants it, or outsiders may, they join until the
// budget of the tenure is spent. Then it drains, and goes back.
//
// # Unanswered calls
//
// A call to the store may have taken effect although its answer was lost, or may yet.
//
//   - An attempt is made again under the same number while somebody waits, and withdrawn
//     when nobody does any more. So is a tenure in the queue, which may be passed the
//     lock at any time. A tenure that is Denied, but may begin once more by such an
//     attempt, goes from Held to Releasing, to be withdrawn as well.
//   - A renewal is made again until the deadline.
//   - A release is made again. If it then finds nothing, the call before it released the
//     tenure, if it was sent before the deadline. Otherwise the hold had been lost.
//
// A shell that has lost its way ends the holds, and starts again with what [Snapshot.WithoutHolds]
// leaves: a lock that starts in Releasing.
//
// # Another process
//
// [State.Snapshot] and [Resume] carry the holds of a lock to another process, such as the next
// version of a daemon. [Detach] leaves them behind without giving anything back. The old process'
// calls may arrive yet, so a resumed tenure is in doubt, and what was being asked for or
// returned is withdrawn.
//
// # Doubt
//
// A tenure is in doubt when its store was reset or messages may have been missed, until a
// renewal has confirmed it. A hold goes on meanwhile, but there is no hand-off. A tenure that
// was in doubt before its first hold is checked first.
//
// # Ghosts
//
// A failover may bring a tenure back that was released. An agent that meets one of its own
// that is neither the present one nor asked for has the store end it: Disowning.
//
// # Fair locks
//
// In a [Fair] lock several attempts of one agent are under way: each waiter has a State of its
// own, with a tenure and a place in the store's queue. Such a State has nobody to hand off to. Its
// tenure goes back to the store, which passes the lock to the next place, on whatever agent.
//
// The States know four things of each other. No tenure of any of them is a ghost. Their tokens have
// one floor. When the store grants the lock to one of them, all others have lost it. And a grant that is
// older than another's tenure is over: the store is asked again.
//
// # Guarantees
//
// These are stated against this package. A test explores a small world of three agents
// and a model of the store, in which calls and messages are lost, late and repeated. It
// visits the first 30,000 states of each variant, which are at least all schedules of four to
// eleven actions after the set-up, and walks at random beyond. LOCKSTATE_STATES sets the number.
//
//   - Two owners never hold the lock inside their deadlines at the same time, unless
//     both share it.
//     A deadline is the instant before the confirmed store call was sent, plus
//     the lease, minus a margin; the store counts the lease from a later instant.
//     Of a lease that began by a pass, that instant is the one at which the last
//     attempt was sent, plus what passed on the store's clock after its answer.
//   - The tokens of successive grants grow: that of an exclusive one is greater than
//     all before, that of a shared one than those of all exclusive ones before.
//   - A hold does not keep others out for longer than it has asked for, if its agent dies.
//     It may do so for as long as any shared grant that was held beside it.
//   - A fair lock goes to the first place in the store's queue, unless a message or a call was
//     lost, a lease has run out, or outsiders had their turn.
//   - Nobody waits for a free lock that the agent was told of, nor for a ghost.
//   - Every request is answered exactly once, and so is every call to release.
//   - When everybody has gone, and the store answered before the lease had run
//     out, it holds nothing of this agent's.
//
// # Not guaranteed
//
// Nothing bounds how late a [Tick] arrives: that is the shell's and the machine's
// matter. Every decision takes the instant it is made, so a late tick ends a hold
// late, but a hold that has passed its deadline is never handed off.
//
// # Concurrency
//
// A State or a Fair belongs to one goroutine at a time.
package lockstate
