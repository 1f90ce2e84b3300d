package fold

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events/internal/seal"
)

// Version is the version of a snapshot of a fold. [Resume] takes no other.
const Version = 1

// ErrSnapshot is returned by [Resume] for something that is no snapshot of this version.
var ErrSnapshot = errors.New("events: no snapshot of a fold that this version can resume from")

// foldSnapshot is all that a fold knows.
type foldSnapshot struct {
	Position uint64           `json:"position"`
	Heard    time.Time        `json:"heard,omitzero"`
	Alive    time.Time        `json:"alive,omitzero"`
	Agents   []foldedSnapshot `json:"agents"`
	Locks    []foldedLock     `json:"locks"`
	Joined   stores           `json:"joined,omitempty"` // identities of one store
}

type foldedSnapshot struct {
	State AgentState `json:"state"`
	Heard time.Time  `json:"heard,omitzero"`
}

type foldedLock struct {
	LockState
	Told      []time.Time    `json:"told,omitempty"`   // of each holder
	Shares    []int          `json:"shares,omitempty"` // likewise, if one has any
	Exclusive *grantSnapshot `json:"exclusive,omitempty"`
	Shared    *grantSnapshot `json:"shared,omitempty"`
}

type grantSnapshot struct {
	Token lockagent.Token     `json:"token"`
	Agent lockagent.AgentID   `json:"agent"`
	Start lockagent.StoreTime `json:"start_us,omitempty"`
}

// Position is that of the last record that was applied, or 0. Its message may have more records. So a reader that goes
// on begins at this position again: records that were applied before change nothing.
func (f *Fold) Position() uint64 { return f.position }

// Snapshot is all that the fold knows, as JSON, to resume from. Read on from [Fold.Position], which the snapshot has.
// Its size depends on how many locks are held or wanted, and on how many agents run or ran in the last hour, but not on
// the length of the log. It does not say which log that is.
func (f *Fold) Snapshot() ([]byte, error) { return seal.Seal(Version, f.snapshot()) }

// snapshot shares nothing with the fold.
func (f *Fold) snapshot() foldSnapshot {
	s := foldSnapshot{Position: f.position, Heard: f.heard, Alive: f.alive, Joined: maps.Clone(f.stores)}
	for _, id := range slices.Sorted(maps.Keys(f.agents)) {
		if a := f.agents[id]; len(a.holds)+len(a.waits) > 0 || !f.longSilent(a) {
			s.Agents = append(s.Agents, foldedSnapshot{a.AgentState, a.heard})
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(f.locks), LockKey.Compare) {
		if l := f.locks[key]; !l.empty() || l.exclusive.token != 0 || l.shared.token != 0 {
			s.Locks = append(s.Locks, l.snapshot())
		}
	}
	return s
}

func (l *lockFold) snapshot() foldedLock {
	s := foldedLock{
		LockState: LockState{LockKey: l.LockKey, Waiters: slices.Clone(l.waiters)},
		Exclusive: l.exclusive.snapshot(), Shared: l.shared.snapshot(),
	}
	shares := 0
	for _, h := range l.open {
		s.Holders = append(s.Holders, *h)
		s.Told = append(s.Told, h.told)
		s.Shares = append(s.Shares, h.shares)
		shares += h.shares
	}
	if shares == 0 {
		s.Shares = nil
	}
	for _, h := range l.left {
		s.Left = append(s.Left, *h)
	}
	return s
}

func (g grant) snapshot() *grantSnapshot {
	if g.token == 0 {
		return nil
	}
	return &grantSnapshot{g.token, g.agent, g.start}
}

// Resume returns the fold of a snapshot. When the rest of the log is applied, it says the same as a fold of all of the
// log. The error is [ErrSnapshot].
func Resume(snapshot []byte) (*Fold, error) {
	var s foldSnapshot
	if err := seal.Open(snapshot, Version, ErrSnapshot, &s); err != nil {
		return nil, err
	}
	return s.resume()
}

// resume makes the fold of a snapshot, which it takes over.
func (s *foldSnapshot) resume() (*Fold, error) {
	f := New()
	f.position, f.heard, f.alive, f.stores = s.Position, s.Heard, s.Alive, s.Joined
	for _, a := range s.Agents {
		f.agent(a.State.Agent).restore(a)
	}
	for i := range s.Locks {
		if err := f.restore(&s.Locks[i]); err != nil {
			return nil, err
		}
	}
	f.most = max(fewAgents, 2*len(f.agents))
	return f, nil
}

func (a *folded) restore(s foldedSnapshot) { a.AgentState, a.heard = s.State, s.Heard }

func (f *Fold) restore(s *foldedLock) error {
	l := &lockFold{LockKey: s.LockKey, waiters: s.Waiters, exclusive: s.Exclusive.grant(), shared: s.Shared.grant()}
	f.locks[s.LockKey] = l
	for i := range s.Holders {
		h := &s.Holders[i]
		if i < len(s.Told) {
			h.told = s.Told[i]
		}
		if i < len(s.Shares) {
			h.shares = s.Shares[i]
		}
		a := f.agents[h.Agent]
		if a == nil {
			return fmt.Errorf("%w: it has a hold of %s, and not its agent", ErrSnapshot, h.Lock)
		}
		l.open = append(l.open, h)
		a.holds[h] = l
	}
	for _, w := range s.Waiters {
		a := f.agents[w.Agent]
		if a == nil {
			return fmt.Errorf("%w: it has a request for %s, and not its agent", ErrSnapshot, s.Lock)
		}
		a.waitsFor(l)
	}
	for i := range s.Left {
		l.left = append(l.left, &s.Left[i])
	}
	f.leases += len(s.Left)
	return nil
}

func (s *grantSnapshot) grant() grant {
	if s == nil {
		return grant{}
	}
	return grant{s.Token, s.Agent, s.Start}
}
