package actor

import (
	"slices"
	"sync"

	"github.com/lockagent/lockagent/internal/lockstate"
)

// broadcast gives the actors of all locks what the store tells about all of them. There may be 100,000 actors. So a
// goroutine of the broadcast runs them one by one, and the store goes on to tell of passes and breaks. There is no
// goroutine while there is nothing to give.
type broadcast struct {
	registry *registry
	returns  *returns

	mu      sync.Mutex // guards what follows, and calls of running.Go
	waiting []lockstate.Command
	runs    bool
	ended   bool
	running sync.WaitGroup
}

// tell gives a command to all actors, after those of earlier calls. It returns at once. A command that waits is not
// added a second time. An actor that is made meanwhile may get the command as well.
func (b *broadcast) tell(c lockstate.Command) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended || slices.Contains(b.waiting, c) {
		return
	}
	b.waiting = append(b.waiting, c)
	if !b.runs {
		b.runs = true
		b.running.Go(b.run)
	}
}

func (b *broadcast) run() {
	for c := b.next(); c != nil; c = b.next() {
		b.give(c)
	}
}

// give runs the actors one by one.
func (b *broadcast) give(c lockstate.Command) {
	if _, reset := c.(lockstate.StoreReset); reset {
		b.reset()
		return
	}
	for e := range b.registry.all {
		send(e, &commandMsg{command: c})
	}
}

// reset tells the actors that the store was reset. Each actor that has not retired has to take note of that before the
// agent has come back, however busy the actor is.
func (b *broadcast) reset() {
	round, first := b.returns.take()
	for e := range b.registry.all {
		if e.pin() {
			b.returns.add(round)
			send(e, &resetMsg{round: round})
		}
	}
	if first {
		b.returns.done(round)
	}
}

// next takes out the command that waits first. If there is none, it returns nil, and the goroutine has to end.
func (b *broadcast) next() lockstate.Command {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) == 0 {
		b.waiting, b.runs = nil, false
		return nil
	}
	c := b.waiting[0]
	b.waiting = b.waiting[1:]
	return c
}

// end waits until the goroutine has ended. There is none from then on.
func (b *broadcast) end() {
	b.mu.Lock()
	b.ended = true
	b.mu.Unlock()
	b.running.Wait()
}
