// Package lockagent is the dictionary of the lock manager: the types, ports and
// errors that every other package speaks in. It dials nothing and imports only
// the standard library. Applications import [channelapi] for the locks
// themselves and a store such as redisstore or memstore to arbitrate them.
//
// # Words
//
// One word stands for one idea, here, in the code, in metrics and in events.
//
//   - A lock is a [Name] that at most one [Owner] may hold.
//   - An owner is an explicit identity, never a goroutine or a thread.
//   - A request is one wish to hold a lock. It ends in exactly one [Grant],
//     which is held or carries an error.
//   - A token is the fencing number of a grant. It only grows.
//   - A lease is the time bound of a lock in the store. Kept leases are renewed
//     by the watchdog, fixed leases are not.
//   - The deadline is the local instant until which this process trusts its
//     lease: the start of the attempt, plus the lease, minus a margin.
//   - A hold is the time from a grant to its release or loss.
//   - A tenure is the time for which one agent has the lock in the store. Several
//     holds of local owners may follow each other inside one tenure: each change
//     is a hand-off, which costs no store call.
//   - An agent is one instance of the lock manager, with an [AgentID].
//   - A hold is released by its owner, expired when its fixed lease ran out,
//     lost when its deadline passed or the store denied it, and broken when an
//     operator ended it.
//
// # Guarantees
//
// One owner at a time holds a lock as long as clocks run at about the same
// rate; wall clocks are never compared between hosts. The holder learns that
// its hold is over before anybody else can be granted the lock. Every grant's
// token is greater than the token of every earlier grant of that lock.
//
// # Not guaranteed
//
// A process that was paused beyond its lease may act before it notices. Only a
// resource that refuses older tokens is safe against that.
//
// # Concurrency
//
// All types here are values or are safe for concurrent use, as each says.
//
// [channelapi]: https://pkg.go.dev/github.com/lockagent/lockagent/channelapi
package lockagent
