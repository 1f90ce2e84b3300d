package actor

import (
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/lockagent/lockagent"
)

// registry finds the actor of a lock, and makes and forgets actors so that no
// counted message is lost.
type registry struct {
	make func(*entry) *lock

	seed   maphash.Seed
	shards [64]shard
	closed atomic.Bool
	live   sync.WaitGroup // actors that have not stopped
}

// shard has the actors of a part of the names. Its mutex is also held to make one,
// so that there is one for a name.
type shard struct {
	mu      sync.Mutex // guards what follows
	entries map[lockagent.Name]*entry
	most    int // how many there have been since the map was made

	spawner spawner
}

// entry is one actor in the registry.
type entry struct {
	name    lockagent.Name
	place   place // of the actor
	mailbox mailbox

	// refs counts the messages sent and not yet processed, and the store calls
	// under way. It is retired, far below zero, when the actor is gone.
	refs atomic.Int64
}

const retired = -1 << 40

// fewEntries take no room that would be worth giving back.
const fewEntries = 64

// pin keeps the actor from retiring until the message that is sent next has been
// processed. It reports false if it has retired.
func (e *entry) pin() bool { return e.refs.Add(1) > 0 }

// unpin is for the actor, when it has processed a counted message.
func (e *entry) unpin() { e.refs.Add(-1) }

// retire makes pin fail from now on. It reports false if somebody was faster.
func (e *entry) retire() bool { return e.refs.CompareAndSwap(0, retired) }

// send must only be used with a pinned entry, unless the message is a nudge, which an actor
// that is gone ignores. The actor may process the message, and others, before send returns.
func send(e *entry, m message) { e.mailbox.post(m) }

func (r *registry) init(newLock func(*entry) *lock) {
	r.make = newLock
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

// pinned returns the pinned entry of a lock, whose actor is made if there is none.
// It returns nil if the registry is closed.
func (r *registry) pinned(name lockagent.Name) *entry {
	s := r.shard(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[name]; e != nil && e.pin() {
		return e
	}
	if r.closed.Load() {
		return nil
	}
	return r.add(s, name, func(*lock) {})
}

// loaded is pinned for a lock of another process, which has no actor yet. load is called
// before anybody else can find it.
func (r *registry) loaded(name lockagent.Name, load func(*lock)) *entry {
	s := r.shard(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	return r.add(s, name, load)
}

// add makes an actor and expects the mutex of the shard to be held.
func (r *registry) add(s *shard, name lockagent.Name, load func(*lock)) *entry {
	e := &entry{name: name} // takes the place of one that has retired
	e.refs.Store(1)
	r.live.Add(1)
	l := r.make(e)
	load(l)
	s.spawner.spawn(l)
	s.entries[name] = e
	s.most = max(s.most, len(s.entries))
	return e
}

// present returns the pinned entry of a lock, or nil if it has no actor.
func (r *registry) present(name lockagent.Name) *entry {
	s := r.shard(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[name]; e != nil && e.pin() {
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
		return // another one has its place
	}
	delete(s.entries, e.name)
	// A map keeps the room it once needed, which many names used once should not cost.
	if s.most > fewEntries && len(s.entries) < s.most/4 {
		entries := make(map[lockagent.Name]*entry, len(s.entries))
		for name, e := range s.entries {
			entries[name] = e
		}
		s.entries, s.most = entries, len(entries)
	}
}

// close makes pinned return nil from now on, and calls f for every pinned entry
// there is.
func (r *registry) close(f func(*entry)) {
	r.closed.Store(true)
	for e := range r.all {
		if e.pin() {
			f(e)
		}
	}
}

// all calls yield for every entry, retired or not. Of those that come or go
// meanwhile, it may or may not.
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
