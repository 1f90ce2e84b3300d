package actor

import "sync"

// mailbox keeps the messages of one lock in order until the actor gets to them.
//
// Whoever posts a message to an idle lock runs its actor. So the message costs no switch of
// goroutines, and neither does the grant that most often follows: the releaser hands the lock to
// the next owner. This is possible because an actor never blocks, and because no poster holds a
// mutex that an actor, a store or a recorder may want. While the actor runs, other posters
// only leave their messages. After some messages of others the runner lets a new goroutine go on.
type mailbox struct {
	invoker invoker

	mu        sync.Mutex // guards what follows
	messages  []any      // that wait, but for those before first
	first     int
	system    []any // those of the actor library, which come first
	running   bool  // somebody runs the actor
	suspended bool  // only messages of the library get through
}

// invoker is what a mailbox needs of the actor library. It calls the actor.
type invoker interface {
	InvokeUserMessage(message any)
	InvokeSystemMessage(message any)
	EscalateFailure(reason, message any)
}

// mostTurns is how many messages of others somebody processes after their own.
const mostTurns = 16

// retainedMessages is the room for messages that an empty mailbox keeps.
const retainedMessages = 8

// length is how many messages wait.
func (m *mailbox) length() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.messages) - m.first
}

// post adds a message, and processes it if the actor is idle.
func (m *mailbox) post(message any) {
	m.mu.Lock()
	if m.running || m.suspended {
		m.messages = append(m.messages, message)
		m.mu.Unlock()
		return
	}
	m.running = true
	m.mu.Unlock()
	m.invoke(message)
	m.run(mostTurns)
}

// postSystem is post for a message of the library.
func (m *mailbox) postSystem(message any) {
	m.mu.Lock()
	m.system = append(m.system, message)
	idle := !m.running
	m.running = true
	m.mu.Unlock()
	if idle {
		m.run(mostTurns)
	}
}

// run processes what waits. After so many turns another goroutine goes on.
func (m *mailbox) run(turns int) {
	for ; turns > 0; turns-- {
		message, system, ok := m.next()
		switch {
		case !ok:
			return
		case system:
			m.invokeSystem(message)
		default:
			m.invoke(message)
		}
	}
	go m.run(mostTurns)
}

// next takes a message out. If there is none to be processed, the actor stops running.
func (m *mailbox) next() (message any, system, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case len(m.system) > 0:
		message, m.system = m.system[0], m.system[1:]
		if len(m.system) == 0 {
			m.system = nil // there is seldom another one
		}
		return message, true, true
	case m.first < len(m.messages) && !m.suspended:
		message = m.messages[m.first]
		m.messages[m.first] = nil
		m.first++
		if m.first > retainedMessages && m.first > len(m.messages)/2 { // there may never be none
			left := copy(m.messages, m.messages[m.first:])
			clear(m.messages[left:])
			m.messages, m.first = m.messages[:left], 0
		}
		return message, false, true
	}
	if m.first == len(m.messages) {
		m.messages, m.first = m.messages[:0], 0
		if cap(m.messages) > retainedMessages {
			m.messages = nil
		}
	}
	m.running = false
	return nil, false, false
}

func (m *mailbox) invoke(message any) {
	returned := false
	defer func() {
		if p := recover(); p != nil {
			m.invoker.EscalateFailure(p, message)
		} else if !returned { // code that is not ours ended this goroutine
			go m.run(mostTurns)
		}
	}()
	m.invoker.InvokeUserMessage(message)
	returned = true
}
