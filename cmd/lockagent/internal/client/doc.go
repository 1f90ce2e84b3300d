// Package client calls the daemon of this host, for verbs. It finds the socket, bounds how long a verb waits for a
// daemon that is silent, gives what the daemon refuses an exit code, and shows locks as the daemon tells of them.
//
// There is a daemon on Linux alone, and so is the rest of this package.
package client
