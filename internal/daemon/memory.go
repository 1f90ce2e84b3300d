//go:build linux

package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/daemon/api"
	"github.com/lockagent/lockagent/internal/daemon/journal"
	"github.com/lockagent/lockagent/internal/daemon/quota"
)

// Memory is a store in the memory of the process.
type Memory interface {
	lockagent.Store
	lockagent.Counters
	// Advance makes all later tokens greater than a token.
	Advance(lockagent.Token)
}

// The records of a remembering store in the journal. The id of a claim has no slash.
const (
	clockRecord  = "memory/clock"
	numberRecord = "memory/number/" // and the kind, a slash, and the name
)

// clockEvery is how far the store's clock may be ahead of the journal's record of it.
const clockEvery lockagent.StoreTime = 1_000_000

// Remember returns a store in memory that has the journal keep what the agent does not: how far its clock is, the
// numbers of permits, and the counts of latches. What the daemon before had in its memory is there again: these
// numbers, and the tenures that serve holds: see [github.com/lockagent/lockagent/internal/saved.Agent.Reassert], also
// for the lease and the margin. Nobody may have used the store before.
func Remember(
	store Memory, j *journal.Journal, before journal.Recovered, lease, margin time.Duration, quotas *quota.Bureau,
) (*Remembered, error) {
	m := &Remembered{Memory: store, journal: j, quotas: quotas, numbers: make(map[string]*room)}
	if err := m.restore(store, before.Records); err != nil {
		return nil, err
	}
	if before.Agent == nil {
		return m, nil
	}
	return m, before.Agent.Reassert(store, lease, margin)
}

// Remembered is a store of [Remember].
type Remembered struct {
	Memory
	journal *journal.Journal
	quotas  *quota.Bureau
	clock   atomic.Int64 // of the record

	mu sync.Mutex // held from the reading of a number until its record is there

	counting sync.Mutex // guards what follows
	numbers  map[string]*room
}

// room is that of a number which exists, or which requests under way may make. Each has its place in the quota. The
// place is of nobody: a number stays when the user who has made it goes, and others may delete it.
type room struct {
	exists bool
	asked  int // by so many requests
}

var _ api.Numbers = (*Remembered)(nil)

// Unwrap returns the store in memory, see [lockagent.Layer].
func (m *Remembered) Unwrap() lockagent.Store { return m.Memory }

// Reserve implements [api.Numbers].
func (m *Remembered) Reserve(name lockagent.Name, kind lockagent.LockKind) (end func(), err error) {
	id := (&quantity{Name: name, Kind: kind}).id()
	m.counting.Lock()
	defer m.counting.Unlock()
	n := m.numbers[id]
	if n == nil {
		if err := m.quotas.Take(quota.Nobody, quota.Numbers); err != nil {
			return nil, err
		}
		n = &room{}
		m.numbers[id] = n
	}
	n.asked++
	return func() {
		m.counting.Lock()
		defer m.counting.Unlock()
		n.asked--
		m.settle(id)
	}, nil
}

// counts notes whether there is a number.
func (m *Remembered) counts(id string, exists bool) {
	m.counting.Lock()
	defer m.counting.Unlock()
	if exists && m.numbers[id] == nil { // of the daemon before, or made by a request for something else
		m.quotas.Add(quota.Nobody, quota.Numbers)
		m.numbers[id] = &room{}
	}
	if n := m.numbers[id]; n != nil {
		n.exists = exists
		m.settle(id)
	}
}

// settle gives up the place of a number that does not exist, and that nobody makes. counting must be held.
func (m *Remembered) settle(id string) {
	if n := m.numbers[id]; !n.exists && n.asked == 0 {
		delete(m.numbers, id)
		m.quotas.Leave(quota.Nobody, quota.Numbers)
	}
}

// quantity is the record of a number.
type quantity struct {
	Name lockagent.Name     `json:"name"`
	Kind lockagent.LockKind `json:"kind"`
	N    int64              `json:"n"`
}

func (n *quantity) id() string { return numberRecord + string(n.Kind) + "/" + string(n.Name) }

