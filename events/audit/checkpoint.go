package audit

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/fold"
	"github.com/lockagent/lockagent/events/internal/seal"
)

// CheckpointVersion is the version of a checkpoint. An audit resumes from no other.
const CheckpointVersion = 3

var (
	// ErrCheckpoint is returned by [Resume] for something that is no checkpoint of this version.
	ErrCheckpoint = errors.New("events: no checkpoint of an audit that this version can resume from")

	// ErrOtherStream is returned by [Audit.Identify] if the audit has read another stream.
	ErrOtherStream = errors.New("events: the checkpoint is of another stream")
)

// snapshot is all that an audit knows, in a form that shares nothing with it.
type snapshot struct {
	Stream   string   `json:"stream,omitempty"`
	Position uint64   `json:"position"`
	Ordered  bool     `json:"ordered"`
	Late     bool     `json:"late,omitempty"`
	Whole    bool     `json:"whole,omitempty"`
	Lapsed   bool     `json:"lapsed,omitempty"`
	Clock    activity `json:"clock"`

	Tail     time.Duration `json:"tail"`
	Patience time.Duration `json:"patience"`
	First    time.Time     `json:"first,omitzero"`
	Lost     MessageHole   `json:"lost,omitzero"`
	Within   TimeRange     `json:"within,omitzero"`

	Origins map[string]storeTimes `json:"origins,omitempty"`

	Agents   []agentSnapshot `json:"agents"`
	Past     pastAgents      `json:"past"`
	Stores   []storeLog      `json:"stores"`
	Anywhere []hole          `json:"anywhere,omitempty"`
	Locks    []lockSnapshot  `json:"locks"`
	Found    findings        `json:"found"`

	Fold json.RawMessage `json:"fold"` // the snapshot of the fold
	fold *fold.Fold
}

type agentSnapshot struct {
	Log     agentLog        `json:"log"`
	Pending []pendingRecord `json:"pending,omitempty"`
}

// pendingRecord is a record in JSON. Its Who is written as that of a [fold.Hold], for a [lockagent.Who] has no form in
// JSON.
type pendingRecord struct {
	events.Record
	Who fold.Who
}

func (l *agentLog) snapshotPending() (all []pendingRecord) {
	for _, r := range l.pending {
		all = append(all, pendingRecord{*r, fold.Who{Who: r.Who}})
	}
	return all
}

func (s *agentSnapshot) pending() (all []*events.Record) {
	for i := range s.Pending {
		r := s.Pending[i].Record
		r.Who = s.Pending[i].Who.Who
		all = append(all, &r)
	}
	return all
}

type lockSnapshot struct {
	lockLog
	Live []int `json:"live,omitempty"` // the spans that may go on, by their index
}

// Identify says which stream the records are from, for example its name and when it was made. It
// returns [ErrOtherStream] if the audit was resumed from a checkpoint of another one.
func (a *Audit) Identify(stream string) error {
	if a.stream != "" && a.stream != stream {
		return fmt.Errorf("%w: %s instead of %s", ErrOtherStream, a.stream, stream)
	}
	a.stream = stream
	return nil
}

// Checkpoint is all that the audit knows, as JSON, to resume from. It has what was proven for good,
// and of what is not settled the locks that are held or were held lately. Read on from
// [Audit.Position].
func (a *Audit) Checkpoint() ([]byte, error) { return a.Snapshot().Checkpoint() }

// Snapshot is all that an audit knows at one moment. It must be made by [Audit.Snapshot].
type Snapshot struct{ of *snapshot }

// Snapshot takes a snapshot. That is fast, and the audit can go on while another goroutine makes
// a checkpoint of it.
func (a *Audit) Snapshot() Snapshot { return Snapshot{a.snapshot()} }

// Checkpoint is the snapshot as JSON: see [Audit.Checkpoint].
func (s Snapshot) Checkpoint() ([]byte, error) {
	slices.SortFunc(s.of.Agents, func(x, y agentSnapshot) int { return cmp.Compare(x.Log.ID, y.Log.ID) })
	slices.SortFunc(s.of.Locks, func(x, y lockSnapshot) int { return x.LockKey.Compare(y.LockKey) })
	var err error
	if s.of.Fold, err = s.of.fold.Snapshot(); err != nil {
		return nil, err
	}
	return seal.Seal(CheckpointVersion, s.of)
}

// Resume returns the audit of a checkpoint. It says of the log, when the rest is added, the
// same as an audit that has read all of it. The error is [ErrCheckpoint].
func Resume(text []byte) (*Audit, error) {
	var s snapshot
	if err := seal.Open(text, CheckpointVersion, ErrCheckpoint, &s); err != nil {
		return nil, err
	}
	var err error
	if s.fold, err = fold.Resume(s.Fold); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	a := s.restore()
	a.resumed = a.position
	return a, nil
}

