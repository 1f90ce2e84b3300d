// Package lockstate is the core of one lock in one agent: a state machine without
// goroutines, clocks or I/O. Package actor is the shell around it that has all three.
//
// # Usage
//
// [State.Step] takes a [Command] and the [Moment] at which it arrived.
//
//	command --> decide --> events --> apply --> state
//	                         ^                    |
//	                         +----- settle <------+     until nothing is left to do
//
// Three functions make up a step:
//
//   - decide turns the command into [Event] values.
//   - apply folds each event into the state. Then the shell gets the event and does what it
//     asks for: it calls the store, delivers a grant, or publishes.
//   - settle is a short list of rules about the state and the clock. It finds the next event
//     that is due, until there is none.
//
// decide and settle only read the state, and apply decides nothing. So after a panic the
// state is what the last applied event made of it.
//
// Three things are not events but functions of the state. [State.Alarm] is when the state wants
// a [Tick]. [State.Listening] is whether it wants wake-ups. [State.Wanted] is whether somebody waits for what is held.
// The shell looks at them after each step.
//
// # The tenure
//
// A tenure is the agent's time with the lock, from the store's point of view. The holds of one tenure follow each
// other. A State has one tenure of the lock at a time, or asks for one, see phase in state.go.
//
// A release may pass the lock to a tenure in the store's queue, which then begins without another call. If a call is
// under way, the pass is Offered: it counts if the store's answer does not grant the lock. The store may not vouch for
// a pass yet. Then the tenure asks for the lock, and begins by the answer.
//
// # Modes
//
// A grant is exclusive or shared. The request at the head of the queue sets the mode of a
// tenure. In a shared tenure all grants are shared, and other agents may have shared tenures of the lock
// at the same time. In an exclusive tenure shared grants may follow an exclusive one. Each grant has an
// owner and a token. All grants of one session have the same token.
//
// A shared tenure never becomes exclusive. So a session that only shares the lock cannot also have it
// alone: it would wait for itself, and its request is refused. An exclusive tenure becomes shared when
// only readers hold the lock (the downgrade): then at once, unless a local writer is next in the queue,
// and in that case with the next renewal. The renewal tells the store. From the instant at
// which it is sent, nothing exclusive is granted in the tenure.
//
// A session that holds the lock is let in again at once, before all requests that wait.
// Otherwise the session would wait for itself. So overlapping re-entries can keep the lock
// for any time. The holds of a session have one lease, see sessionlease.go.
//
// Requests are granted in the order of their arrival. So a reader that comes after a local
// writer waits for that writer. Readers join a shared tenure at any time, unless the agent
// knows of another agent or an outsider that waits. If it does, readers join until the budget
// of the tenure is spent. Then the tenure drains and goes back. The answer to a renewal says whether
// anybody waits still. Outsiders cannot tell the agent that they wait, and nobody tells that it waits no more. So a
// shared tenure that readers join, or cannot join, is renewed a little after the store's last answer, and not only when
// its lease demands that.
//
// # Resting
//
// A tenure may rest in phase held: nobody holds the lock, and the agent keeps it. The next request is granted without
// the store. The tenure goes back when another agent wants the lock, or when it has rested for long enough.
//
// The agent asks for a tenure that may rest when it has had several tenures in a row that nobody else wanted
// ([Config.Rest]). The store marks such a tenure. It tells the agent when another one wants the lock (Contested). From
// then on the tenure does not rest, and its hand-offs have a budget. Its lease is short until a renewal confirms a
// longer one: then it does not rest any more, either.
//
// A request that does not wait goes on for a moment when it finds the lock busy with a tenure that may rest in another
// agent.
//
// # Brief holds
//
// A kept lease begins as that of a pass does, if the agent has just had the lock for a moment. A hold that lasts is
// renewed, and then has the whole lease. So a process that dies while it uses a lock again and again keeps others out
// for no longer than a pass does.
//
// # Many grants
//
// A shared tenure may have thousands of grants, and thousands of requests may wait. No step looks at all of them,
// unless it ends or answers all of them. One table has them all, see table.go:
//
//   - A request has one slot from its arrival to its end. Lists thread the slots of those that wait, and of the grants.
//   - Counts tell whether all grants are shared, and whether a lease is kept.
//   - If there are more than a few requests, a map finds them by their ids. Another map has the lists of each session.
//   - The grants with fixed leases are sorted: by the ends of the leases, and by their lengths.
//   - Claims end in the order of the grants. So only the oldest grant that may be unclaimed matters.
//   - The table knows the sessions that both hold the lock and wait for it. When the state has settled, there are none.
//
// After each step of the small worlds and of the random histories, tests compare all of this with plain lists of the
// requests that wait and of the grants.
//
// # Unanswered calls
//
// A call whose answer is missing may have taken effect, or may take effect later.
//
//   - An attempt is made again under the same number while some request wants it. After that
//     it is withdrawn. A tenure in the store's queue is withdrawn for the same reason: a
//     release may pass the lock to it at any time. A tenure that is Denied, but may begin once
//     more by such an attempt, is withdrawn too.
//   - A renewal is made again until the deadline.
//   - A release is made again. The repeated release may find nothing. If the first one was
//     sent before the deadline, then an earlier release had ended the tenure. Otherwise the
//     hold had been lost.
//
// After a panic the shell ends the holds, and starts a new state with [Snapshot.WithoutHolds]
// of the old one. The new state begins in Releasing.
//
// # Another process
//
// A journal carries a lock to another process, such as the next version of a daemon. [State.Tenure] and [State.Request]
// tell what it has to have of a tenure and of a request, and [Event.Commits] by when. So the process may end at any
// instant, and [Resume] goes on. [Detach] ends this process's part in order, and gives nothing back.
//
// Calls of the old process may arrive late. So a resumed tenure is in doubt, and a tenure that nobody holds or waits
// for is withdrawn. Requests that wait ask again under the number of the old tenure. So they keep their place in the
// store's queue.
//
// # Doubt
//
// A tenure comes into doubt when its store was reset, or when messages may have been missed. A renewal ends the doubt.
// Meanwhile a hold goes on, but there is no hand-off. A release waits until a renewal under way is answered, or the
// deadline has passed: in a grace period a renewal that arrives after the release would put the tenure back. A tenure
// that comes into doubt before its first hold is renewed first. So is a tenure whose lease is too short for a first
// hold that is to outlive its process.
//
// # Ghosts
//
// A failover may bring back a tenure that was released: a ghost. An agent recognises a ghost by
// its number: the agent neither has nor asks for that tenure. The agent then tells the store
// to end the ghost (Disowning), unless the agent has never used the number: the tenure may be of
// another agent that was given the same identity.
//
// A request that does not wait goes on until the store has answered about the ghost. Then the store is asked for the
// lock again. If the same ghost is met again, the request is refused. The store names no holder of permits. So a
// request for permits that does not wait is refused at once.
//
// # Fair locks
//
// In a [Fair] lock several attempts of one agent are under way. Each waiter has a State of
// its own, with a tenure and a place in the store's queue. Such a State has nobody to hand
// off to. Its tenure goes back to the store, which passes the lock to the next place,
// whichever agent has it.
//
// All requests of a fair lock are exclusive. The States know of each other:
//
//   - A tenure of any of them is no ghost.
//   - They have one floor of tokens, and one habit.
//   - When the store grants the lock to one of them, all others have lost it.
//   - An answer with a token that is not above those of the others is outdated. The tenure that
//     it grants is over, and the store is asked again.
//
// Only some parts ask the store at a time. The next ones begin when it has answered, in their order. A request that
// gives up before that leaves no call to be made. The same holds for the parts of a semaphore.
//
// # Guarantees
//
// These are stated against this package. A test explores a small world: three agents and a
// model of the store, in which calls and messages are lost, late and repeated, and agents are killed at any event and
// go on from their journals. It visits the first 3,000 states of each variant, and in make soak the first 30,000. The
// latter cover at least all schedules of four to eleven actions after the set-up. Beyond them the test walks at random.
// make soak also plants a defect in each rule of settle, which these tests and the random histories have to find. A
// [Latch] has a small world of its own, with two agents, and its schedules begin with the first request.
//
//   - Two owners never hold the lock inside their deadlines at the same time, unless both
//     share it. See below for deadlines.
//   - Tokens grow. The token of an exclusive grant is greater than all before. The token of
//     a shared grant is greater than those of all exclusive grants before.
//   - If the agent dies, a hold keeps others out for no longer than its request asked for, or for
//     [lockagent.PassLease] if that is longer. A shared hold may do so for the longest time that any hold beside
//     it asked for.
//   - A hold that is to outlive its process is granted when the store has confirmed its lease, and not before.
//   - A fair lock goes to the first place in the store's queue, unless a message or a call was
//     lost, a lease has run out, or outsiders had their turn.
//   - Nobody goes on waiting for a lock that the agent was told is free, nor for a ghost.
//   - No try for a lock is refused for a ghost of its agent, unless the ghost is there again after the store has
//     answered about it.
//   - Nobody who waits for a fair lock or a semaphore goes on in a place that the store has taken, once the
//     agent was told that it may have done so.
//   - Every request is answered exactly once. So is every call to release.
//   - A waiter is told that a latch is open only if there was none at some instant of the wait.
//   - A waiter is told that a latch is gone only if somebody deleted the latch, if the store lost its data, or if the
//     store does not know that the latch was counted down. An agent that counts down leaves a note in the store, which
//     lasts for a minute. An outsider only sends a message. The store may miss that message in three ways: the message
//     is lost, it comes after the answer to a question, or another message follows before that answer. The store on
//     Redis waits a moment for a late message, and remembers a message that another one followed.
//   - Nobody goes on waiting for a latch that is open if the agent was told, or after the next question. When nobody
//     waits any more, the subscription to the latch ends.
//   - When all owners have gone, the store has nothing of this agent, provided that it
//     answered before the lease had run out.
//
// The deadline counts from an instant before the store began to count the lease:
//
//	granted or renewed:  deadline = instant before the call + lease - margin
//	passed:              deadline = instant before the last attempt
//	                                + (store's time of the pass - store's time of the busy answer)
//	                                + lease - margin
//
// # Not guaranteed
//
// Nothing bounds how late a [Tick] arrives: the shell and the machine decide that. Every
// decision uses the instant at which it is made. So a late tick ends a hold late, but a hold
// that has passed its deadline is never handed off.
//
// # Concurrency
//
// A State or a Fair belongs to one goroutine at a time.
package lockstate
