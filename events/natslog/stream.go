package natslog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent/events/internal/queue"
)

// remembered is how long a stream should remember message ids, and forgets at the earliest.
const (
	remembered      = 2 * time.Minute
	leastRemembered = 2 * ackTimeout
)

// stream returns the stream, which it makes if there is none.
func (s *sender) stream(ctx context.Context) (jetstream.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	want := s.p.cfg.stream()
	stream, err := findStream(ctx, s.js, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if stream, err = createStream(ctx, s.js, want); err == nil {
			s.p.cfg.logUrgent(makeUrgent(ctx, s.js, &want, s.p.cfg.Prefix))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("stream %q: %w", want.Name, err)
	}
	got := stream.CachedInfo().Config
	if flaw := askFlaw(ctx, s.js, &got, s.agent, s.p.cfg.Prefix+".>"); flaw != nil {
		return nil, flaw
	}
	if differ := differences(&got, &want); differ != "" && !s.warned[differ] {
		s.warned[differ] = true
		s.p.cfg.Logger.Warn("events: the stream has weaker settings than a new one would have; it is left as it is",
			"stream", want.Name, "settings", differ)
	}
	return stream, nil
}

// findStream asks JetStream for a stream. The error is [ErrNoJetStream] if nobody answers.
func findStream(ctx context.Context, js jetstream.JetStream, name string) (jetstream.Stream, error) {
	stream, err := js.Stream(ctx, name)
	refused, _ := errors.AsType[*jetstream.APIError](err)
	if errors.Is(err, nats.ErrNoResponders) || refused != nil &&
		(refused.ErrorCode == jetstream.JSErrCodeJetStreamNotEnabled ||
			refused.ErrorCode == jetstream.JSErrCodeJetStreamNotEnabledForAccount) {
		err = fmt.Errorf("%w: %w", ErrNoJetStream, err)
	}
	return stream, err
}

// leaderOf is findStream for a stream whose GetMsg asks the leader. With direct access any member of a cluster answers
// that has nearly all of the stream. The library decides by what the stream has cached. Its method Info caches that
// anew, and must not be used.
func leaderOf(ctx context.Context, js jetstream.JetStream, name string) (jetstream.Stream, error) {
	stream, err := findStream(ctx, js, name)
	if err == nil {
		stream.CachedInfo().Config.AllowDirect = false
	}
	return stream, err
}

// createStream makes a stream. The error is a [*StreamError] if another stream has its subjects.
func createStream(ctx context.Context, js jetstream.JetStream, cfg jetstream.StreamConfig) (jetstream.Stream, error) {
	stream, err := js.CreateStream(ctx, cfg)
	if refused, ok := errors.AsType[*jetstream.APIError](err); ok && refused.ErrorCode == errSubjectsTaken {
		others, _ := takers(ctx, js, cfg.Name, cfg.Subjects[0]) // perhaps we may not ask
		return nil, takenBy(others, cfg.Name, cfg.Subjects[0])
	}
	return stream, noRoomFor(&cfg, err)
}

// errSubjectsTaken is how the server refuses a stream with subjects that another stream has.
const errSubjectsTaken = 10065

// takersTimeout bounds the question who has some subjects. It has no answer if we may not ask.
const takersTimeout = time.Second

// takers returns the streams but ours that have some of the subjects.
func takers(ctx context.Context, js jetstream.JetStream, ours, subjects string) (others []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, takersTimeout)
	defer cancel()
	names := js.StreamNames(ctx, jetstream.WithStreamListSubject(subjects))
	for name := range names.Name() {
		if name != ours {
			others = append(others, strconv.Quote(name))
		}
	}
	slices.Sort(others)
	return others, names.Err()
}

// takenBy is why there can be no stream with the subjects. Nobody knows which the other streams are if others is empty.
func takenBy(others []string, stream, subjects string) *StreamError {
	return &StreamError{
		Stream:  stream,
		Setting: fmt.Sprintf("it cannot be made, because %s subjects of %s", have(others), subjects),
		Mend:    "configure that stream or another prefix, or take these subjects from there",
	}
}

// have says that the streams have something.
func have(streams []string) string {
	switch len(streams) {
	case 0:
		return "another stream has"
	case 1:
		return "stream " + streams[0] + " has"
	}
	return "streams " + strings.Join(streams, " and ") + " have"
}

// askFlaw returns the same as flawOf. It also says which other stream has the subjects that the stream lacks.
func askFlaw(ctx context.Context, js jetstream.JetStream, cfg *jetstream.StreamConfig, subjects, all string) error {
	err := flawOf(cfg, subjects, all)
	flaw, ok := errors.AsType[*StreamError](err)
	if !ok || flaw.lacks == "" {
		return err
	}
	if others, _ := takers(ctx, js, cfg.Name, flaw.lacks); len(others) > 0 { // perhaps we may not ask
		flaw.Setting += ", which " + have(others)
		flaw.Mend = "take them from there, and then " + flaw.Mend
	}
	return flaw
}

// noRoomFor makes [ErrNoRoom] of an error of a server that has no room for a stream. It returns others as they are.
func noRoomFor(cfg *jetstream.StreamConfig, err error) error {
	if refused, ok := errors.AsType[*jetstream.APIError](err); ok && noRoom(refused.ErrorCode) && cfg.MaxBytes > 0 {
		err = fmt.Errorf(
			"it shall have %d bytes on each of %d servers, and %w: %w", cfg.MaxBytes, cfg.Replicas, ErrNoRoom, err,
		)
	}
	return err
}

