// Package natslog keeps the event log in NATS JetStream: it publishes the events of an agent to a stream, reads the
// events of all agents back, and forwards a stream to another one.
//
// # Usage
//
// A [Publisher] is the [lockagent.Recorder] of one agent, and has its identity. Close the locks
// before the publisher, for they have events until they are closed:
//
//	id := channelapi.NewAgentID()
//	publisher, err := natslog.NewPublisher(natslog.Config{Connection: natslog.Connection{URL: url}, Agent: id})
//	...
//	locks, err := channelapi.New(channelapi.Config{ID: id, Store: store, Recorder: publisher})
//	...
//	err = errors.Join(locks.Close(), publisher.Close(ctx))
//
// A [Reader] replays a stream or follows it. A [Forwarder] copies it to another one.
//
// All of them reach NATS by a [Connection]. [Connect] gives a program a connection of its own by the same
// options, and [events.DecodeMessage] reads what comes over it.
//
// # Guarantees
//
// A lock never waits for NATS: [natslog.Publisher.Record] does nothing but to queue. That takes well under
// a microsecond, and the goroutine that sends shares the processors with the locks. A busy lock is
// slower by that: with the log, one that 64 goroutines want takes 1.2 to 1.6 times as long for a
// grant on two processors (docs/performance.md). As long as the queue has room, one record tells of
// every event, and the stream has every record exactly once, however often NATS is away or
// restarts. If the queue is full, the events of least value are dropped. Dropped events are
// counted, leave a hole in the sequence numbers of the agent, and an EventDropped says of which
// kinds they were. So no event is lost without a trace.
//
// Of two publishers with the same agent and epoch one stops with [natslog.ErrIdentity] or [natslog.ErrEpoch].
//
// # Not guaranteed
//
// Events that are in the queue when the process dies are lost; then the log of
// the agent has no EventAgentStopped at its end. Events of one agent are stored
// in their order, unless the server refuses one for a moment. Between agents the
// order of the stream is that of arrival and means nothing: the grants of a lock
// are ordered by their tokens.
//
// # Concurrency
//
// [natslog.Publisher] and [natslog.Reader] are safe for concurrent use; [audit.Audit] is not.
//
// # Testing
//
// The tests run against a real server in this process, and in another one that
// is killed and stopped.
package natslog
