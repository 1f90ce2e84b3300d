package actor

import (
	"log/slog"
	"sync"

	protoactor "github.com/asynkron/protoactor-go/actor"
)

// This file is all that the package knows of the actor library, and the only one that imports
// it. Of the library it uses: systems in which actors are spawned and stopped, with a mailbox
// of our own that is its own dispatcher, and supervision that resumes. It uses no futures, no
// timeouts, no remoting, no middleware and no event stream: each lock would pay for them. A
// lock leaves by the registry's count, not by the library's: see [registry].

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

// spawner makes actors in the library. It is used under the mutex of its shard.
type spawner struct {
	props    *protoactor.Props
	spawning *lock
}

func (s *spawner) init() {
	s.props = protoactor.PropsFromProducer(
		func() protoactor.Actor { return s.spawning },
		protoactor.WithGuardian(resume),
		protoactor.WithMailbox(func() protoactor.Mailbox { return &s.spawning.entry.mailbox }),
	)
}

// spawn makes the actor of a lock. Its identity is new, so that two actors of one lock
// never meet under one, and nobody knows it before the spawn has returned.
func (s *spawner) spawn(l *lock) {
	in := enter()
	s.spawning = l
	l.entry.place = place{in, in.root.SpawnPrefix(s.props, "lock/")}
	s.spawning = nil
}

// place is where an actor is.
type place struct {
	system *system
	pid    *protoactor.PID
}

// stop stops the actor, which says so to itself.
func (p place) stop() { p.system.root.Stop(p.pid) }

// Receive implements [protoactor.Actor].
func (l *lock) Receive(c protoactor.Context) {
	switch m := c.Message().(type) {
	case *protoactor.Stopped:
		l.entry.place.system.leave()
		l.agent.registry.live.Done()
	case message:
		l.receive(m)
	}
}

var _ protoactor.Mailbox = (*mailbox)(nil)

// RegisterHandlers implements [protoactor.Mailbox]. The mailbox is its own dispatcher.
func (m *mailbox) RegisterHandlers(invoker protoactor.MessageInvoker, _ protoactor.Dispatcher) {
	m.invoker = invoker
}

// Start implements [protoactor.Mailbox].
func (m *mailbox) Start() {}

// UserMessageCount implements [protoactor.Mailbox].
func (m *mailbox) UserMessageCount() int { return m.length() }

// PostUserMessage implements [protoactor.Mailbox].
func (m *mailbox) PostUserMessage(message any) { m.post(message) }

// PostSystemMessage implements [protoactor.Mailbox].
func (m *mailbox) PostSystemMessage(message any) { m.postSystem(message) }

func (m *mailbox) invokeSystem(message any) {
	switch message.(type) {
	case *protoactor.SuspendMailbox, *protoactor.ResumeMailbox:
		_, suspend := message.(*protoactor.SuspendMailbox)
		m.mu.Lock()
		m.suspended = suspend
		m.mu.Unlock()
	default:
		defer func() {
			if p := recover(); p != nil {
				m.invoker.EscalateFailure(p, message)
			}
		}()
		m.invoker.InvokeSystemMessage(message)
	}
}
