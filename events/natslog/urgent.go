package natslog

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent/events"
)

// A log that is bounded forgets its oldest messages. So whoever floods it with grants could remove what tells of a
// loss, or of a break. Messages of the kinds that are [events.Urgent] are therefore also in a second stream, which has
// no room for others. The server copies them. A copy says at which position of the log its message was.

const (
	// urgentShare is how small the second stream is: the log has so many times as many bytes.
	urgentShare = 8

	// copiedFrom is the header of a copy. It begins with the name of the stream and the position there.
	copiedFrom = "Nats-Stream-Source"
)

// urgentName is the name of the second stream of a log.
func urgentName(stream string) string { return stream + "_URGENT" }

// urgentOf is what the second stream of a log is like.
func urgentOf(log *jetstream.StreamConfig, prefix string) jetstream.StreamConfig {
	source := &jetstream.StreamSource{Name: log.Name}
	for _, subject := range (&events.Filter{Urgent: true}).Subjects(prefix) {
		source.SubjectTransforms = append(source.SubjectTransforms, jetstream.SubjectTransformConfig{Source: subject})
	}
	return jetstream.StreamConfig{
		Name:        urgentName(log.Name),
		Description: "what has consequences of stream " + log.Name,
		Sources:     []*jetstream.StreamSource{source},
		Storage:     log.Storage,
		Compression: log.Compression,
		AllowDirect: log.AllowDirect,
		Replicas:    log.Replicas,
		MaxBytes:    log.MaxBytes / urgentShare,
		MaxAge:      log.MaxAge,
		Discard:     jetstream.DiscardOld,
	}
}

// makeUrgent makes the second stream of a log, or gives it the present limits of the log. A log without a bound needs
// none.
func makeUrgent(ctx context.Context, js jetstream.JetStream, log *jetstream.StreamConfig, prefix string) error {
	if log.MaxBytes <= 0 {
		return nil
	}
	want := urgentOf(log, prefix)
	_, err := js.CreateStream(ctx, want)
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		_, err = js.UpdateStream(ctx, want)
	}
	if err != nil {
		return fmt.Errorf("stream %q: %w", want.Name, noRoomFor(&want, err))
	}
	return nil
}

// logUrgent logs why there is no second stream.
func (cfg *Config) logUrgent(err error) {
	if err != nil {
		cfg.Logger.Warn(
			"events: what has consequences is in the log only, and a flood of other events may push it out", "err", err,
		)
	}
}

// readUrgent visits the records that only the second stream has any more, if the filter selects none but urgent ones.
// It leaves out those up to the position copied of the log, and returns the position up to which it has read.
//
// A log without a second stream has no such records. Who may read the log may lack the permission to ask for that
// stream, and then learns of no such record either: a warning says so.
func (r *Reader) readUrgent(
	ctx context.Context, log jetstream.Stream, from From, copied uint64, filter events.Filter, visit events.Visit,
) (uint64, error) {
	first := log.CachedInfo().State.FirstSeq
	from.position = max(from.position, copied+1)
	if !filter.Urgent || from.policy == jetstream.DeliverNewPolicy || first <= from.position {
		return copied, nil
	}
	copies, err := r.findCopies(ctx, urgentName(nameOf(log)))
	if copies == nil || err != nil {
		return copied, err
	}
	last := copies.CachedInfo().State.LastSeq
	if last == 0 {
		return copied, nil
	}
	begin := From{policy: from.policy, time: from.time}
	if from.policy == jetstream.DeliverByStartSequencePolicy {
		begin = From{}
	}
	read, err := r.read(ctx, copies, begin, filter, last, func(record *events.Record, err error) error {
		if record.Position < from.position || record.Position >= first {
			return nil
		}
		return visit(record, err)
	})
	if errors.Is(err, ErrNoStream) {
		err = &interruption{fmt.Errorf("stream %q was removed while it was read", nameOf(copies))}
	}
	return max(copied, min(read, first-1)), err
}

// readForgotten is readUrgent, again and again until the log has forgotten nothing more in the meantime. It returns the
// log as it is then.
func (r *Reader) readForgotten(
	ctx context.Context, log jetstream.Stream, from From, copied uint64, filter events.Filter, visit events.Visit,
) (jetstream.Stream, uint64, error) {
	for {
		read, err := r.readUrgent(ctx, log, from, copied, filter, visit)
		if err != nil || read == copied {
			return log, read, err
		}
		copied = read
		now, err := r.stream(ctx)
		if err != nil {
			return log, copied, err
		}
		if now.CachedInfo().State.FirstSeq == log.CachedInfo().State.FirstSeq {
			return now, copied, nil
		}
		log = now
	}
}

// findCopies returns the second stream of a log, or nil if there is none or if we may not ask for it. A server that
// does not answer in time is an error: there may be copies.
func (r *Reader) findCopies(ctx context.Context, name string) (jetstream.Stream, error) {
	asked, done := r.copies.while(ctx)
	defer done()
	copies, err := r.named(asked, name)
	switch {
	case ctx.Err() != nil:
		return nil, causeOf(ctx)
	case errors.Is(err, ErrNoStream):
		return nil, nil
	case errors.Is(err, ErrNotPermitted):
		r.cfg.Logger.Warn("events: what the log has forgotten is not read, though it may have had consequences", "err", err)
		return nil, nil
	}
	return copies, err
}

// placeOfCopy returns at which position of a log a message was that is a copy, or 0 for what is none.
func placeOfCopy(log string, m jetstream.Msg) (position uint64) {
	if rest, ok := strings.CutPrefix(m.Headers().Get(copiedFrom), log+" "); ok {
		text, _, _ := strings.Cut(rest, " ")
		position, _ = strconv.ParseUint(text, 10, 64)
	}
	return position
}
