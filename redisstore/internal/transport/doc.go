// Package transport carries scripts and messages between the store and Redis: one
// server, the master that Sentinels name, or a Cluster. It knows nothing of locks.
//
//   - [Servers] knows which server serves which slot, follows failovers and
//     resharding, and keeps the connections.
//   - [Lanes] carries calls of scripts. Each server has one lane. Calls that come while
//     the lane is busy gather, and travel together.
//   - [Node.Ask] asks one server a question.
//   - [Subscriptions] delivers the messages of channels. It also tells when a
//     subscription stands again after an interruption.
//
// # Connections
//
// A line is a connection of a lane, for one exchange at a time. Whoever makes the exchange writes and reads the
// connection, by the client library, which a guard gives nothing but whole replies. A session is read all the time, for
// questions and messages. There the package speaks RESP3 by itself: in a goroutine of the library, an answer that the
// library does not expect would end the process. Whatever a server sends, a call ends with an error at most, what
// cannot be understood costs the connection, and no reply takes more memory than 64 MB.
//
// # Errors
//
// Calls end with the errors of the lockagent package, which have the server's words and
// advice. [Connect] returns the server's error as it is: [Error] translates it.
//
// # Concurrency
//
// Everything is safe for concurrent use. The transport holds no mutex, and occupies no
// lane, while it calls the store with an answer or a message.
package transport
