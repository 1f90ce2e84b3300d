// Package memstore is a [lockagent.Store] in memory, for one process. It is for tests, for
// programs that need locks only inside one process, and the model for the tests of other
// stores.
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
//   - It starts no goroutine. It starts a timer only for a call that hangs (see Testing).
//   - The caller's goroutine calls done before the method returns. Before that it calls the
//     functions of subscribers, listeners and OnReset. The store holds no mutex meanwhile: all
//     of them may call the store again.
//   - A lease ends on the nanosecond, rounded up to whole milliseconds, measured
//     by the monotonic clock. [lockagent.StoreTime] and tokens never go back,
//     whatever happens to the wall clock while the process runs.
//   - It has a queue for each lock, and passes locks on. Outsiders get their turn.
//   - It forgets unused names.
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
// The agent trusts a lease no longer than the store does. The store counts the lease from an
// instant during the call, and the agent from the start of the call. The message of a pass
// tells the instant from which its lease counts.
//
// A tenure that is over does not come back. Its number is not used again, so only a late
// Acquire could bring it back. If an Acquire has no answer, the agent knows that, and its
// Release withdraws the tenure for [Retention].
//
// Why tokens grow: a tenure begins at a time on the clock of the memory, and its tokens count
// from there. All locks share that clock, and it gives no time to two tenures.
//
//   - After a Release the next tenure begins above the last token, which the Release tells.
//   - After the end of a lease, a Break or a Reset the clock has moved on. A hold takes longer
//     than a microsecond, so the clock shows more than the tokens of the tenure.
//   - A floor ahead of the clock moves the clock there. It goes on at its own pace.
//
// # Not guaranteed
//
// Nothing outlives the process. The tokens of the next process are greater if nobody set the
// wall clock back in between, or if its requests have floors.
//
// The store refuses a floor that is more than a day ahead of its clock. It ignores a last token
// that is.
//
// # Concurrency
//
// A Store is safe for concurrent use. It serves one agent. Two agents with the same Store would
// exclude each other, but [lockagent.ReleaseReply].Others would count them as one.
//
// # Testing
//
// Test a program that uses locks with this store in place of a server. In a testing/synctest
// bubble it runs on the virtual clock. Make it inside the bubble. These methods stand for faults
// of a server and of an agent's connection, and for other programs:
//
//	store.SetOutage(err)        calls fail at once, until SetOutage(nil)
//	resume := store.Hang()      calls get no answer in time, and arrive late
//	store.Reset()               the server is emptied
//	store.StepClock(d)          the clock of the server is set
//	store.PlantHolder(...)      another program has the lock
//	store.PlantOutsider(...)    another program waits for the lock
//	store.PlantToken(...)       another program has had a token
//	store.PlantWaiter(...)      another program has a place at a fair lock
//	store.PlantValue(...)       the name is used for something else
//
// An outage or a hang belongs to one Store. Share gives each agent a Store, so a test can cut
// one agent off while others go on:
//
//	store := memstore.New()
//	locks, err := channelapi.New(channelapi.Config{Store: store})
//	// ... acquire, and then
//	resume := store.Hang()
//	// ... the grant is lost at its deadline, because no renewal is confirmed
//	resume()
package memstore
