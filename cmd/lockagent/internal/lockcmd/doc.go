// Package lockcmd has the verbs that take locks through the daemon, and those about what was taken: lock, acquire,
// attach, renew, release, check, slots, break and drain. Scripts start these again and again. So the package links
// nothing that only the daemon or a reader of the event log needs: no store, no NATS, no telemetry.
//
// A claim has a connection of its own, which follows what becomes of the claim. The command of lock inherits the
// connection, and so outlives the wrapper with its lock.
package lockcmd
