// Package storetest holds the contract of [lockagent.Store] as tests. Every
// implementation of a store passes them, the one in memory too.
//
// # Usage
//
// A store in memory, or any other that runs on the clock of the process, is
// tested on virtual time:
//
//	func TestContract(t *testing.T) {
//		storetest.RunInBubble(t, func(t *testing.T) *storetest.Harness {
//			store := memstore.New()
//			return &storetest.Harness{
//				Store: store,
//				Open:  func(testing.TB) lockagent.Store { return store.Share() },
//			}
//		})
//	}
//
// A store on a real server is tested by [Run], in real time. The cases wait for
// replies, wake-ups, messages and states. What they wait for has [Patience] to happen.
//
// What a store cannot do is left out of the [Harness]: most of its functions may be nil, and
// NoQueue is for a store without a queue. The cases about that are skipped then.
//
// [Compare] runs random histories against two stores that must agree. The
// blocking calls [Acquire], [Renew], [Release], [Break], [Inspect], [Subscribe], [Listen]
// and [AwaitFree] are for any test that has to do with a store.
//
// # Guarantees
//
// Each case quotes the sentence of the contract that it proves, and prints it
// when it fails. A case fails for stores that break that sentence, and not for
// what the contract leaves open: spurious wake-ups, repeated messages, tokens that jump, a
// renewal that is put off. Each case is known to find something: the package's own tests
// plant defects in a sound store, one at a time, and expect the cases to fail.
//
// # Not guaranteed
//
// What only happens when a server or the network fails is not tested here: a
// store that can meet it has tests of its own.
//
// # Concurrency
//
// The blocking calls may be used by several goroutines of one test at once.
package storetest
