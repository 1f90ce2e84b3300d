package natslog

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// answered is what a server says to a published message.
type answered struct {
	Stream    string              `json:"stream"`
	Seq       uint64              `json:"seq"`
	Duplicate bool                `json:"duplicate"`
	Error     *jetstream.APIError `json:"error"`
}

// Codes of refusals.
const (
	errAccountFull jetstream.ErrorCode = 10002
	errNoRoom      jetstream.ErrorCode = 10023
	errNoStorage   jetstream.ErrorCode = 10047
	errTooLarge    jetstream.ErrorCode = 10054 // the message exceeds the limit of its stream
	errWrongLast   jetstream.ErrorCode = 10071 // the last message is another than expected
)

// noRoom reports whether a server or an account has no room left for a stream.
func noRoom(code jetstream.ErrorCode) bool {
	return slices.Contains([]jetstream.ErrorCode{errAccountFull, errNoRoom, errNoStorage}, code)
}

// parseAnswer returns the answer to a message with one of the subjects, which was meant for a
// stream. The error says what is wrong with it.
func parseAnswer(m *nats.Msg, stream, subjects string) (a answered, err error) {
	if m.Header.Get("Status") == "503" {
		return a, fmt.Errorf("no stream takes the subjects %q; add them to stream %q", subjects, stream)
	}
	if err := json.Unmarshal(m.Data, &a); err != nil {
		return a, fmt.Errorf("unexpected answer: %w", err)
	}
	return a, a.check(stream)
}

// check returns what is wrong with the answer to a message that was meant for a stream.
func (a *answered) check(stream string) error {
	switch {
	case a.Error == nil && a.Stream == stream:
		return nil
	case a.Error == nil:
		return fmt.Errorf("stream %q takes the subjects of stream %q", a.Stream, stream)
	case noRoom(a.Error.ErrorCode):
		return fmt.Errorf("the NATS server or the account has no room left for stream %q: %w", stream, a.Error)
	case a.Error.ErrorCode == errWrongLast:
		return fmt.Errorf("another program publishes to stream %q too: %w", stream, a.Error)
	}
	return fmt.Errorf("stream %q does not store what is published; it may be full: %w", stream, a.Error)
}