// restore restores what the records say.
func (m *Remembered) restore(store Memory, records map[string][]byte) error {
	var errs []error
	for id, data := range records {
		var err error
		switch {
		case id == clockRecord:
			var at lockagent.StoreTime
			if err = json.Unmarshal(data, &at); err == nil {
				store.Advance(lockagent.Token(at + 2*clockEvery)) // there are later tokens without a record
			}
		case strings.HasPrefix(id, numberRecord):
			var n quantity
			if err = json.Unmarshal(data, &n); err == nil {
				if err = m.set(&n); err == nil {
					m.counts(n.id(), true)
				}
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("daemon: the record %.64q of the journal cannot be used: %w", id, err))
		}
	}
	return errors.Join(errs...)
}

// set sets a number anew.
func (m *Remembered) set(n *quantity) error {
	answer := make(chan error, 1)
	if n.Kind == lockagent.Latch {
		set := lockagent.LatchRequest{Name: n.Name, Op: lockagent.LatchSet, Count: n.N, Change: change()}
		m.Memory.Latch(context.Background(), set, func(_ lockagent.LatchReply, err error) { answer <- err })
	} else {
		set := lockagent.PermitsRequest{Name: n.Name, Kind: n.Kind, Op: lockagent.TrySetPermits, Change: change()}
		m.Memory.Permits(context.Background(), set, func(_ lockagent.PermitsReply, err error) {
			if err != nil {
				answer <- err
				return
			}
			// The number may be negative, so it is added.
			add := set
			add.Op, add.N, add.Change = lockagent.AddPermits, int(n.N), change()
			m.Memory.Permits(context.Background(), add, func(_ lockagent.PermitsReply, err error) { answer <- err })
		})
	}
	return <-answer
}

func change() string { return string(lockagent.NewAgentID()) }

// Acquire implements [lockagent.Store].
func (m *Remembered) Acquire(
	ctx context.Context, req lockagent.AcquireRequest, done func(lockagent.AcquireReply, error),
) {
	m.Memory.Acquire(ctx, req, func(r lockagent.AcquireReply, err error) {
		if last := m.clock.Load(); err == nil && r.Granted && r.At > lockagent.StoreTime(last)+clockEvery &&
			m.clock.CompareAndSwap(last, int64(r.At)) {
			data, _ := json.Marshal(r.At) // a number
			m.journal.Put(clockRecord, data)
		}
		done(r, err)
	})
}

// Permits implements [lockagent.Store].
func (m *Remembered) Permits(
	ctx context.Context, req lockagent.PermitsRequest, done func(lockagent.PermitsReply, error),
) {
	m.Memory.Permits(ctx, req, func(r lockagent.PermitsReply, err error) {
		if req.Op != lockagent.ReadPermits && err == nil {
			m.permits(req.Name, req.Kind)
		}
		done(r, err)
	})
}

// permits has the journal keep the number of permits, as it is now.
func (m *Remembered) permits(name lockagent.Name, kind lockagent.LockKind) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Memory.Permits(context.Background(), lockagent.PermitsRequest{
		Name: name, Kind: kind, Op: lockagent.ReadPermits,
	}, func(r lockagent.PermitsReply, err error) {
		if err == nil {
			m.keep(&quantity{name, kind, int64(r.Free + r.Taken)}, r.Exists)
		}
	})
}

// Latch implements [lockagent.Store].
func (m *Remembered) Latch(ctx context.Context, req lockagent.LatchRequest, done func(lockagent.LatchReply, error)) {
	m.Memory.Latch(ctx, req, func(r lockagent.LatchReply, err error) {
		if req.Op != lockagent.LatchRead && err == nil {
			m.latch(req.Name)
		}
		done(r, err)
	})
}

// latch has the journal keep the count of a latch, as it is now.
func (m *Remembered) latch(name lockagent.Name) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Memory.Latch(context.Background(), lockagent.LatchRequest{
		Name: name, Op: lockagent.LatchRead,
	}, func(r lockagent.LatchReply, err error) {
		if err == nil {
			m.keep(&quantity{name, lockagent.Latch, r.Count}, r.Count > 0)
		}
	})
}

// keep has the journal keep a number, before anybody is told of it. If that fails, the journal tells so to all who ask
// it. mu must be held.
func (m *Remembered) keep(n *quantity, exists bool) {
	m.counts(n.id(), exists)
	if exists {
		data, _ := json.Marshal(n) // nothing in it can fail
		m.journal.Put(n.id(), data)
	} else {
		m.journal.Drop(n.id())
	}
	_ = m.journal.Flush()
}
