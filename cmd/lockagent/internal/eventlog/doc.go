// Package eventlog says where an event log is: on a server of NATS, by flags, or in a directory.
package eventlog
