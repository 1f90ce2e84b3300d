package actor

import (
	"hash/maphash"
	"log/slog"
	"sync"
	"sync/atomic"

	protoactor "github.com/asynkron/protoactor-go/actor"

	"github.com/lockagent/lockagent"
)

// system runs the actors of all agents of the process. It owns no goroutine, so
// nothing is gained by ever shutting it down; making it takes milliseconds, so it
// is made once.
var system = sync.OnceValue(func() *protoactor.ActorSystem {
	return protoactor.NewActorSystem(protoactor.WithLoggerFactory(
		func(*protoactor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) },
	))
})

// resume keeps an actor and its mailbox after a panic that even its own recovery
// did not survive; the default would be to start over and lose both.
var resume = protoactor.NewOneForOneStrategy(0, 0, func(any) protoactor.Directive { return protoactor.ResumeDirective })

// registry finds the actor of a lock, and makes and forgets actors so that no
// counted message is lost.
type registry struct {
	entries sync.Map // lockagent.Name -> *entry
	make    func(*entry) *lock

	seed   maphash.Seed
	spawn  [64]sync.Mutex // one for each class of names, to make one actor at a time
	closed atomic.Bool
	live   sync.WaitGroup // actors that have not stopped
}

// entry is one actor in the registry.
type entry struct {
	name lockagent.Name
	pid  *protoactor.PID

	// refs counts the messages sent and not yet processed, and the store calls
	// under way. It is retired, far below zero, when the actor is gone.
	refs atomic.Int64
}

const retired = -1 << 40

// pin keeps the actor from retiring until the message that is sent next has been
// processed. It reports false if it has retired.
func (e *entry) pin() bool { return e.refs.Add(1) > 0 }

// unpin is for the actor, when it has processed a counted message.
func (e *entry) unpin() { e.refs.Add(-1) }

// retire makes pin fail from now on. It reports false if somebody was faster.
func (e *entry) retire() bool { return e.refs.CompareAndSwap(0, retired) }

// pinned returns the pinned entry of a lock, whose actor is made if there is none.
// It returns nil if the registry is closed.
func (r *registry) pinned(name lockagent.Name) *entry {
	for {
		if v, ok := r.entries.Load(name); ok {
			e := v.(*entry)
			if e.pin() {
				return e
			}
			r.entries.CompareAndDelete(name, e) // retired: help it leave
		}
		mu := &r.spawn[maphash.String(r.seed, string(name))%uint64(len(r.spawn))]
		mu.Lock()
		if r.closed.Load() {
			mu.Unlock()
			return nil
		}
		if _, ok := r.entries.Load(name); ok {
			mu.Unlock()
			continue
		}
		e := &entry{name: name}
		e.refs.Store(1)
		l := r.make(e)
		r.live.Add(1)
		// The identity is new for every actor, so that two actors of one lock never
		// meet under one, and nobody knows it before the spawn has returned.
		e.pid = system().Root.SpawnPrefix(protoactor.PropsFromProducer(
			func() protoactor.Actor { return l },
			protoactor.WithGuardian(resume),
			protoactor.WithMailbox(func() protoactor.Mailbox { return new(mailbox) }),
		), "lock/")
		r.entries.Store(name, e)
		mu.Unlock()
		return e
	}
}

// close makes pinned return nil from now on, and calls f for every pinned entry
// there is.
func (r *registry) close(f func(*entry)) {
	r.closed.Store(true)
	for i := range r.spawn { // whoever was making an actor has made it afterwards
		r.spawn[i].Lock()
		r.spawn[i].Unlock() //nolint:staticcheck // the point is to wait
	}
	for e := range r.all {
		if e.pin() {
			f(e)
		}
	}
}

// all calls yield for every entry, retired or not.
func (r *registry) all(yield func(*entry) bool) {
	r.entries.Range(func(_, v any) bool { return yield(v.(*entry)) })
}
