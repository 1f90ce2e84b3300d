// Package eventscmd has the verb events, and those below it: what happened to locks, from the event log. The log is on
// a server of NATS, in a directory, in a file, or that of the daemon of this host.
package eventscmd
