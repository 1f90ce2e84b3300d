package actor

import (
	"log/slog"
	"sync"

	protoactor "github.com/asynkron/protoactor-go/actor"
)

// systems has the actor system that new actors of all agents of the process are made
// in. A system owns no goroutine, so nothing is gained by ever shutting it down;
// making it takes milliseconds, so one serves many actors. But it keeps the room that
// its actors once needed for their identities. Therefore it is left after a time, and
// goes with the last of its actors.
var systems struct {
	mu      sync.Mutex // guards what follows
	current *protoactor.ActorSystem
	spawned int
}

// spawnsPerSystem keeps what a system retains to tens of megabytes, and what making it
// costs to tens of nanoseconds for an actor.
const spawnsPerSystem = 1 << 18

// root is where to make the next actor.
func root() *protoactor.RootContext {
	systems.mu.Lock()
	defer systems.mu.Unlock()
	if systems.current == nil || systems.spawned == spawnsPerSystem {
		systems.current = protoactor.NewActorSystem(protoactor.WithLoggerFactory(
			func(*protoactor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) },
		))
		systems.spawned = 0
	}
	systems.spawned++
	return systems.current.Root
}

// resume keeps an actor and its mailbox after a panic that even its own recovery
// did not survive; the default would be to start over and lose both.
var resume = protoactor.NewOneForOneStrategy(0, 0, func(any) protoactor.Directive { return protoactor.ResumeDirective })
