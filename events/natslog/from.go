package natslog

import (
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// From says where in a stream to begin. The zero From is the beginning.
type From struct {
	policy   jetstream.DeliverPolicy
	position uint64
	time     time.Time
}

// FromPosition begins with the record at a [events.Record.Position], or the first after
// it that there still is.
func FromPosition(n uint64) From {
	return From{policy: jetstream.DeliverByStartSequencePolicy, position: max(n, 1)}
}

// FromTime begins with the first record that arrived at the stream at t or later,
// by the clock of the server.
func FromTime(t time.Time) From {
	return From{policy: jetstream.DeliverByStartTimePolicy, time: t}
}

// FromNow begins with the first record that arrives after the call to
// [Reader.Tail].
func FromNow() From { return From{policy: jetstream.DeliverNewPolicy} }

// before is up to which position a stream has messages that come before.
func (from From) before(stream jetstream.Stream) uint64 {
	if from.position == 0 {
		return 0
	}
	return min(from.position-1, stream.CachedInfo().State.LastSeq)
}
