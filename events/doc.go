// Package events keeps the log of what happened to locks: it publishes the
// events of an agent to a NATS JetStream stream, reads the events of all agents
// back, and proves from them that no two holds of a lock overlapped.
//
// # Usage
//
// A [Publisher] is the [lockagent.Recorder] of one agent. A [Reader] replays a
// stream or follows it. An [Audit] judges what was read. [WriteLine] and
// [ReadLines] keep a log in a file.
//
// # Events on the wire
//
// Each event is one message: a CloudEvents 1.0 event in JSON, as [Append] writes
// it, under the subject that [AppendSubject] makes. The file asyncapi.json next to
// this package describes both. The headers of a message are Content-Type,
// Nats-Msg-Id (which is the id of the event) and, if the request was traced,
// traceparent.
//
//	attribute      value
//	id             <agent>:<epoch>:<sequence>
//	source         /lockagent/agent/<agent>
//	type           io.lockagent.lock.<kind>.v1, and for what is about no lock
//	               io.lockagent.agent.started.v1, io.lockagent.agent.stopped.v1,
//	               io.lockagent.store.reset.v1
//	subject        the lock, unless there is none or its name has characters that
//	               CloudEvents does not allow here, such as control characters
//	time           of the agent's clock, in microseconds, for people
//	sequence       <epoch>-<sequence>, padded so that it sorts as text
//	traceparent    the W3C trace context of the request
//
//	data           field of lockagent.Event; left out if it is zero
//	lock           Lock
//	owner          Owner
//	request        Request
//	tenure         Tenure
//	token          Token
//	how            How: "store" or "handoff"
//	count          Count
//	waiters        Waiters
//	waited_us      Waited, in microseconds
//	held_us        Held, in microseconds
//	lease_us       Lease, in microseconds
//	remaining_us   Remaining, in microseconds
//	store_time_us  StoreTime, in microseconds since 1970 on the clock of the store
//	until_us       Until, likewise
//	incarnation    Incarnation
//	reason         Reason, one word
//	error          Err
//	reset          Reset: from, to, reason, after_us, before_us
//
// # Guarantees
//
// A publisher never slows a lock: [Publisher.Record] takes well under a
// microsecond and does nothing but to queue. Every event that is recorded is
// stored once and only once, however often NATS goes away or is restarted in the
// meantime, as long as the queue has room. What finds no room is counted, and
// shows as a hole in the sequence numbers of the agent: events are never lost
// without a trace.
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
// [Publisher] and [Reader] are safe for concurrent use; [Audit] is not.
//
// # Testing
//
// The tests run against a real server in this process, and in another one that
// is killed and stopped.
package events
