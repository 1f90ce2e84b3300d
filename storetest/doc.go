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
// replies, wake-ups and states, and never for a time to pass; what they wait for
// has [Patience] to happen.
//
// [Compare] runs random histories against two stores that must agree. The
// blocking calls [Acquire], [Renew], [Release], [Break], [Inspect], [Subscribe]
// and [AwaitFree] are for any test that has to do with a store.
//
// # Guarantees
//
// Each case quotes the sentence of the contract that it proves, and prints it
// when it fails. A case fails for stores that break that sentence, and not for
// what the contract leaves open: spurious wake-ups, tokens that jump, a renewal
// that is put off.
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
