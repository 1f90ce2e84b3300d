// Package storetest holds the contract of [lockagent.Store] as tests. Every
// implementation of a store passes them, the one in memory too.
//
// # Usage
//
// A store in memory, or any other that runs on the clock of the process, is
// tested on virtual time:
//
//	func TestContract(t *testing.T) {
//		kinds := []lockagent.LockKind{lockagent.PlainLock}
//		storetest.RunInBubble(t, kinds, func(t *testing.T) *storetest.Harness {
//			store := memstore.New()
//			return &storetest.Harness{
//				Store: store,
//				Open:  func(testing.TB) lockagent.Store { return store.Share() },
//			}
//		})
//	}
//
// A store on a real server is tested by [Run], in real time. A case fails if a reply, a
// wake-up, a message or a state that it waits for takes longer than [Patience].
//
// Each chapter of the suite runs for each kind of locks that the store has and for which it holds. The
// names of the cases are chapter/clause for plain locks, and kind/chapter/clause for others.
//
// Prove the whole contract where that is cheapest. Where the same store meets other servers, or goes
// another way to them, the cases are enough that this can break:
//
//	storetest.Run(t, kinds, open, "Subscribe/", "Listen/", "Queue/", "Pass/")
//
// The first chapters are the whole contract of a [lockagent.Store] without layers that has plain locks. The others are
// for the layers and kinds that a store may have. A store claims them by its type and by the kinds that it names: the
// suite finds the layers by [lockagent.Layer], and skips the cases for which the store lacks one. So declare what a
// store has beside its type, as in var _ lockagent.Queue = (*Store)(nil), or a mistake in a method hides a chapter.
//
//	every store   Acquire Tenure Release Renew Lease Token Subscribe Reset BadRequest Concurrency Close
//	kinds         Kind ReadWrite Fenced Spin Fair Foreign
//	Messages      Listen Twins
//	Queue         Queue Pass ReadWriteQueue Outsiders
//	Rests         Rest NoRest
//	Operator      Break Inspect
//	Counters      Latch Permits Semaphore PermitIDs
//	History       Identity Time Memory
//	Grace         Grace GraceReadWrite GracePermits
//
// Most functions of a [Harness] may be nil, if the store cannot do what they are for. NoIncarnation says that the store
// cannot tell its incarnation. The suite skips the cases that need what is missing. A store whose grace periods can be
// switched off is tested twice, with and without them: see GracePeriods.
//
// [Compare] runs random histories against two stores that must agree. The
// blocking calls [Acquire], [Renew], [Release], [Break], [Inspect], [Subscribe] and [Listen] are for any test that
// uses a store.
//
// # Guarantees
//
// Each case quotes the sentence of the contract that it proves, and prints the sentence when
// it fails. A case fails only if the store breaks that sentence. It accepts what the contract
// leaves open: spurious wake-ups, repeated messages, tokens that jump, a renewal that is put
// off. Each case finds at least one defect: the tests of this package plant defects in a
// sound store, one at a time, and expect the right case to fail.
//
// # Not guaranteed
//
// The suite does not make a server or the network fail. A store that can meet such failures
// has tests of its own for them.
//
// # Concurrency
//
// Several goroutines of one test may use the blocking calls at once.
package storetest
