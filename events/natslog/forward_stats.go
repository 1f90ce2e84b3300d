package natslog

import (
	"context"
	"log/slog"
	"time"
)

// ForwardStats counts messages since the forwarder was made. A message has one record or several.
type ForwardStats struct {
	Forwarded uint64 // the hub said that it stored them
	Present   uint64 // not forwarded: the hub had them
	Foreign   uint64 // not forwarded: they are not from a [Publisher]
	Refused   uint64 // not forwarded: larger than 128 KiB, and too large for the hub
	Discarded uint64 // not forwarded: the source removed them before

	// Conflicts counts how often another program added to the agents' records in the hub while
	// we did: a second forwarder of the same stream, for example. That does no harm but costs time.
	Conflicts uint64

	// Behind is how many messages of the source the hub lacked when the last one was forwarded.
	Behind uint64

	// Err is why nothing is being forwarded, or nil. It is an [*EndError].
	Err error
}

// Stats returns the counts as they are now.
func (f *Forwarder) Stats() ForwardStats {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.stats
	s.Err = f.stalled.err
	return s
}

// count changes the counts.
func (f *Forwarder) count(change func(*ForwardStats)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.stats)
}

// stall notes why nothing is forwarded.
func (f *Forwarder) stall(err error) {
	f.mu.Lock()
	logs := f.stalled.note(err, time.Since(f.began))
	f.wake()
	f.mu.Unlock()
	if logs {
		f.cfg.Logger.Warn(
			"events: nothing is forwarded until this is over; events wait in their stream", "stream", f.cfg.Source.Stream, "err",
			err,
		)
	} else {
		f.cfg.Logger.Debug("events: still nothing is forwarded", "stream", f.cfg.Source.Stream, "err", err)
	}
}

// flows notes that nothing keeps us from forwarding.
func (f *Forwarder) flows() {
	f.mu.Lock()
	logs := f.stalled.over()
	f.mu.Unlock()
	if logs {
		f.cfg.Logger.Info("events: forwarding again", "stream", f.cfg.Source.Stream)
	}
}

// reach notes up to where messages of the source were dealt with.
func (f *Forwarder) reach(position uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reached = position
	f.wake()
}

// wake wakes those who wait. f.mu must be held.
func (f *Forwarder) wake() {
	if f.news != nil {
		close(f.news)
		f.news = nil
	}
}

// Await waits until the messages of the source up to a position are in the hub, as far as they can be. It returns how
// many of them were not looked at yet, which is 0 then. It returns earlier when ctx ends, and when nothing can be
// forwarded at the moment: see [ForwardStats]. Until the forwarder has reached both ends for the first time, nobody
// knows what the hub has, and all messages count.
func (f *Forwarder) Await(ctx context.Context, position uint64) (left uint64) {
	for {
		f.mu.Lock()
		left = position - min(position, f.reached)
		stalled := f.stalled.err != nil
		if f.news == nil {
			f.news = make(chan signal)
		}
		news := f.news
		f.mu.Unlock()
		if left == 0 || stalled {
			return left
		}
		select {
		case <-news:
		case <-ctx.Done():
			return left
		}
	}
}

// complain logs what happens, with the stream of the source. What happens again and again is logged
// every ten seconds; the rest is for those who look for it. Only Run may call it.
func (f *Forwarder) complain(level slog.Level, what string, args ...any) {
	now := time.Since(f.began)
	if before, told := f.complained[what]; told && now-before < quiet {
		level = slog.LevelDebug
	} else {
		f.complained[what] = now
	}
	f.cfg.Logger.Log(context.Background(), level, what, append(args, "stream", f.cfg.Source.Stream)...)
}
