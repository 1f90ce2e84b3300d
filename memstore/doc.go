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
//   - It starts no goroutine, and a timer only for a call that hangs (see Testing). done is
//     called before the method returns, by the caller's goroutine. Before that, the same
//     goroutine wakes subscribers, tells messages and calls the functions of OnReset. No
//     mutex is held meanwhile: all of them may call the store again.
//   - A lease ends on the nanosecond, rounded up to whole milliseconds, measured
//     by the monotonic clock. [lockagent.StoreTime] and tokens never go back,
//     whatever happens to the wall clock while the process runs.
//   - It has a queue for each lock, and passes locks on. Outsiders get their turn.
//   - Names that are not used any more are forgotten.
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
// While a lock is held, only its own tenure and Break change that. An Acquire of another
// tenure only takes a place in the queue. A Renew of another changes nothing. A Release of
// another only takes a place away, or withdraws that other tenure.
//
// The agent trusts its lease no longer than the store does: the store counts the lease
// from an instant during the call, the agent from the start of the call. A pass tells the
// instant from which it counts.
//
// A tenure that is over does not come back. Its number is not used again, so only a late
// call could bring it back. An Acquire that was answered is not late. One that was not
// answered is known to the agent, whose Release withdraws the tenure for [Retention].
//
// Why tokens grow: a tenure begins at a time of its own on the clock of the memory, and
// its tokens count from there. All locks share that clock, and it gives out no time twice.
//
//   - After a Release the next tenure begins above the last token, which the Release tells.
//   - After the end of a lease, a Break or a Reset the clock has moved on: a hold takes
//     longer than a microsecond, so no tenure's tokens are ahead of the clock.
//   - After a floor ahead of the clock it goes on from there, at its own pace.
//
// # Not guaranteed
//
// Nothing outlives the process. The tokens of the next process are greater if the wall clock
// was not set back in between, or if requests come with floors.
//
// A floor that is more than a day ahead of the wall clock is refused, and such a last token
// is ignored.
//
// # Concurrency
//
// A Store is safe for concurrent use. It serves one agent: two agents that share one
// exclude each other, but [lockagent.ReleaseReply].Others counts them as one.
//
// # Testing
//
// A program that uses locks can be tested with this store in place of a server. In a
// testing/synctest bubble it runs on the virtual clock of the bubble; make it inside of
// the bubble. These stand for what happens to a store, and to an agent's connection:
//
//	store.SetOutage(err)        calls fail at once, until SetOutage(nil)
//	resume := store.Hang()      calls get no answer in time, and arrive late
//	store.Reset()               the server is emptied
//	store.StepClock(d)          the clock of the server is set
//	store.PlantHolder(...)      another program has the lock
//	store.PlantOutsider(...)    another program waits for the lock
//	store.PlantValue(...)       the name is used for something else
//
// Faults belong to one Store. Share gives one to each agent, so that one agent can be cut
// off while others go on:
//
//	store := memstore.New()
//	locks, err := channelapi.New(channelapi.Config{Store: store})
//	// ... acquire, and then
//	resume := store.Hang()
//	// ... the grant is lost at its deadline, because no renewal is confirmed
//	resume()
package memstore
