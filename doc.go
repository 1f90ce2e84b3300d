// Package lockagent is the dictionary of the lock manager: the types, ports and
// errors that all other packages use. It dials nothing and imports only the
// standard library.
//
// # Usage
//
// Applications import [channelapi] for the locks, and redisstore or memstore for the
// store behind them:
//
//	store, err := redisstore.Open(ctx, "redis://localhost:6379")
//	...
//	locks, err := channelapi.New(channelapi.Config{Store: store})
//	...
//	err = locks.Lock("orders/42").Do(ctx, func(ctx context.Context, g channelapi.Grant) error {
//		return charge(ctx, g.Token()) // ctx ends when the lock is lost
//	})
//
// [Store] and [Recorder] are the two ports. A new kind of store implements Store, and a
// new destination of events implements Recorder.
//
// # Words
//
// One word stands for one idea, here, in the code, in metrics and in events.
//
//   - A lock is a [Name] that at most one [Owner] may hold at a time.
//   - An owner is an explicit identity. It is never a goroutine or a thread.
//   - An agent is one instance of the lock manager, with an [AgentID]. It serves the owners
//     of its process.
//   - A request asks for one lock, for one owner. It is answered with one [Grant], which is
//     held or carries an error.
//   - A hold is the time from a grant to its release or loss. An owner that holds the lock
//     may be granted it again (re-entry). The hold then ends with the last of its grants.
//   - A token is the fencing number of a hold. It grows from hold to hold.
//   - A lease is the time bound of a lock in the store. The agent renews kept leases. It
//     does not renew fixed leases.
//   - The deadline is the instant until which the agent trusts a lease. It counts from the
//     last store call that was confirmed: deadline = instant before the call + lease - margin.
//     The margin makes up for clocks that run at different rates.
//   - A tenure is the time for which one agent has the lock in the store. Owners of that
//     agent can hold the lock one after the other inside one tenure.
//   - A hand-off is the change from one owner to the next inside a tenure. It needs no
//     store call.
//   - A pass is the change from one tenure to the next in the store, by a release. See
//     [Store] for the queue behind it.
//   - A rest is the time for which an agent keeps a lock that nobody holds. The next hold then
//     needs no store call. See [Rests].
//   - An outsider is a program that waits for a lock and does not know of the store's
//     queue, such as Redisson.
//   - An incarnation is one life of a store. If a store loses its data or is restarted, or if
//     another server takes over, it is another incarnation.
//   - Over is what has ended for good: a request, a hold or a tenure.
//   - To record is to give an event to the [Recorder].
//   - To tell a holder is to have it learn that its hold is over, see below.
//
// A hold ends when its owner releases it, or against the will of its owner. The [LossReason]
// of a [*LostError] says how. Events have four words for such an end:
//
//   - Expired: the fixed lease ran out, or nobody renewed the time to live of a claim on a daemon.
//   - Broken: an operator ended the hold.
//   - Unclaimed: nobody received the grant, the application dropped it, or the client of a daemon did not come back
//     after a restart of the daemon.
//   - Lost: all else, such as a deadline that passed.
//
// # Guarantees
//
// One owner at a time holds a lock as long as clocks run at about the same
// rate. Nothing compares the wall clocks of two hosts.
//
// The holder learns that its hold is over before anybody else can be granted the lock.
// There are three exceptions: the process did not run, the store forgot the lock, or another
// process deleted or broke it. The holder then learns of it afterwards.
//
// Every hold has a greater token than all holds of that lock before it. Only readers in several agents may have the
// same token, or tokens out of order.
//
// # Not guaranteed
//
// A process that was paused for longer than its lease may act before it notices the loss.
// The resource that the lock protects is safe if it refuses older tokens.
//
// # Concurrency
//
// Types are values, or their documentation says that they are safe for concurrent use.
//
// [channelapi]: https://pkg.go.dev/github.com/lockagent/lockagent/channelapi
package lockagent
