package events

import (
	"errors"
	"fmt"
)

var (
	// ErrBadURL is returned for a NATS address that cannot be understood.
	ErrBadURL = errors.New("events: bad NATS URL")

	// ErrEpoch is why a [Publisher] publishes nothing whose agent has used its
	// epoch, or a later one, before.
	ErrEpoch = errors.New("events: the stream has events of this epoch already; give a greater epoch")

	// ErrNoStream is returned by a [Reader] when NATS has no stream of the name.
	ErrNoStream = errors.New("events: no such stream; it is made when the first agent publishes to it")

	// ErrRewound is what a [Reader.Tail] is told when the stream ends before the
	// place up to which it was read: the server lost events, or the stream was
	// made anew.
	ErrRewound = errors.New("events: the stream ends before the place up to which it was read; events were lost")
)

// DroppedError is returned by [Publisher.Close] when not every event is known to
// be in the stream.
type DroppedError struct {
	// Dropped counts the events that are not in the stream, because the queue was
	// full, the publisher was closed or the server refused them.
	Dropped uint64

	// Unconfirmed counts the events that were left in the queue. Those that were
	// sent may be in the stream all the same.
	Unconfirmed uint64

	// Cause is why the last attempt to publish failed, or nil.
	Cause error
}

func (e *DroppedError) Error() string {
	text := fmt.Sprintf("events: %d dropped and %d not confirmed", e.Dropped, e.Unconfirmed)
	if e.Cause != nil {
		text += ": " + e.Cause.Error()
	}
	return text
}

// Unwrap returns the Cause.
func (e *DroppedError) Unwrap() error { return e.Cause }

// DecodeError says that something in a stream or a file is no event.
type DecodeError struct {
	Position uint64 // in the stream, or the line in the file
	Subject  string // of the message, or empty in a file
	Err      error
}

func (e *DecodeError) Error() string {
	if e.Subject == "" {
		return fmt.Sprintf("events: line %d: %v", e.Position, e.Err)
	}
	return fmt.Sprintf("events: message %d, subject %q: %v", e.Position, e.Subject, e.Err)
}

// Unwrap returns what is wrong with it.
func (e *DecodeError) Unwrap() error { return e.Err }