// stream is what a new stream is like.
func (cfg *Config) stream() jetstream.StreamConfig {
	compression := jetstream.S2Compression
	if cfg.InProcess != nil {
		compression = jetstream.NoCompression // the locks need the processor more than the disk its room
	}
	return jetstream.StreamConfig{
		Name:        cfg.Stream,
		Subjects:    []string{cfg.Prefix + ".>"},
		Storage:     jetstream.FileStorage,
		Compression: compression,
		Duplicates:  duplicates(cfg.MaxAge),
		AllowDirect: true,
		// For a Forwarder that has this stream as its hub.
		AllowAtomicPublish: true,
		Replicas:           cfg.Replicas,
		MaxBytes:           cfg.MaxBytes,
		MaxAge:             cfg.MaxAge,
		MaxMsgs:            -1,
		Discard:            jetstream.DiscardOld,
	}
}

// flawOf returns why a stream would lose what is published under the subjects, or nil. all are
// the subjects that it should have.
func flawOf(cfg *jetstream.StreamConfig, subjects, all string) error {
	flaw := func(setting, mend string) error {
		return &StreamError{Stream: cfg.Name, Setting: setting, Mend: mend}
	}
	edit := func(setting, flags string) error {
		return flaw(setting, "nats stream edit "+cfg.Name+" "+flags)
	}
	const another = "it cannot be mended; configure another stream"
	switch {
	case cfg.Mirror != nil:
		return flaw("it is a mirror of another stream and takes nothing else", another)
	case cfg.Sealed:
		return flaw("it is sealed", another)
	case !covered(subjects, cfg.Subjects):
		others := slices.DeleteFunc(slices.Clone(cfg.Subjects), func(s string) bool { return covered(s, []string{all}) })
		return &StreamError{
			Stream:  cfg.Name,
			Setting: fmt.Sprintf("its subjects %v do not cover %s", cfg.Subjects, subjects),
			Mend:    "nats stream edit " + cfg.Name + " " + quoted("--subjects="+strings.Join(append(others, all), ",")),
			lacks:   all,
		}
	case cfg.SubjectTransform != nil:
		return edit("it changes subjects", "--no-transform")
	case cfg.Retention == jetstream.WorkQueuePolicy:
		return flaw("its retention is work queue: whatever a consumer acknowledges is lost", another)
	case cfg.Retention != jetstream.LimitsPolicy:
		return edit("its retention is interest: what no consumer waits for is lost", "--retention=limits")
	case cfg.MaxMsgsPerSubject > 0:
		return edit(fmt.Sprintf("it keeps %d messages of each lock only", cfg.MaxMsgsPerSubject), "--max-msgs-per-subject=-1")
	case cfg.Storage != jetstream.FileStorage:
		return flaw("it is in memory and lost with the server", another)
	case cfg.PersistMode != jetstream.DefaultPersistMode:
		return flaw("it acknowledges what it has not written yet", another)
	case cfg.NoAck:
		return edit("it acknowledges nothing", "--ack")
	case cfg.Duplicates == 0:
		return edit("it does not tell duplicates apart", "--dupe-window=2m")
	case cfg.MaxMsgSize > 0 && cfg.MaxMsgSize < queue.MaxMessage:
		return edit(fmt.Sprintf("it takes messages of %d bytes only", cfg.MaxMsgSize), "--max-msg-size=-1")
	}
	return nil
}

// quoted returns text as one word of a shell.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// differences lists where a stream that keeps what it is given is less than what a new one would be.
func differences(got, want *jetstream.StreamConfig) string {
	var list []string
	differ := func(less bool, name string, got, want any) {
		if less {
			list = append(list, fmt.Sprintf("%s is %v, not %v", name, got, want))
		}
	}
	differ(got.Replicas < want.Replicas, "replicas", got.Replicas, want.Replicas)
	differ(got.Compression < want.Compression, "compression", got.Compression, want.Compression)
	differ(below(got.MaxAge, want.MaxAge), "max age", got.MaxAge, want.MaxAge)
	differ(below(got.MaxBytes, want.MaxBytes), "max bytes", got.MaxBytes, want.MaxBytes)
	differ(below(got.MaxMsgs, want.MaxMsgs), "max messages", got.MaxMsgs, want.MaxMsgs)
	differ(!got.AllowDirect, "direct access", got.AllowDirect, want.AllowDirect)
	differ(got.Duplicates < min(leastRemembered, want.Duplicates), "duplicate window", got.Duplicates, want.Duplicates)
	// When such a stream is full it refuses events. The publisher says so then.
	differ(got.Discard != want.Discard, "discard", got.Discard, want.Discard)
	return strings.Join(list, ", ")
}

// below reports whether a bound is tighter than another one. What is not positive is no bound.
func below[T int64 | time.Duration](got, want T) bool {
	return got > 0 && (want <= 0 || got < want)
}

// covered reports whether one of the patterns matches every subject that subjects does.
func covered(subjects string, patterns []string) bool {
	for _, pattern := range patterns {
		if covers(strings.Split(pattern, "."), strings.Split(subjects, ".")) {
			return true
		}
	}
	return false
}

func covers(pattern, subjects []string) bool {
	for i, token := range pattern {
		switch {
		case i == len(subjects):
			return false
		case token == ">":
			return true
		case subjects[i] == ">", token != "*" && token != subjects[i]:
			return false
		}
	}
	return len(pattern) == len(subjects)
}
