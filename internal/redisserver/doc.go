// Package redisserver starts redis-server processes and talks to them, past the
// code that uses them. They listen on free ports of 127.0.0.1, keep nothing on disk,
// and end with the process that started them. Several of them can form a Cluster. It is
// for tests, by way of package redistest, and for measurements.
//
// # Concurrency
//
// The methods of a server are for one goroutine at a time. [Server.Do],
// [Server.Dial], [Server.Addr] and [Server.URL] may be called by many.
package redisserver
