package actor

import "sync"

// mailbox keeps the messages of one lock in order until the actor processes them.
//
// A goroutine that posts a message to an idle actor runs the actor. So neither the message nor
// the grant that often follows costs a switch of goroutines. For example: the goroutine that
// releases the lock hands it off to the next owner. This works because an actor never blocks,
// and because no poster holds a mutex that an actor, a store or a recorder may want.
//
// While the actor runs, other goroutines only add their messages. After mostTurns messages of
// others, the goroutine that runs the actor leaves the rest to a new one.
type mailbox struct {
	invoker invoker

	mu        sync.Mutex // guards what follows
	messages  []any      // those from first on wait
	first     int
	system    []any // messages of the actor library, which are processed before the others
	running   bool  // a goroutine runs the actor
	suspended bool  // only messages of the library are processed
}

// invoker is what a mailbox needs of the actor library. It calls the actor.
type invoker interface {
	InvokeUserMessage(message any)
	InvokeSystemMessage(message any)
	EscalateFailure(reason, message any)
}

// mostTurns is how many messages of others a goroutine processes after its own.
const mostTurns = 16

// retainedMessages is the room for messages that an empty mailbox keeps.
const retainedMessages = 8

// length is how many messages wait.
func (m *mailbox) length() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.messages) - m.first
}

// post processes a message if the actor is idle, and then some of those that came meanwhile.
// Otherwise it adds the message.
func (m *mailbox) post(message any) {
	if m.begin(message) {
		m.invoke(message)
		m.run(mostTurns)
	}
}

// begin reports whether the actor is idle. The caller then has to go on with invoke, and with run or handOver.
// Otherwise it adds the message.
func (m *mailbox) begin(message any) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.running || m.suspended {
		m.messages = append(m.messages, message)
		return false
	}
	m.running = true
	return true
}

// handOver leaves the messages that wait to a new goroutine.
func (m *mailbox) handOver() {
	m.mu.Lock()
	waits := m.waits()
	if !waits {
		m.idle()
	}
	m.mu.Unlock()
	if waits {
		go m.run(mostTurns)
	}
}

// waits reports whether there is a message to process. It expects mu to be held, as does idle.
func (m *mailbox) waits() bool {
	return len(m.system) > 0 || m.first < len(m.messages) && !m.suspended
}

// idle makes the actor idle.
func (m *mailbox) idle() {
	if m.first == len(m.messages) {
		m.messages, m.first = m.messages[:0], 0
		if cap(m.messages) > retainedMessages {
			m.messages = nil
		}
	}
	m.running = false
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

// run processes the messages that wait. After so many turns a new goroutine goes on.
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

// next takes a message out. If there is none to process, the actor is idle from then on.
func (m *mailbox) next() (message any, system, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case !m.waits():
		m.idle()
		return nil, false, false
	case len(m.system) > 0:
		message, m.system = m.system[0], m.system[1:]
		if len(m.system) == 0 {
			m.system = nil // free the memory: such messages are rare
		}
		return message, true, true
	}
	message = m.messages[m.first]
	m.messages[m.first] = nil
	m.first++
	if m.first > retainedMessages && m.first > len(m.messages)/2 { // a busy mailbox may never get empty
		left := copy(m.messages, m.messages[m.first:])
		clear(m.messages[left:])
		m.messages, m.first = m.messages[:left], 0
	}
	return message, false, true
}

func (m *mailbox) invoke(message any) {
	defer func() {
		if p := recover(); p != nil {
			m.invoker.EscalateFailure(p, message)
		}
	}()
	m.invoker.InvokeUserMessage(message)
}
