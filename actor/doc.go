// Package actor is the shell around the state machines of package lockstate. Every lock name
// in use has an actor, with a mailbox, ticks, and asynchronous calls to the store.
// Applications use it through package channelapi.
//
// # Usage
//
// [New] makes an [Agent]. [Agent.Acquire] returns a channel that delivers the one grant of the
// request. [Agent.Lock] waits for that grant.
//
// [Agent.Close] ends all requests and holds. [Agent.Shutdown] lets the holders finish first.
// [Agent.Detach] gives nothing back: the next process goes on from the [Journal], by [Resume].
// Package saved has what is in it, and no other file of this package needs to know.
//
// # Where to begin
//
// Package lockstate first: it decides. Then five files, in this order:
//
//   - agent.go: what callers ask for. Who asks for a lock has a *request from then on, which is also the message to the
//     actor. Most other calls are a *call: see message.go.
//   - registry.go: which actor gets the message.
//   - mailbox.go: who runs the actor.
//   - step.go: most messages become a command of the state machine. The machine keeps what it decides about. The actor
//     keeps the *request in lock.requests until its hold is over, and the *call in lock.calls until it is answered:
//     lock.go has all fields of an actor.
//   - effects.go: what the actor does about each event of the machine. It answers a request with a grant or with a
//     denial, and ends the hold.
//
// The other files are about one thing each, and can wait until it matters:
//
//	what                                       begins at              in
//	a caller waits, and is woken               Agent.Lock             caller.go
//	a release                                  request.ReleaseAsync   request.go, and caller.go if the caller waits
//	the end of a wait, by its context or time  request.watch          request.go, and caller.go if the caller waits
//	an extension, until the store confirms it  request.ExtendAsync    extension.go
//	the end of a hold                          request.end            request.go
//	a call to the store, and its answer        storeCall              store.go
//	a change of permits or of a latch          Agent.Permits          operations.go: no actor takes part
//	a wait for a latch                         Agent.Await            operations.go: a request that is never granted
//	a look at a lock, or a break               Agent.Status           store.go, and agent.go if the name has no actor
//	Wanted and Uncertain                       request.warning        warning.go
//	which kind of lock has which machine       machinesOf             machine.go
//	a lock that another process has left       Agent.load, lock.goOn  handover.go
//	a panic in code of ours                    lock.recover           lock.go
//
// # How an actor comes and goes
//
// The first message to a lock makes its actor. An idle actor retires. No message may reach an
// actor that has retired, so the registry has a count for each actor: the messages that are
// sent and not yet processed, and the store calls under way.
//
//   - A sender raises the count before it sends. If the actor has retired, that fails, and the
//     sender makes a new actor.
//   - The actor retires by one compare-and-swap, which fails unless the count is zero.
//
// An actor whose caller was refused, or has only looked, retires at once if it has nothing else, and then answers.
// So the name can be used as another kind by whoever has the answer. An idle actor also retires when the
// name is wanted as another kind.
//
// Ticks, wake-ups and ended contexts are not counted: an idle actor has nothing to do about
// them.
//
// The goroutine that sends a message to an idle actor also runs the actor. That may be a
// goroutine of an owner, of the store, of a timer or of a broadcast. So a hand-off needs no goroutine
// besides those of the two owners.
//
// Each lock has a timer of the runtime, which sends the actor a tick when the state machine wants one.
//
// # Guarantees
//
//   - Every request is answered exactly once: also when the actor panics, and when the agent is closed.
//   - A store that panics counts as unavailable. No lock is lost when a recorder panics.
//   - A grant is given back if nobody receives it, or if nothing refers to it any more. Who waits for the end of a
//     hold counts as such.
//   - An actor never waits for a receiver, for the store or for the recorder. A channel has room
//     for its one value.
//   - The holder learns that its hold is over before anybody else gets the lock, and before
//     the lock goes back to the store.
//   - No waiter, subscription or idle lock costs a goroutine. There is one exception: package context starts a
//     goroutine for a waiter whose context has a Done channel of its own, and no AfterFunc method.
//
// # Not guaranteed
//
// A process that does not run learns nothing. Deadlines include the time for which the machine
// was suspended (on Linux), but the holder learns of them when it runs again.
//
// # Concurrency
//
// An [Agent] is safe for concurrent use. The state of a lock belongs to its actor. Other
// goroutines read only atomic fields of it.
//
// # Testing
//
// All times come from package time, so tests run an Agent over memstore in testing/synctest
// bubbles.
package actor
