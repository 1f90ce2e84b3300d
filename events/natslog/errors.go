package natslog

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"regexp"
	"sync"

	"github.com/nats-io/nats.go"
)

var (
	// ErrBadURL is returned for a NATS address that cannot be understood.
	ErrBadURL = errors.New("events: bad NATS URL")

	// ErrEpoch is why a [Publisher] publishes nothing whose agent has used its
	// epoch, or a later one, before.
	ErrEpoch = errors.New("events: the stream has events of this epoch already; give a greater epoch")

	// ErrIdentity is why a [Publisher] stops that shares its agent and epoch with another one.
	ErrIdentity = errors.New(
		"events: another publisher has the same agent and epoch; give each agent an identity of its own, and a greater " +
			"epoch each time it starts",
	)

	// ErrStream is why a [Publisher] publishes nothing to a stream that would lose events. It is
	// a [*StreamError].
	ErrStream = errors.New("events: the stream would lose events")

	// ErrNotPermitted is returned when NATS refuses us: it does not accept the
	// credentials or the client certificate, or the user lacks a permission. A
	// missing permission is a [*PermissionError].
	ErrNotPermitted = errors.New("events: NATS does not permit it")

	// ErrNoStream is returned by a [Reader] when NATS has no stream of the name.
	ErrNoStream = errors.New("events: no such stream; it is made when the first agent publishes to it")

	// ErrNoJetStream is returned when the NATS server is there, and nobody answers for JetStream.
	ErrNoJetStream = errors.New(
		"events: JetStream is not enabled in the NATS server or not for the account, or the domain is not there; write " +
			"\"jetstream: enabled\" in the configuration of the server and of the account, or correct the domain",
	)

	// ErrNoRoom is why a server refuses a stream, or other limits of one: it has not the room that the stream may take.
	ErrNoRoom = errors.New("the account or the servers have not so much; give them more, or configure a smaller MaxBytes")

	// ErrRewound is what a [Reader.Tail] is told when the stream ends before the
	// place up to which it was read: the server lost events, or the stream was
	// made anew.
	ErrRewound = errors.New("events: the stream ends before the place up to which it was read; events were lost")
)

// DroppedError is returned by [Publisher.Close] when not every event is known to
// be in the stream.
type DroppedError struct {
	// Dropped counts the events that are not in the stream, because the queue was
	// full or the publisher was closed.
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

// StreamError says which setting of an existing stream would lose events, or which other stream has the
// subjects, so that there can be no stream of that name. It is [ErrStream].
type StreamError struct {
	Stream  string
	Setting string // what is wrong
	Mend    string // the command of the NATS CLI that mends it, or what else to do

	lacks string // the subjects that an existing stream does not have
}

func (e *StreamError) Error() string {
	return fmt.Sprintf("events: stream %q would lose events: %s; %s", e.Stream, e.Setting, e.Mend)
}

// Is reports whether target is [ErrStream].
func (e *StreamError) Is(target error) bool { return target == ErrStream }

// EndError says at which end of a [Forwarder] something is wrong.
type EndError struct {
	End string // SourceEnd or HubEnd
	Err error
}

// The ends of a forwarder.
const (
	SourceEnd = "source"
	HubEnd    = "hub"
)

func (e *EndError) Error() string { return e.End + ": " + e.Err.Error() }

// Unwrap returns what is wrong.
func (e *EndError) Unwrap() error { return e.Err }

// PermissionError says what a user of NATS must be permitted to do and is not. It is
// [ErrNotPermitted].
type PermissionError struct {
	// Operation is "publish" or "subscribe".
	Operation string

	// Subject is what the user needs the permission for.
	Subject string
}

func (e *PermissionError) Error() string {
	return fmt.Sprintf(
		"events: NATS does not permit the user to %s to %q; give the permissions in docs/nats.md", e.Operation, e.Subject,
	)
}

// Is reports whether target is [ErrNotPermitted].
func (e *PermissionError) Is(target error) bool { return target == ErrNotPermitted }

// violation is how a server tells of a missing permission.
var violation = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`Permissions Violation for (Publish|Subscription) to "([^"]*)"`)
})

// badCertificate are the alerts with which a server refuses a client's certificate.
var badCertificate = []tls.AlertError{42, 43, 44, 45, 46, 48, 49, 116}

// explained returns err as an [ErrNotPermitted] if that is what it says.
func explained(err error) error {
	if errors.Is(err, nats.ErrPermissionViolation) {
		if found := violation().FindStringSubmatch(err.Error()); found != nil {
			operation := "publish"
			if found[1] == "Subscription" {
				operation = "subscribe"
			}
			return &PermissionError{operation, found[2]}
		}
		return fmt.Errorf("%w: %w", ErrNotPermitted, err)
	}
	for _, refusal := range []error{
		nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked, nats.ErrAccountAuthExpired,
	} {
		if errors.Is(err, refusal) {
			return fmt.Errorf("%w: check the credentials: %w", ErrNotPermitted, err)
		}
	}
	if alert, ok := errors.AsType[*net.OpError](err); ok && alert.Op == "remote error" {
		for _, bad := range badCertificate {
			if alert.Err.Error() == bad.Error() { // the type of what the TLS library returns has no name
				return fmt.Errorf("%w: check the client certificate: %w", ErrNotPermitted, err)
			}
		}
	}
	return err
}
