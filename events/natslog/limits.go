package natslog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Limits bound what a stream keeps. The oldest events are removed. What is not positive is no bound.
type Limits struct {
	MaxBytes int64
	MaxAge   time.Duration
}

// SetLimits gives the stream other limits, if it has others, and leaves the rest of it as it is. It is for a stream
// that belongs to the caller alone: a [Publisher] never changes one. Smaller limits remove events at once. It returns
// the limits that the stream had.
//
// The error is [ErrNoStream] if nobody has published yet: then the first publisher makes the stream with its own
// limits. It is [ErrNoRoom] if the server has not the room that the limits allow. Otherwise it is that of [Connect], or
// why the server refuses the limits.
func SetLimits(ctx context.Context, cfg ReaderConfig, want Limits) (had Limits, err error) {
	if err := cfg.check(); err != nil {
		return had, err
	}
	nc, err := Connect(cfg.Connection)
	if err != nil {
		return had, err
	}
	defer nc.Close()
	js, err := cfg.JetStream(nc)
	if err != nil {
		return had, err
	}
	ctx, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	stream, err := findStream(ctx, js, cfg.Stream)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return had, fmt.Errorf("%w: %s", ErrNoStream, cfg.Stream)
	case err != nil:
		return had, fmt.Errorf("events: limits of stream %q: %w", cfg.Stream, err)
	}
	is := stream.CachedInfo().Config
	had = limitsOf(&is)
	want = want.plain()
	if had == want {
		return had, limitUrgent(ctx, js, &is, cfg.Prefix)
	}
	is.MaxBytes, is.MaxAge = want.MaxBytes, want.MaxAge
	if want.MaxBytes == 0 {
		is.MaxBytes = -1
	}
	if ours := duplicates(had.MaxAge); is.Duplicates == ours || want.MaxAge > 0 && is.Duplicates > want.MaxAge {
		is.Duplicates = duplicates(want.MaxAge)
	}
	if _, err := js.UpdateStream(ctx, is); err != nil {
		return had, fmt.Errorf("events: limits of stream %q: %w", cfg.Stream, noRoomFor(&is, err))
	}
	return had, limitUrgent(ctx, js, &is, cfg.Prefix)
}

// limitUrgent gives the second stream of a log the limits that follow from those of the log.
func limitUrgent(ctx context.Context, js jetstream.JetStream, log *jetstream.StreamConfig, prefix string) error {
	if err := makeUrgent(ctx, js, log, prefix); err != nil {
		return fmt.Errorf("events: limits: %w", err)
	}
	return nil
}

// limitsOf are the limits of a stream.
func limitsOf(cfg *jetstream.StreamConfig) Limits { return Limits{cfg.MaxBytes, cfg.MaxAge}.plain() }

// plain has 0 for no bound.
func (l Limits) plain() Limits { return Limits{max(0, l.MaxBytes), max(0, l.MaxAge)} }

// duplicates is for how long a stream remembers the ids of messages. The server insists that it is not longer than it
// keeps them.
func duplicates(maxAge time.Duration) time.Duration {
	if maxAge > 0 {
		return min(remembered, maxAge)
	}
	return remembered
}
