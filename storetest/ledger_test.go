package storetest

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/lockagent/lockagent"
)

// ledger records the replies and messages of all spoilt stores of one harness, for the defects
// that need them. It changes nothing by itself.
type ledger struct {
	noQueue       bool                                // what the harness says
	keeper        *keeper                             // nil if there are no grace periods
	plantOutsider func(lockagent.Name, func()) func() // what it does
	exhausted     atomic.Bool                         // for defects
	token         atomic.Uint64
	kinds         sync.Map // by name
	readers       sync.Map // the requests of shared tenures, by tenure

	mu     sync.Mutex
	places []entry // in their order
	lost   []entry // places that were lost
	wakes  []*func()
	hears  map[lockagent.AgentID]func(lockagent.Message)
	dead   map[lockagent.AgentID]bool // that listened once
}

func newLedger() *ledger {
	return &ledger{hears: make(map[lockagent.AgentID]func(lockagent.Message)), dead: make(map[lockagent.AgentID]bool)}
}

// entry is a place in a queue, by the request for it.
type entry struct {
	req lockagent.AcquireRequest
	by  *spoilt
}

// join makes the ledger record the calls of a store.
func (l *ledger) join(s *spoilt) {
	acquire, release, subscribe, listen := s.acquire, s.release, s.subscribe, s.listen
	onReset, closeStore := s.onReset, s.close
	var agents []lockagent.AgentID
	s.ledger = l
	s.acquire = func(req lockagent.AcquireRequest) (lockagent.AcquireReply, error) {
		reply, err := acquire(req)
		switch {
		case reply.Granted:
			l.loses(req.Name, req.Tenure)
		case reply.Queued && req.Queue:
			l.gets(entry{req, s})
		}
		return reply, err
	}
	s.release = func(req lockagent.ReleaseRequest) (lockagent.ReleaseReply, error) {
		reply, err := release(req)
		l.loses(req.Name, req.Tenure)
		return reply, err
	}
	s.subscribe = func(name lockagent.Name, kind lockagent.LockKind, wake func()) func() {
		cancel := subscribe(name, kind, wake)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.wakes = append(l.wakes, &wake)
		return func() {
			cancel()
			l.mu.Lock()
			defer l.mu.Unlock()
			l.wakes = slices.DeleteFunc(l.wakes, func(other *func()) bool { return other == &wake })
		}
	}
	s.listen = func(agent lockagent.AgentID, hear func(lockagent.Message)) func() {
		cancel := listen(agent, func(message lockagent.Message) {
			if message.Kind == lockagent.MessagePassed {
				l.loses(message.Name, message.Tenure)
			}
			hear(message)
		})
		agents = append(agents, agent)
		l.hearsBy(agent, hear)
		return func() {
			cancel()
			l.dies(agent)
		}
	}
	if l.keeper != nil {
		l.keeper.join(s)
	}
	s.close = func() error {
		l.dies(agents...)
		return closeStore()
	}
	onReset(func(lockagent.Reset) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lost = append(l.lost, l.places...)
		l.places = nil
	})
}

func (l *ledger) hearsBy(agent lockagent.AgentID, hear func(lockagent.Message)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hears[agent] = hear
}

func (l *ledger) gets(e entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	same := func(o entry) bool { return o.req.Name == e.req.Name && o.req.Tenure == e.req.Tenure }
	if !slices.ContainsFunc(l.places, same) {
		l.places = append(l.places, e)
	}
}

func (l *ledger) loses(name lockagent.Name, tenure lockagent.Tenure) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.places, func(e entry) bool { return e.req.Name == name && e.req.Tenure == tenure })
	if i >= 0 {
		l.lost = append(l.lost, l.places[i])
		l.places = slices.Delete(l.places, i, i+1)
	}
}

func (l *ledger) dies(agents ...lockagent.AgentID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, agent := range agents {
		l.dead[agent] = true
	}
}

// queue returns the places in the queue of a lock.
func (l *ledger) queue(name lockagent.Name) []entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.places), func(e entry) bool { return e.req.Name != name })
}

// formerly returns the places that tenures have lost, and forgets them.
func (l *ledger) formerly() []entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	lost := l.lost
	l.lost = nil
	return lost
}

// firstIsDead reports whether the first agent in the queue of a lock does not listen.
func (l *ledger) firstIsDead(name lockagent.Name) bool {
	queue := l.queue(name)
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(queue) > 0 && l.dead[queue[0].req.Tenure.Agent]
}

// wakeAll wakes every subscriber of any lock.
func (l *ledger) wakeAll() {
	l.mu.Lock()
	wakes := slices.Clone(l.wakes)
	l.mu.Unlock()
	for _, wake := range wakes {
		(*wake)()
	}
}

// tellAll tells every agent that has ever listened.
func (l *ledger) tellAll(message lockagent.Message) {
	l.mu.Lock()
	hears := maps.Clone(l.hears)
	l.mu.Unlock()
	for _, hear := range hears {
		hear(message)
	}
}

// tellAgent tells the agent of a message's tenure.
func (l *ledger) tellAgent(message lockagent.Message) {
	l.mu.Lock()
	hear := l.hears[message.Tenure.Agent]
	l.mu.Unlock()
	if hear != nil {
		hear(message)
	}
}
