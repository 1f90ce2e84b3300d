package events

import "github.com/lockagent/lockagent"

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
}

// Limits of what identifies a record, so that its identity has a bounded length
// and sorts as text.
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
