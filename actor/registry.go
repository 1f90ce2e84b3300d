package actor

import (
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
)

// registry finds the actor of a lock. It makes and forgets actors in a way that loses no counted
// message: see the package documentation.
type registry struct {
	make func(*entry) *lock
	gone func() error // the error when the registry is closed

	seed   maphash.Seed
	shards [64]shard
	closed atomic.Bool
	live   sync.WaitGroup // actors that have not stopped, and direct calls
}

// shard has the actors of a part of the names. It holds its mutex while it makes an actor, so
// that a name has only one.
type shard struct {
	mu      sync.Mutex // guards what follows
	entries map[lockagent.Name]*entry
	most    int // the greatest number of entries since the map was made

	spawner spawner
}

// entry is one actor in the registry.
type entry struct {
	name    lockagent.Name
	kind    lockagent.LockKind // as which the name is in use
	place   place              // of the actor
	mailbox mailbox
	caller  presence // belongs to whoever runs the actor

	// refs counts the counted messages that are sent and not yet processed, and the store calls
	// under way. When the actor has retired, it is far below zero.
	refs atomic.Int64
}

const hasRetired = -1 << 40

// fewEntries is a number of entries whose memory is not worth giving back.
const fewEntries = 64

// pin keeps the actor from retiring until it has processed one more counted message. It
// reports false if the actor has retired.
func (e *entry) pin() bool { return e.refs.Add(1) > 0 }

// unpin is called when the actor has processed a counted message.
func (e *entry) unpin() { e.refs.Add(-1) }

// retire makes pin fail from now on. It reports false if the entry is pinned.
func (e *entry) retire() bool { return e.refs.CompareAndSwap(0, hasRetired) }

func (e *entry) retired() bool { return e.refs.Load() < 0 }

// refusal is an error if the name has an actor of another kind. It pins nothing: without a message nothing would make
// the actor try again to retire.
func (e *entry) refusal(kind lockagent.LockKind) error {
	if e.kind != kind && !e.retired() {
		return &lockagent.KindError{Name: e.name, Kind: kind, Used: e.kind}
	}
	return nil
}

// send sends a message to an actor. Pin the entry before you send a counted message. An actor
// that has retired ignores a nudge. The actor may process the message, and others, before
// send returns.
func send(e *entry, m message) { e.mailbox.post(m) }

func (r *registry) init(newLock func(*entry) *lock, gone func() error) {
	r.make, r.gone = newLock, gone
	r.seed = maphash.MakeSeed()
	for i := range r.shards {
		s := &r.shards[i]
		s.entries = make(map[lockagent.Name]*entry)
		s.spawner.init()
	}
}

func (r *registry) shard(name lockagent.Name) *shard {
	return &r.shards[maphash.String(r.seed, string(name))%uint64(len(r.shards))]
}

// pinned returns the pinned entry of a lock. If there is none, it makes the actor. It is an error if
// the registry is closed, or the name is in use as another kind.
func (r *registry) pinned(name lockagent.Name, kind lockagent.LockKind) (*entry, error) {
	s := r.shard(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.vacate(name, kind); err != nil {
		return nil, err
	}
	if e := s.entries[name]; e != nil && e.kind == kind && e.pin() {
		return e, nil
	}
	if r.closed.Load() {
		return nil, r.gone()
	}
	return r.add(s, name, kind, func(*lock) {}), nil
}

// usableAs returns an error if a name is in use as another kind.
func (r *registry) usableAs(name lockagent.Name, kind lockagent.LockKind) error {
	s := r.shard(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.vacate(name, kind)
}

// direct counts a call that no actor makes, for close. Whoever makes the call has to call uncount when it has done. It
// is an error if the registry is closed, or the name is in use as another kind.
func (r *registry) direct(name lockagent.Name, kind lockagent.LockKind) (uncount func(), err error) {
	s := r.shard(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.vacate(name, kind); err != nil {
		return nil, err
	}
	if r.closed.Load() {
		return nil, r.gone()
	}
	r.live.Add(1) // close locks every shard before anybody waits
	return r.live.Done, nil
}

// vacate has an idle actor of another kind leave the name. It is an error if the actor stays, because the name is in
// use. The mutex must be held. It is unlocked meanwhile, for the actor that leaves wants it.
func (s *shard) vacate(name lockagent.Name, kind lockagent.LockKind) error {
	e := s.entries[name]
	if e == nil || e.refusal(kind) == nil {
		return nil
	}
	s.mu.Unlock()
	send(e, &commandMsg{command: lockstate.Vacate{}})
	s.mu.Lock()
	if e = s.entries[name]; e == nil {
		return nil
	}
	return e.refusal(kind)
}

// loaded is pinned for a lock of another process, which has no actor yet. It calls load before the
// lock can be found.
func (r *registry) loaded(name lockagent.Name, kind lockagent.LockKind, load func(*lock)) *entry {
	s := r.shard(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	return r.add(s, name, kind, load)
}

// add makes an actor. The mutex of the shard must be held.
func (r *registry) add(s *shard, name lockagent.Name, kind lockagent.LockKind, load func(*lock)) *entry {
	e := &entry{name: name, kind: kind} // it may replace an entry that has retired
	e.refs.Store(1)
	r.live.Add(1)
	l := r.make(e)
	load(l)
	s.spawner.spawn(l)
	s.entries[name] = e
	s.most = max(s.most, len(s.entries))
	return e
}

// present returns the pinned entry of a lock, or nil if it has no actor. An empty kind stands for any.
func (r *registry) present(name lockagent.Name, kind lockagent.LockKind) *entry {
	s := r.shard(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[name]; e != nil && (kind == "" || e.kind == kind) && e.pin() {
		return e
	}
	return nil
}

// remove forgets an entry that has retired.
func (r *registry) remove(e *entry) {
	s := r.shard(e.name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entries[e.name] != e {
		return // a new entry has replaced it
	}
	delete(s.entries, e.name)
	// A map keeps the memory that it once needed. Many names that were used once should not
	// cost memory for ever.
	if s.most > fewEntries && len(s.entries) < s.most/4 {
		entries := make(map[lockagent.Name]*entry, len(s.entries))
		for name, e := range s.entries {
			entries[name] = e
		}
		s.entries, s.most = entries, len(entries)
	}
}

// close makes pinned refuse locks without an actor from now on. It pins every entry
// that has not retired, and calls f with it.
func (r *registry) close(f func(*entry)) {
	r.closed.Store(true)
	for e := range r.all {
		if e.pin() {
			f(e)
		}
	}
}

// all iterates over the entries, also those that have retired. It may miss an entry that comes
// or goes meanwhile.
func (r *registry) all(yield func(*entry) bool) {
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		entries := make([]*entry, 0, len(s.entries))
		for _, e := range s.entries {
			entries = append(entries, e)
		}
		s.mu.Unlock()
		for _, e := range entries {
			if !yield(e) {
				return
			}
		}
	}
}
