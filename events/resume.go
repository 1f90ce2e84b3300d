package events

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// resume makes sure that there is a stream, settles what it has already, and
// begins a session in which everything else is sent.
func (s *sender) resume(ctx context.Context) error {
	s.p.mu.Lock()
	known, first := s.position, s.session == 0
	s.p.mu.Unlock()
	stream, err := s.stream(ctx)
	if err != nil {
		return fmt.Errorf("stream %q: %w", s.p.cfg.Stream, err)
	}
	if first {
		if err := s.checkEpoch(ctx, stream); err != nil {
			return err
		}
	}
	last := stream.CachedInfo().State.LastSeq

	s.p.mu.Lock()
	doubt := s.p.queue.head < s.sent
	var from uint64
	if doubt {
		from = s.p.queue.at(s.p.queue.head).floor + 1
	}
	s.p.mu.Unlock()
	if last < known {
		s.p.cfg.Logger.Error("events: the stream has lost its last events", "stream", s.p.cfg.Stream)
		from = 1
	}
	var stored map[uint64]bool
	if doubt {
		if stored, err = s.stored(ctx, stream, from, last); err != nil {
			return fmt.Errorf("look for events sent before: %w", err)
		}
	}

	if len(stored) > 0 || s.p.Stats().Queued == 0 {
		s.p.recovered() // before anybody learns that the queue is empty
	}
	s.p.mu.Lock()
	for i := s.p.queue.head; i < s.sent; i++ {
		if i >= s.p.queue.head && stored[s.p.queue.at(i).seq] {
			s.p.settle(i, true)
		}
	}
	s.position = last
	s.session++
	s.p.queue.rewind()
	s.p.mu.Unlock()
	return nil
}

// checkEpoch returns ErrEpoch if the stream has events that ours would be taken
// for repetitions of.
func (s *sender) checkEpoch(ctx context.Context, stream jetstream.Stream) error {
	ctx, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	m, err := stream.GetLastMsgForSubject(ctx, s.agent)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for events of earlier epochs: %w", err)
	}
	_, id, _ := strings.Cut(m.Header.Get(jetstream.MsgIDHeader), ":")
	epoch, _, _ := strings.Cut(id, ":")
	if n, err := strconv.ParseUint(epoch, 10, 64); err == nil && n >= s.p.cfg.Epoch {
		return fmt.Errorf("%w: it has epoch %d of agent %s, and this is epoch %d", ErrEpoch, n, s.p.cfg.Agent, s.p.cfg.Epoch)
	}
	return nil
}

func (s *sender) stream(ctx context.Context) (jetstream.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	stream, err := s.js.Stream(ctx, s.p.cfg.Stream)
	if !errors.Is(err, jetstream.ErrStreamNotFound) {
		return stream, err
	}
	duplicates := 2 * time.Minute
	if s.p.cfg.MaxAge > 0 {
		duplicates = min(duplicates, s.p.cfg.MaxAge) // the server insists
	}
	return s.js.CreateStream(ctx, jetstream.StreamConfig{
		Name:        s.p.cfg.Stream,
		Subjects:    []string{AllSubjects},
		Storage:     jetstream.FileStorage,
		Compression: jetstream.S2Compression,
		Duplicates:  duplicates,
		AllowDirect: true,
		Replicas:    1,
		MaxBytes:    s.p.cfg.MaxBytes,
		MaxAge:      s.p.cfg.MaxAge,
		Discard:     jetstream.DiscardOld,
	})
}

// stored returns the sequence numbers of the events of this agent and epoch that
// are in the stream between the positions from and last.
func (s *sender) stored(ctx context.Context, stream jetstream.Stream, from, last uint64) (map[uint64]bool, error) {
	prefix := fmt.Sprintf("%s:%d:", s.p.cfg.Agent, s.p.cfg.Epoch)
	seqs := make(map[uint64]bool)
	for from <= last {
		m, err := getNext(ctx, stream, from, s.agent)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			break
		}
		if err != nil {
			return nil, err
		}
		if text, ok := strings.CutPrefix(m.Header.Get(jetstream.MsgIDHeader), prefix); ok {
			if seq, err := strconv.ParseUint(text, 10, 64); err == nil {
				seqs[seq] = true
			}
		}
		from = m.Sequence + 1
	}
	return seqs, nil
}

func getNext(ctx context.Context, stream jetstream.Stream, from uint64, subject string) (*jetstream.RawStreamMsg, error) {
	ctx, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	return stream.GetMsg(ctx, from, jetstream.WithGetMsgSubject(subject))
}
