// Package api is the API of the daemon: the handlers of its services, which turn messages into claims and back. The
// standard service for health is there as well.
//
// Connect, gRPC and gRPC-Web clients can use it, and so can curl: see package [lockagentv1].
//
// [lockagentv1]: https://pkg.go.dev/github.com/lockagent/lockagent/proto/lockagent/v1
package api
