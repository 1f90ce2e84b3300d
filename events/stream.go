package events

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
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
	stream, err := s.js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		stream, err = createStream(ctx, s.js, want)
	}
	if err != nil {
		return nil, fmt.Errorf("stream %q: %w", want.Name, err)
	}
	got := stream.CachedInfo().Config
	if flaw := flawOf(&got, s.agent, s.p.cfg.Prefix+".>"); flaw != nil {
		return nil, flaw
	}
	if differ := differences(&got, &want); differ != "" && !s.warned[differ] {
		s.warned[differ] = true
		s.p.cfg.Logger.Warn("events: the stream has weaker settings than a new one would have; it is left as it is",
			"stream", want.Name, "settings", differ)
	}
	return stream, nil
}

// createStream makes a stream.
func createStream(ctx context.Context, js jetstream.JetStream, cfg jetstream.StreamConfig) (jetstream.Stream, error) {
	stream, err := js.CreateStream(ctx, cfg)
	return stream, noRoomFor(&cfg, err)
}

// noRoomFor says what to do about an error of a server that has no room for a stream. It returns others as they are.
func noRoomFor(cfg *jetstream.StreamConfig, err error) error {
	if refused, ok := errors.AsType[*jetstream.APIError](err); ok && noRoom(refused.ErrorCode) && cfg.MaxBytes > 0 {
		err = fmt.Errorf("it shall have %d bytes on each of %d servers, and the account or the servers have not so much; give them more, or configure a smaller MaxBytes: %w", cfg.MaxBytes, cfg.Replicas, err)
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
		return edit(fmt.Sprintf("its subjects %v do not cover %s", cfg.Subjects, subjects),
			quoted("--subjects="+strings.Join(append(others, all), ",")))
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
	case cfg.MaxMsgSize > 0 && cfg.MaxMsgSize < maxMessage:
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
