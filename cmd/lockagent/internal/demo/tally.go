package demo

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/lockagent/lockagent"
)

// Stats is what an agent did, or several agents together.
type Stats struct {
	Grants      uint64
	HandOffs    uint64 // grants that cost no call to the store
	Acquires    uint64 // calls to the store
	Renewals    uint64
	Releases    uint64
	Unfinished  uint64            // updates that the end of the demonstration cut short
	Losses      map[string]uint64 // holds that were lost, by reason
	Unconfirmed uint64            // releases that the store has not confirmed
	Resets      uint64            // of the store, as each agent saw them

	Published   uint64 // facts
	Records     uint64 // that were made of them
	Dropped     uint64
	Unpublished uint64

	// Waits counts the time from request to grant, in microseconds.
	Waits *hdrhistogram.Snapshot
}

// add returns the sum of s and other.
func (s Stats) add(other Stats) Stats {
	s.Grants += other.Grants
	s.HandOffs += other.HandOffs
	s.Acquires += other.Acquires
	s.Renewals += other.Renewals
	s.Releases += other.Releases
	s.Unfinished += other.Unfinished
	s.Unconfirmed += other.Unconfirmed
	s.Resets = max(s.Resets, other.Resets) // they saw the same ones
	s.Published += other.Published
	s.Records += other.Records
	s.Dropped += other.Dropped
	s.Unpublished += other.Unpublished
	losses := maps.Clone(s.Losses)
	if losses == nil {
		losses = make(map[string]uint64)
	}
	for reason, n := range other.Losses {
		losses[reason] += n
	}
	s.Losses = losses
	waits := s.waits()
	waits.Merge(other.waits()) // of the same range, so nothing is left out
	s.Waits = waits.Export()
	return s
}

// lost is how many holds were lost.
func (s Stats) lost() (n uint64) {
	for _, m := range s.Losses {
		n += m
	}
	return n
}

func (s Stats) calls() uint64 { return s.Acquires + s.Renewals + s.Releases }

func (s Stats) waits() *hdrhistogram.Histogram {
	if s.Waits == nil {
		return newWaits()
	}
	return hdrhistogram.Import(s.Waits)
}

// wait is the time that the given part of the grants, in percent, came within.
func (s Stats) wait(percent float64) time.Duration {
	return time.Duration(s.waits().ValueAtQuantile(percent)) * time.Microsecond
}

const maxWait = time.Hour

func newWaits() *hdrhistogram.Histogram { return hdrhistogram.New(1, maxWait.Microseconds(), 2) }

// tally counts what one agent does. It is safe for concurrent use.
type tally struct {
	mu    sync.Mutex
	stats Stats                   // guarded by mu; without the waits
	waits *hdrhistogram.Histogram // guarded by mu
}

func newTally() *tally {
	return &tally{waits: newWaits(), stats: Stats{Losses: make(map[string]uint64)}}
}

func (t *tally) add(f func(*Stats)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f(&t.stats)
}

// granted counts a grant that came after a wait.
func (t *tally) granted(after time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stats.Grants++
	_ = t.waits.RecordValue(min(after, maxWait).Microseconds()) // always in range
}

func (t *tally) read() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.stats
	s.Losses = maps.Clone(s.Losses)
	s.Waits = t.waits.Export()
	return s
}

// countedStore counts the calls to a store.
type countedStore struct {
	lockagent.Store
	tally *tally
}

// Unwrap returns the store whose calls are counted, see [lockagent.Layer].
func (c countedStore) Unwrap() lockagent.Store { return c.Store }

func (c countedStore) Acquire(
	ctx context.Context, req lockagent.AcquireRequest, done func(lockagent.AcquireReply, error),
) {
	c.tally.add(func(s *Stats) { s.Acquires++ })
	c.Store.Acquire(ctx, req, done)
}

func (c countedStore) Renew(ctx context.Context, req lockagent.RenewRequest, done func(lockagent.RenewReply, error)) {
	c.tally.add(func(s *Stats) { s.Renewals++ })
	c.Store.Renew(ctx, req, done)
}

func (c countedStore) Release(
	ctx context.Context, req lockagent.ReleaseRequest, done func(lockagent.ReleaseReply, error),
) {
	c.tally.add(func(s *Stats) { s.Releases++ })
	c.Store.Release(ctx, req, done)
}

// countedRecorder counts what only the events of an agent tell.
type countedRecorder struct {
	lockagent.Recorder
	tally *tally
}

func (c countedRecorder) Record(ctx context.Context, e lockagent.Event) {
	switch {
	case e.Kind == lockagent.EventGranted && e.How == lockagent.ByHandOff:
		c.tally.add(func(s *Stats) { s.HandOffs++ })
	case e.Kind == lockagent.EventStoreReset:
		c.tally.add(func(s *Stats) { s.Resets++ })
	}
	c.Recorder.Record(ctx, e)
}
