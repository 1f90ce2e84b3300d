// Package events keeps the log of what happened to locks. It publishes the events of an agent
// to a NATS JetStream stream, and reads the events of all agents back. Its audit says whether
// they prove that no two holds of a lock overlapped.
//
// # Usage
//
// A [Publisher] is the [lockagent.Recorder] of one agent, and has its identity. Close the locks
// before the publisher, for they have events until they are closed:
//
//	id := channelapi.NewAgentID()
//	publisher, err := events.NewPublisher(events.Config{Connection: events.Connection{URL: url}, Agent: id})
//	...
//	locks, err := channelapi.New(channelapi.Config{ID: id, Store: store, Recorder: publisher})
//	...
//	err = errors.Join(locks.Close(), publisher.Close(ctx))
//
// A [Reader] replays a stream or follows it. A [Fold] makes holds of what was read, and an [Audit]
// judges it. [WriteLine] and [ReadLines] keep a log in a file.
//
// All of them reach NATS by a [Connection]. [Connect] gives a program a connection of its own by the same
// options, and [DecodeMessage] reads what comes over it.
//
// # Messages
//
// A record is a CloudEvents 1.0 event in JSON, as [Append] writes it. A message has one
// record, or a JSON array with several records of one lock, in their order. The
// Content-Type header says which: [ContentType] or [BatchContentType]. In an array, holds that
// follow each other are one event, a table. [AppendBatch] writes arrays, and [DecodeMessage] reads
// all of this. The subject is
//
//	<prefix>.<agent>.<class>.<name>
//
// as [AppendSubject] makes it. The [Class] of a record that has consequences is its kind, so that
// subscribers can select such records. There may be more classes. The other headers are
//
//	Nats-Msg-Id       <agent>:<epoch>:<sequence>, or <first>-<last> in the place of the sequence
//	traceparent       of a message with one record, if the request was traced
//	Lockagent-Origin  <stream>.<position> of a message that a [Forwarder] has brought: where it
//	                  stood in its source. Behind messages that are lost there,
//	                  <stream>.<position>.<first>-<last>: they are among those from first to last
//
// A record has these attributes:
//
//	attribute      value
//	id             <epoch>:<sequence>, which no other event of the same source has
//	source         /lockagent/agent/<agent>
//	type           io.lockagent.lock.<kind>.v1, and for what is about no lock
//	               io.lockagent.agent.started.v1, .stopped.v1, .alive.v1, .dropped.v1
//	               and io.lockagent.store.reset.v1
//	subject        the lock, unless there is none or its name has characters that
//	               CloudEvents does not allow here, such as control characters
//	time           of the agent's clock, in microseconds, for people
//	traceparent    the W3C trace context of the request
//	data           the fields of the [Record]
//
// There is no datacontenttype: then the data is JSON, says CloudEvents. A reader takes one that
// says so, and a sequence (<epoch>-<sequence>) that agrees with the id: other programs may add them.
//
// A table has the type io.lockagent.lock.holds.v1. Each of its rows is the record of a hold that was not
// renewed:
//
//	id             that of the first row; each later row has the next sequence
//	time           that of the first row
//	data           the fields that all rows have in common, and
//	data.columns   the names of the others, and "time"
//	data.rows      an array for each row, with a value for each column
//
// A table has at most 256 rows. A null in a row is a field that is left out, or the time of the table. A
// column is time, or a field behind the mode that is no object. A reader takes columns in any order, and more or fewer of them. If it does not know one, [Record.Raw]
// is a table of one row. What [WriteLine] writes has a line for each record.
//
// A field of the data is left out if it is zero. Only count is always there in grants and
// ends: a proof cannot rest on a number that is perhaps missing. A held without a confirmed_us was
// confirmed at its store_time_us, and not renewed. Durations and times are in
// microseconds, and their names end in _us. The file schema/event-v1.json next to this package is
// the JSON Schema of an event and of a batch. It says what each field means, and which ones each
// kind has. The file asyncapi.json describes the stream. testdata/v1 has an example of each kind, of an
// array and of a table.
//
// # Promise
//
// Version 1 only grows: attributes, fields, types, reasons and other words are added, and none is
// removed or gets another meaning. A reader does not fail at what it does not know. It has the
// whole event in [Record.Raw]. [Append], [WriteLine] and every other writer here pass that on. What changes the meaning of a field makes a type that ends in .v2; of
// that a reader of version 1 knows only the envelope. From the first release on, the files under
// testdata/v1 never change.
//
// # Guarantees
//
// A lock never waits for NATS: [Publisher.Record] does nothing but to queue. That takes well under
// a microsecond, and the goroutine that sends shares the processors with the locks. A busy lock is
// slower by that: with the log, one that 64 goroutines want takes 1.2 to 1.6 times as long for a
// grant on two processors (docs/performance.md). As long as the queue has room, one record tells of
// every event, and the stream has every record exactly once, however often NATS is away or
// restarts. If the queue is full, the events of least value are dropped. Dropped events are
// counted, leave a hole in the sequence numbers of the agent, and an EventDropped says of which
// kinds they were. So no event is lost without a trace.
//
// Of two publishers with the same agent and epoch one stops with [ErrIdentity] or [ErrEpoch].
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
