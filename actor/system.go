package actor

import (
	"log/slog"
	"sync"

	protoactor "github.com/asynkron/protoactor-go/actor"
)

// system is an actor system of the library. It owns no goroutine, so nothing is gained
// by ever shutting it down; making it takes milliseconds, so one serves many actors of all
// agents of the process. But it keeps the room that its actors once needed for their
// identities. Therefore it is left after a time, or when many actors have come and gone,
// and goes with the last of its actors.
type system struct {
	root    *protoactor.RootContext
	spawned int // guarded by systems.mu; actors that were made in it
	live    int // guarded by systems.mu; those of them that have not left
}

// systems has the system that new actors are made in.
var systems struct {
	mu      sync.Mutex // guards what follows
	current *system
}

const (
	// spawnsPerSystem keeps what a system retains to tens of megabytes, and what making it
	// costs to tens of nanoseconds for an actor.
	spawnsPerSystem = 1 << 18
	// worthLeaving is how many actors a system has seen when it is left as soon as it
	// has none.
	worthLeaving = 1 << 14
)

// enter returns the system to make the next actor in.
func enter() *system {
	systems.mu.Lock()
	defer systems.mu.Unlock()
	if systems.current == nil || systems.current.spawned == spawnsPerSystem {
		made := protoactor.NewActorSystem(protoactor.WithLoggerFactory(
			func(*protoactor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) },
		))
		systems.current = &system{root: made.Root}
	}
	systems.current.spawned++
	systems.current.live++
	return systems.current
}

// leave is for an actor that was made in the system and is gone.
func (s *system) leave() {
	systems.mu.Lock()
	defer systems.mu.Unlock()
	s.live--
	if s == systems.current && s.live == 0 && s.spawned >= worthLeaving {
		systems.current = nil
	}
}

// resume keeps an actor and its mailbox after a panic that even its own recovery
// did not survive; the default would be to start over and lose both.
var resume = protoactor.NewOneForOneStrategy(0, 0, func(any) protoactor.Directive { return protoactor.ResumeDirective })
