package storetest

import (
	"slices"
	"sync"
	"time"

	"github.com/lockagent/lockagent"
)

// Messages is a [lockagent.Messages] that a test can wait on. The test may ignore messages:
// a store may repeat them, and say at any time that messages were missed.
type Messages struct {
	// C gets a value when a message arrives, unless C has a value. It is never closed.
	C <-chan struct{}

	news   chan struct{} // C
	t      TB
	mu     sync.Mutex // guards heard
	heard  []lockagent.Message
	cancel func()
}

func newMessages(t TB) *Messages {
	news := make(chan struct{}, 1)
	return &Messages{C: news, news: news, t: t, cancel: func() {}}
}

// Listen listens for the messages to an agent, and waits until the store receives them. The
// test calls Cancel, or closes the store.
func Listen(t TB, s lockagent.Store, agent lockagent.AgentID) *Messages {
	t.Helper()
	m := newMessages(t)
	layer, ok := lockagent.Layer[lockagent.Messages](s)
	if !ok {
		t.Errorf("the store has no Messages")
		return m
	}
	m.cancel = layer.Listen(agent, func(message lockagent.Message) {
		switch message.Kind {
		case lockagent.MessagesMissed, lockagent.MessageAlone, lockagent.MessageTwin: // about no tenure
		default:
			if message.Tenure.Agent != agent {
				t.Errorf("agent %s was told %+v", agent, message)
			}
		}
		m.mu.Lock()
		m.heard = append(m.heard, message)
		m.mu.Unlock()
		select {
		case m.news <- struct{}{}:
		default:
		}
	})
	m.Await(lockagent.MessagesMissed, "", lockagent.Tenure{})
	return m
}

// Take returns the first message of a kind for a tenure of a lock, if there is one, and
// removes it.
func (m *Messages) Take(
	kind lockagent.MessageKind, name lockagent.Name, tenure lockagent.Tenure,
) (lockagent.Message, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.IndexFunc(m.heard, func(message lockagent.Message) bool {
		return message.Kind == kind && message.Name == name && message.Tenure == tenure
	})
	if i < 0 {
		return lockagent.Message{}, false
	}
	message := m.heard[i]
	m.heard = slices.Delete(m.heard, i, i+1)
	return message, true
}

// Await waits until Take has something to return. It reports whether that came; if not,
// the test has failed.
func (m *Messages) Await(
	kind lockagent.MessageKind, name lockagent.Name, tenure lockagent.Tenure,
) (lockagent.Message, bool) {
	m.t.Helper()
	message, ok := m.await(kind, name, tenure)
	if !ok {
		m.t.Errorf("no message of kind %d for %s of lock %q within %v; heard %+v", kind, tenure, name, Patience, m.all())
	}
	return message, ok
}

func (m *Messages) await(
	kind lockagent.MessageKind, name lockagent.Name, tenure lockagent.Tenure,
) (lockagent.Message, bool) {
	overdue := time.NewTimer(Patience)
	defer overdue.Stop()
	for {
		if message, ok := m.Take(kind, name, tenure); ok {
			return message, true
		}
		select {
		case <-m.C:
		case <-overdue.C:
			return lockagent.Message{}, false
		}
	}
}

// Count is the number of messages of a kind that nobody has taken.
func (m *Messages) Count(kind lockagent.MessageKind) int {
	return len(slices.DeleteFunc(m.all(), func(message lockagent.Message) bool { return message.Kind != kind }))
}

func (m *Messages) all() []lockagent.Message {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.heard)
}

func (m *Messages) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.heard = nil
}

// Cancel stops listening. It is called once.
func (m *Messages) Cancel() { m.cancel() }
