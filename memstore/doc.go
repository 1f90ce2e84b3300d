// Package memstore is a [lockagent.Store] in memory, for one process: the store
// that an agent has when it is given no other, and the model that the other
// stores are tested against.
//
// # Usage
//
//	store := memstore.New()
//	defer store.Close()
//
// A second agent of the same process contends for the same locks through a
// Store of its own:
//
//	other := store.Share()
//	defer other.Close()
//
// # Guarantees
//
// The store passes package storetest, the contract of every store. Beyond that:
//
//   - It starts no goroutine and no timer. done is called before the method
//     returns, by the caller's goroutine, when no mutex is held: it may call the
//     store again. So are the wake functions of subscriptions, by the goroutine
//     that releases or breaks the lock, before done, and the functions of OnReset.
//   - A lease ends on the nanosecond, rounded up to whole milliseconds, measured
//     by the monotonic clock. [lockagent.StoreTime] and tokens never go back,
//     whatever happens to the wall clock while the process runs.
//   - It has a queue for each lock, and passes locks on.
//   - A call never fails with [lockagent.ErrStoreUnavailable].
//   - Names that are not used any more are forgotten, see [Retention].
//
// Why at most one tenure has a lock: all Stores that share a memory change it
// under one mutex, so their calls have one order. In that order a lock goes
//
//	        Acquire, unless withdrawn
//	free ------------------------------> held by one tenure --+ Release by that very
//	     <------------------------------                  <---+ tenure passes it on
//	      Release by that very tenure,
//	      Break, Reset, or its lease
//
// and while it is held nobody but that very tenure changes that: an Acquire of another
// one only gives it a place in the queue, a Renew changes nothing, and a Release only
// takes a place away. The lease of a tenure was counted from an
// instant no earlier than the start of the call that asked for it, so the agent,
// which counts from that start, stops trusting it no later than the lock is
// free. For a tenure that was passed the lock, the pass tells the instant. A tenure
// that was released is not granted again, nor passed the lock, because its number is
// remembered and only greater ones of that agent are.
//
// Why tokens grow: a range of tokens begins above the last one of the lock, and
// no lower than the clock in microseconds. A lock is forgotten only when the
// clock has passed its last token, so the clock then takes the place of the
// memory.
//
// # Not guaranteed
//
// Nothing outlives the process. Tokens of the next process are greater than
// those of this one as long as the wall clock was not set back in between; the
// floor of a request covers that case too.
//
// Two agents that share one Store, rather than have one each by [Store.Share],
// exclude each other, but the store does not count one as the other of the other:
// [lockagent.ReleaseReply].Others leaves it out.
//
// # Concurrency
//
// A Store is safe for concurrent use.
//
// # Testing
//
// In a testing/synctest bubble the store runs on the virtual clock of the bubble;
// make it inside of the bubble. [Store.Reset], [Store.PlantHolder] and
// [Store.PlantValue] stand for what else can happen to a store.
package memstore
