// Package tcppeer tells which user of this host is at the other end of a TCP connection. A browser has no other way
// to a page than TCP, where the kernel attests no peer. But it tells the users of sockets, and both ends of a
// connection within the host are sockets that it has.
//
// # Guarantees
//
// The user is that of the process that made the socket. Somebody on another machine, or in another network namespace,
// is nobody: the kernel does not have that socket.
//
// # Not guaranteed
//
// A process may act for another user, such as a proxy. Then the user is that of the proxy.
//
// A process that connects to another address of its host than that of the loopback device may bind its socket to a
// device, such as eth0. Then it is nobody, as if it were on another machine.
package tcppeer
