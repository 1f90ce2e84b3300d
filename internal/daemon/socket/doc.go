// Package socket listens on the Unix socket of the daemon, and tells who is at the other end of a connection.
//
// A daemon that lives keeps its socket: another one is refused, and leaves no trace. A socket file that a dead daemon
// left is replaced. The access rights of the socket are in place before the first client can connect.
package socket
