// Package forgettest has stores forget what they were told, while two processes use them all the time. It counts what
// that costs:
//
//   - holds that overlap, and holds that are lost,
//   - requests that nobody answers,
//   - tokens that fall,
//   - and the time in which nobody is granted a lock.
//
// It is for tests of make soak.
//
// # Usage
//
//	func TestMain(m *testing.M) {
//		// never returns in a process that Run has started
//		forgettest.Child(map[string]forgettest.Open{"lockagent": forgettest.OpenLockagent})
//		goleak.VerifyTestMain(m)
//	}
//
//	func TestSoakForgets(t *testing.T) {
//		for _, c := range forgettest.Cases {
//			figures := c.Run(t, "lockagent", forgettest.Kinds)
//			...
//		}
//	}
//
// [Case.Run] starts the servers, and the test binary twice more. Each of these processes is an agent: its workers take
// locks, and it writes down when. Then the store forgets, and what the agents have written down is judged. What takes
// the locks is a [Locks], so other libraries can be put to the same test.
//
// # Concurrency
//
// Tests in parallel may run cases. Each run has servers and processes of its own.
package forgettest
