package actor

import (
	"log/slog"
	"sync"

	protoactor "github.com/asynkron/protoactor-go/actor"
)

// Only this file imports the actor library. It uses the library's systems to spawn and stop
// actors, and supervision that resumes. The mailbox is the package's own, and its own
// dispatcher. There are no futures, timeouts, remoting, middleware and event stream: each lock
// would pay for them. The registry decides when an actor leaves, see [registry].

// system is an actor system of the library. It has no goroutine, so it is never shut down.
// Making one takes milliseconds, so one system serves many actors, of all agents of the
// process. But a system keeps the memory that its actors once needed for their identities. So
// new actors get a new system after spawnsPerSystem. The old system is garbage when its last
// actor has left.
type system struct {
	root    *protoactor.RootContext
	spawned int // guarded by systems.mu; the actors that were made in it
	live    int // guarded by systems.mu; those of them that have not left
}

// systems has the system for new actors.
var systems struct {
	mu      sync.Mutex // guards what follows
	current *system
}

const (
	// spawnsPerSystem bounds what a system keeps to tens of megabytes. Making the system costs
	// tens of nanoseconds for each of so many actors.
	spawnsPerSystem = 1 << 18
	// worthLeaving is after how many actors a system is replaced as soon as it has none.
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

// leave is called when an actor of the system has stopped.
func (s *system) leave() {
	systems.mu.Lock()
	defer systems.mu.Unlock()
	s.live--
	if s == systems.current && s.live == 0 && s.spawned >= worthLeaving {
		systems.current = nil
	}
}

// resume keeps an actor and its mailbox when lock.recover panics itself. By default the
// library would replace both.
var resume = protoactor.NewOneForOneStrategy(0, 0, func(any) protoactor.Directive { return protoactor.ResumeDirective })

// spawner makes actors in the library. The mutex of its shard guards it.
type spawner struct {
	props    *protoactor.Props
	spawning *lock // while spawn runs
}

func (s *spawner) init() {
	s.props = protoactor.PropsFromProducer(
		func() protoactor.Actor { return s.spawning },
		protoactor.WithGuardian(resume),
		protoactor.WithMailbox(func() protoactor.Mailbox { return &s.spawning.entry.mailbox }),
	)
}

// spawn makes the actor of a lock. Its identity in the library is new: two actors of one lock
// never share one.
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

// stop stops the actor. The library then sends it Stopped.
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
