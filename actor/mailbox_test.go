package actor

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
)

// clerk is an actor library that notes what a mailbox hands to it.
type clerk struct {
	mu        sync.Mutex
	seen      []any
	escalated []any
	on        func(message any)
}

func (c *clerk) note(list *[]any, message any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*list = append(*list, message)
}

func (c *clerk) InvokeUserMessage(message any) {
	c.note(&c.seen, message)
	if c.on != nil {
		c.on(message)
	}
}

func (c *clerk) InvokeSystemMessage(message any) { c.InvokeUserMessage(message) }

func (c *clerk) EscalateFailure(reason, message any) {
	c.note(&c.escalated, fmt.Sprint(reason, " at ", message))
}

func (c *clerk) saw() []any {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.seen)
}

func newMailbox(c *clerk) *mailbox {
	m := new(mailbox)
	m.invoker = c
	return m
}

func expectMessages(t *testing.T, c *clerk, want ...any) {
	t.Helper()
	if got := c.saw(); !slices.Equal(got, want) {
		t.Errorf("the actor was given %v, want %v", got, want)
	}
}

// Messages of the actor library come first, and each kind in its order.
func TestOrderOfMessages(t *testing.T) {
	c := new(clerk)
	m := newMailbox(c)
	c.on = func(message any) {
		if message == 0 {
			m.post(1)
			m.postSystem("a")
			m.post(2)
			m.postSystem("b")
			if n := m.UserMessageCount(); n != 2 {
				t.Errorf("%d messages wait, want 2", n)
			}
		}
	}
	m.post(0)
	expectMessages(t, c, 0, "a", "b", 1, 2)
	if n := m.UserMessageCount(); n != 0 {
		t.Errorf("%d messages wait, want none", n)
	}
}

// Whoever posts a message is not kept by those of others for long.
func TestPosterIsRelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const messages = 10 * mostTurns
		c := new(clerk)
		m := newMailbox(c)
		posted := make(chan struct{})
		c.on = func(message any) {
			switch message {
			case 0:
				for i := range messages {
					m.post(i + 1)
				}
			case mostTurns + 1:
				<-posted // by whom, if not another goroutine?
			}
		}
		m.post(0)
		close(posted)
		synctest.Wait()
		var want []any
		for i := range messages + 1 {
			want = append(want, i)
		}
		expectMessages(t, c, want...)
	})
}

func TestPanicIsEscalated(t *testing.T) {
	c := new(clerk)
	m := newMailbox(c)
	c.on = func(message any) {
		if message != 3 {
			panic("boom")
		}
	}
	m.post(1)
	m.postSystem(2)
	m.post(3)
	expectMessages(t, c, 1, 2, 3)
	if want := []any{"boom at 1", "boom at 2"}; !slices.Equal(c.escalated, want) {
		t.Errorf("escalated %v, want %v", c.escalated, want)
	}
}

func TestMailboxGivesBackRoom(t *testing.T) {
	c := new(clerk)
	m := newMailbox(c)
	c.on = func(message any) {
		if n, _ := message.(int); n > 0 {
			for range n {
				m.post(0)
			}
		}
	}
	m.post(retainedMessages)
	if n := cap(m.messages); n == 0 {
		t.Error("a few messages left no room for the next")
	}
	m.post(retainedMessages + 1)
	if n := cap(m.messages); n > retainedMessages {
		t.Errorf("many messages left room for %d", n)
	}
}

// Everybody's messages are processed, one at a time, and those of one in their order.
func TestManyPosters(t *testing.T) {
	const posters, messages = 16, 500
	type letter struct{ from, number int }
	m := new(mailbox)
	var last [posters]int // touched by the actor alone, as the race detector knows
	total := 0
	done := make(chan struct{})
	c := &clerk{on: func(message any) {
		l := message.(letter)
		if l.number != last[l.from]+1 {
			t.Errorf("message %d of %d after %d", l.number, l.from, last[l.from])
		}
		last[l.from] = l.number
		if total++; total == posters*messages {
			close(done)
		}
	}}
	m.invoker = c
	var all sync.WaitGroup
	for from := range posters {
		all.Go(func() {
			for i := range messages {
				m.post(letter{from, i + 1})
			}
		})
	}
	all.Wait()
	<-done
}

func TestPostAllocatesNothing(t *testing.T) {
	var e entry
	e.mailbox.invoker = deaf{}
	if n := testing.AllocsPerRun(1000, func() { e.mailbox.post(&e) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
