package events

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events/internal/wire"
)

// Record is an event with its place in the log of its agent. It is a value. Compare two records with
// [Record.Equal]. Those without a Grace can be compared with == as well.
type Record struct {
	lockagent.Event

	// Epoch counts the lives of the agent, for agents that keep their identity
	// when they start again. At least 1.
	Epoch uint64

	// Seq counts the events of one agent in one epoch, from 1. An event that was
	// dropped leaves a hole.
	Seq uint64

	// Position is where the record stands in the stream or the file that it was
	// read from, from 1, or 0 if it was not read. It is not part of the encoded
	// event.
	Position uint64

	// Stored is when the stream took the record, by the clock of the server. It is zero if nobody knows that, such as of
	// a line of a file, or of a copy that outlived the record. It is not part of the encoded event either.
	Stored time.Time

	// Origin says from which streams forwarders have brought the message of the record, and which messages of these are
	// lost: its header Lockagent-Origin, or empty. It is not part of the encoded event either.
	Origin string

	// Follows is the last record that the agent had in the stream when this one, an
	// EventAgentStarted, was published: an earlier epoch. It is zero if there was none.
	Follows Place

	// Dropped says of an EventDropped how many events of each kind are missing.
	Dropped Drops

	// OtherVersion says that the event is of another version of the format than v1, so only its
	// envelope is known: its Kind is 0, and Raw has the rest.
	OtherVersion bool

	// Raw is empty if this version knows all of the event. Otherwise it is the encoded event as it was read: its kind,
	// its reason or a field is unknown. Of a table it is a table of one row. [Append] appends it instead of what the
	// other fields say. So unknown things pass through every reader.
	Raw string
}

// Place is the place of a record in the logs of an agent.
type Place struct{ Epoch, Seq uint64 }

// Equal reports whether two records are equal, with all that a Grace says.
func (r *Record) Equal(other *Record) bool {
	one, two := *r, *other
	one.Grace, two.Grace = nil, nil
	return one == two && r.Grace.Equal(other.Grace)
}

func ComparePlaces(a, b *Record) int {
	return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Seq, b.Seq))
}

// Drops counts events by [lockagent.EventKind].
type Drops [32]uint32

// String lists the kinds that were counted: "requested=12 granted=1".
func (d Drops) String() string {
	var b strings.Builder
	for k, n := range d {
		if n > 0 {
			fmt.Fprintf(&b, " %s=%d", lockagent.EventKind(k), n)
		}
	}
	return strings.TrimSpace(b.String())
}

// Add counts one more event of a kind.
func (d *Drops) Add(k lockagent.EventKind) {
	if int(k) >= len(d) {
		k = 0
	}
	if d[k] < math.MaxUint32 {
		d[k]++
	}
}

// Sum is how many events there are of all kinds.
func (d *Drops) Sum() uint64 {
	var n uint64
	for _, of := range d {
		n += uint64(of)
	}
	return n
}

// Limits of what identifies a record, so that its identity has a bounded length.
const (
	MaxEpoch = 1e10 - 1
	MaxSeq   = 1e16 - 1
)

// validAgent reports whether id can stand in a subject, a URI and a header as it
// is.
func validAgent(id lockagent.AgentID) bool {
	_, err := lockagent.ParseAgentID(string(id))
	return err == nil
}

func validKind(k lockagent.EventKind) bool { return k.String() != lockagent.EventKind(0).String() }

// Visit is called with each record of a stream or a file, in its order. What is
// there but is no event is passed as a [*DecodeError], with a record that has
// only its Position and its Origin. The records in front of it in the same message are passed before. An
// error that Visit returns ends the reading and is returned as it is.
//
// All records of one message have the Position of the message. A caller that handled only some
// of them reads again from that Position, and skips by Epoch and Seq. A caller that
// handled all of them reads on from the next Position.
//
// The record is valid until Visit returns, which may change it. Keep a copy of it, not the pointer.
type Visit func(*Record, error) error

// Append appends r to b as a CloudEvents 1.0 event in the JSON format, on one
// line without a line break at its end, and returns the result. It allocates
// nothing if b is large enough. If r has a Raw, that is what it appends.
//
// Times and durations are cut to microseconds, a time outside of the years 0 to
// 9999 is left out, and bytes that are not UTF-8 are replaced. The text of an EventHeld leaves
// Confirmed out if it is the StoreTime, and [Decode] takes that for it. Decode returns everything
// else as it was.
//
// r must have a known Kind and the identity that a agent gives, or a Raw.
func Append(b []byte, r Record) []byte {
	if r.Raw != "" {
		return append(b, r.Raw...)
	}
	return wire.AppendRecord(b, &r.Event, r.added(), new(wire.Before))
}

// HasNoHolds reports whether the agent has no holds, of a record that counts them: see [lockagent.EventAlive].
func (r *Record) HasNoHolds() bool { return r.Count == 0 && r.Sum == 0 }

func (r *Record) added() wire.Added {
	return wire.Added{
		Epoch: r.Epoch, Seq: r.Seq, FollowsEpoch: r.Follows.Epoch, FollowsSeq: r.Follows.Seq,
		Dropped: (*[wire.Drops]uint32)(&r.Dropped),
	}
}
