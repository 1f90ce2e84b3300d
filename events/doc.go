// Package events defines the log of what happened to locks. A [Record] is one event, with its place in the log of its
// agent. The package writes records as JSON, and reads that JSON. It makes the NATS subjects of records. A [Filter]
// selects records.
//
// # Usage
//
// Other packages write the log, read it and judge it:
//
//   - package [github.com/lockagent/lockagent/events/natslog] publishes the events of an agent to a NATS JetStream
//     stream, reads the events of all agents back, and forwards a stream to another one;
//   - package [github.com/lockagent/lockagent/events/fold] makes of what was read who holds what and who waits;
//   - package [github.com/lockagent/lockagent/events/audit] says whether the records prove that no two holds of a lock
//     overlapped. It needs no NATS.
//
// [Append] and [Decode] write and read one record, [AppendBatch] and [DecodeMessage] the contents of a message, and
// [WriteLine] and [ReadLines] keep a log in a file. A [Filter] selects records.
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
//	Lockagent-Origin  <stream>.<position> of a message that a [natslog.Forwarder] has brought: where it
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
//	               and io.lockagent.store.reset.v1, .gracebegan.v1, .graceended.v1
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
// A table has at most 256 rows. A null in the column "time" is the time of the table. A null in another column says
// that the record leaves out that field. Each column but "time" is a field that stands behind the mode and is no
// object. A reader accepts columns in any order, and more or fewer of them. If a reader does not know a column,
// [Record.Raw] of each row is a table of that row. [WriteLine] writes a line for each record.
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
// Version 1 only grows: attributes, fields, types, reasons and other words are added, and none is removed or gets
// another meaning. A reader does not fail at what it does not know. It has the whole event in [Record.Raw]. [Append],
// [WriteLine] and every other writer here pass that on. What changes the meaning of a field makes a type that ends in
// .v2; of that a reader of version 1 knows only the envelope. From the first release on, the files under testdata/v1
// never change.
//
// # Concurrency
//
// All functions here may be called at the same time. A [Record] is a value.
//
// # Testing
//
// Golden files hold each kind of event, and fuzzers compare what is read with what was written.
package events