func (a *Audit) clone() *Audit { return a.snapshot().restore() }

func (a *Audit) snapshot() *snapshot {
	s := &snapshot{
		Stream: a.stream, Position: a.position, Ordered: a.ordered, Late: a.late, Whole: a.whole, Lapsed: a.lapsed,
		Clock: a.clock, Tail: a.Tail, Patience: a.Patience, First: a.first, Lost: a.lost, Within: a.within,
		Found: a.found.clone(), fold: a.fold.Clone(),
		Past: a.past.clone(), Anywhere: slices.Clone(a.anywhere), Origins: make(map[string]storeTimes, len(a.origins)),
	}
	for stream, told := range a.origins {
		s.Origins[stream] = maps.Clone(told)
	}
	for _, l := range a.logs {
		s.Agents = append(s.Agents, agentSnapshot{l.clone(), l.snapshotPending()})
	}
	for _, of := range sorted(a.stores) {
		c := *of
		c.Holes, c.Resets, c.Steps = slices.Clone(c.Holes), slices.Clone(c.Resets), slices.Clone(c.Steps)
		c.Graces = slices.Clone(c.Graces)
		c.Ends, c.Names = slices.Clone(c.Ends), maps.Clone(c.Names)
		c.living, c.locks, c.touched = heap[*agentLog]{}, heap[*lockLog]{}, nil
		s.Stores = append(s.Stores, c)
	}
	for _, l := range a.locks {
		s.Locks = append(s.Locks, l.snapshot())
	}
	return s
}

func (l *agentLog) clone() agentLog {
	c := *l
	c.pending, c.current = nil, nil
	c.home, c.least, c.watch = nil, spot[*agentLog]{}, spot[*agentLog]{}
	c.Resets, c.Elsewhere = slices.Clone(l.Resets), maps.Clone(l.Elsewhere)
	c.Epochs = make(map[uint64]*epochLog, len(l.Epochs))
	for n, e := range l.Epochs {
		kept := *e
		kept.Sums = slices.Clone(e.Sums)
		c.Epochs[n] = &kept
	}
	c.Open = slices.Clone(l.Open)
	return c
}

func (l *lockLog) snapshot() lockSnapshot {
	s := lockSnapshot{lockLog: lockLog{
		LockKey: l.LockKey, Breaks: slices.Clone(l.Breaks), Changes: slices.Clone(l.Changes), Number: l.Number,
		Mixed: l.Mixed,
	}}
	if l.Last != nil {
		s.Last = l.Last.clone()
	}
	for i, x := range l.Spans {
		s.Spans = append(s.Spans, x.clone())
		if l.live(x.Agent, x.Tenure) == x {
			s.Live = append(s.Live, i)
		}
	}
	return s
}

func (s *span) clone() *span {
	c := *s
	c.Found, c.Back = slices.Clone(s.Found), slices.Clone(s.Back)
	if s.First != nil {
		first := *s.First
		c.First = &first
	}
	if s.Cut != nil {
		cut := *s.Cut
		c.Cut = &cut
	}
	return &c
}

// restore returns an audit that has what the snapshot had.
func (s *snapshot) restore() *Audit {
	a := New()
	a.stream, a.position, a.ordered, a.late, a.whole, a.clock = s.Stream, s.Position, s.Ordered, s.Late, s.Whole, s.Clock
	a.Tail, a.Patience, a.first, a.lost, a.lapsed = s.Tail, s.Patience, s.First, s.Lost, s.Lapsed
	a.within = s.Within
	a.fold = s.fold
	a.fold.Watch(follower{a})
	a.found, a.past, a.anywhere = s.Found, s.Past, s.Anywhere
	if a.found.Losses == nil {
		a.found.Losses = make(map[string]int)
	}
	if s.Origins != nil {
		a.origins = s.Origins
	}
	for i := range s.Stores {
		a.stores[s.Stores[i].ID] = &s.Stores[i]
	}
	if none := a.stores[""]; none != nil {
		a.nowhere = none
	}
	for i := range s.Agents {
		a.restoreAgent(&s.Agents[i])
	}
	for i := range s.Locks {
		a.restoreLock(&s.Locks[i])
	}
	return a
}

func (a *Audit) restoreAgent(s *agentSnapshot) {
	l := &s.Log
	l.pending = s.pending()
	if l.Epochs == nil {
		l.Epochs = make(map[uint64]*epochLog)
	}
	l.current = l.Epochs[l.Epoch]
	a.logs[l.ID] = l
	l.spans = 0
	a.place(l)
}

func (a *Audit) restoreLock(s *lockSnapshot) {
	lock := s.lockLog
	for _, i := range s.Live {
		lock.goOn(lock.Spans[i])
	}
	for _, x := range lock.Spans {
		a.logs[x.Agent].spans++
	}
	a.locks[s.LockKey] = &lock
	a.touch(&lock)
}
