package events

import (
	"fmt"
	"strings"
)

// DecodeError says that something in a stream or a file is no event.
type DecodeError struct {
	Position uint64 // in the stream, or the line in the file
	Subject  string // of the message, or empty in a file
	Err      error
}

func (e *DecodeError) Error() string {
	why := strings.TrimPrefix(e.Err.Error(), "events: ")
	if e.Subject == "" {
		return fmt.Sprintf("events: line %d: %s", e.Position, why)
	}
	return fmt.Sprintf("events: message %d, subject %q: %s", e.Position, e.Subject, why)
}

// Unwrap returns what is wrong with it.
func (e *DecodeError) Unwrap() error { return e.Err }
