// Package transport carries scripts and messages between a program and Redis: one
// server, the master that Sentinels name, or a Cluster. It knows nothing of locks.
//
//   - [Servers] knows which server serves which slot, follows failovers and
//     resharding, and keeps the connections.
//   - [Lanes] carries calls of scripts. Each server has one lane, which makes one
//     exchange at a time. What comes meanwhile gathers and travels together.
//   - [Subscriptions] has messages of channels delivered, and tells when a
//     subscription stands again after an interruption.
//
// # Errors
//
// All errors are those of the lockagent package, with the server's words and an advice,
// see [Error].
//
// # Concurrency
//
// Everything is safe for concurrent use. No mutex is held, and no lane is kept, while
// code of the owner is called with an answer or a message.
package transport
