package events

import (
	"time"

	"github.com/lockagent/lockagent"
)

// Record is an event with its place in the log of its agent. It is a value, and
// two records can be compared with ==.
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

	// Stored is when the stream took the record, by the clock of the server, or zero. It is
	// not part of the encoded event either.
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

	// Raw is empty if this version knows all of the event. Otherwise it is the encoded event as it was read: its kind, its
	// reason or a field is unknown. Of a table it is a table of one row. [Append] appends it instead of what the other
	// fields say. So unknown things pass through every reader.
	Raw string
}

// Place is the place of a record in the logs of an agent.
type Place struct{ Epoch, Seq uint64 }

// Drops counts events by [lockagent.EventKind].
type Drops [32]uint32

// Limits of what identifies a record, so that its identity has a bounded length.
const (
	maxEpoch = 1e10 - 1
	maxSeq   = 1e16 - 1
)

// validAgent reports whether id can stand in a subject, a URI and a header as it
// is.
func validAgent(id lockagent.AgentID) bool {
	_, err := lockagent.ParseAgentID(string(id))
	return err == nil
}

func validKind(k lockagent.EventKind) bool { return k.String() != lockagent.EventKind(0).String() }
