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

// tellUrgent logs why there is no second stream.
func (cfg *Config) tellUrgent(err error) {
	if err != nil {
		cfg.Logger.Warn("events: what has consequences is in the log only, and a flood of other events may push it out", "err", err)
	}
}

// readUrgent visits the records that only the second stream has any more, if the filter selects none but urgent ones. A
// log without a second stream has none. Who may read the log may lack the permission to ask for that stream, and then
// learns of no such record either.
func (r *Reader) readUrgent(ctx context.Context, log jetstream.Stream, from From, filter events.Filter, visit events.Visit) error {
	first := log.CachedInfo().State.FirstSeq
	if !filter.Urgent || from.policy == jetstream.DeliverNewPolicy || first <= max(1, from.position) {
		return nil
	}
	asked, cancel := context.WithTimeout(ctx, takersTimeout)
	defer cancel()
	copies, err := findStream(asked, r.js, urgentName(log.CachedInfo().Config.Name))
	switch {
	case ctx.Err() != nil:
		return causeOf(ctx)
	case errors.Is(err, jetstream.ErrStreamNotFound), errors.Is(err, context.DeadlineExceeded):
		return nil
	case err != nil:
		return r.failed(ctx, err)
	}
	last := copies.CachedInfo().State.LastSeq
	if last == 0 {
		return nil
	}
	begin := From{policy: from.policy, time: from.time}
	if from.position > 0 {
		begin = From{}
	}
	_, err = r.read(ctx, copies, begin, filter, last, func(record *events.Record, err error) error {
		if record.Position < max(1, from.position) || record.Position >= first {
			return nil
		}
		return visit(record, err)
	})
	return err
}

// placeOfCopy returns at which position of a log a message was that is a copy, or 0 for what is none.
func placeOfCopy(log string, m jetstream.Msg) (position uint64) {
	if rest, ok := strings.CutPrefix(m.Headers().Get(copiedFrom), log+" "); ok {
		text, _, _ := strings.Cut(rest, " ")
		position, _ = strconv.ParseUint(text, 10, 64)
	}
	return position
}
