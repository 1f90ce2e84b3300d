// Package redistest runs real Redis servers for tests: a single one, a Cluster,
// or a master with a replica and a Sentinel. They listen on free ports of
// 127.0.0.1, keep nothing on disk, and are gone when the test is.
//
// # Usage
//
//	server := redistest.Start(t)
//	store, err := redisstore.Open(ctx, server.URL())
//	...
//	server.Do("FLUSHALL") // any command, past the code under test
//	server.Kill()
//	server.Restart() // same address, empty
//
// [Borrow] is for packages with many tests that need nothing but an empty server.
//
// A test that needs a server is skipped where redis-server is not installed,
// and fails there if the environment variable CI is set.
//
// # Concurrency
//
// The methods of a server are for one goroutine at a time. [Server.Do],
// [Server.Dial], [Server.Addr] and [Server.URL] may be called by many.
package redistest
