package natslog

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	"github.com/lockagent/lockagent/internal/waittest"
)

// outings keeps what the hook of a publisher was told.
type outings struct {
	mu  sync.Mutex
	all []*outing
}

type outing struct {
	messages, records int
	over              int // how often it was told
	err               error
}

func (o *outings) sending(messages, records int) func(error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := &outing{messages: messages, records: records}
	o.all = append(o.all, out)
	if messages == 1 && records == 3 {
		return nil
	}
	return func(err error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		out.over++
		out.err = err
	}
}

func (o *outings) are(want ...outing) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.EqualFunc(o.all, want, func(got *outing, want outing) bool {
		return got.messages == want.messages && got.records == want.records && got.over == want.over &&
			errors.Is(got.err, want.err)
	})
}

// TestSending follows what leaves at once, until the stream has it or the connection is lost.
func TestSending(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, natsserver.Config{})
	var l link
	l.use(server)
	var seen outings
	p := newPublisher(t, Config{Connection: Connection{InProcess: &l}, Linger: maxLinger, Sending: seen.sending})
	record := func(lock lockagent.Name, records int) {
		for n := range records {
			p.Record(t.Context(), lockagent.Event{Kind: lockagent.EventRefused, Lock: lock, Request: uint64(n)})
		}
	}
	want := func(what string, want ...outing) {
		t.Helper()
		waittest.Until(t, what, func() bool { return seen.are(want...) })
	}
	record("a", 1)
	flushed(t, p)
	first := outing{1, 1, 1, nil}
	want("one record is one message", first)

	record("a", 3)
	flushed(t, p)
	ignored := outing{1, 3, 0, nil}
	want("nobody wants to know the end", first, ignored)

	record("a", 5)
	record("b", 2)
	record("c", 1)
	flushed(t, p)
	many := outing{3, 8, 1, nil}
	want("three locks are three messages", first, ignored, many)

	l.mute(true)
	record("a", 2)
	record("b", 2)
	p.mu.Lock()
	p.queue.HurryUp()
	p.wakeUp()
	p.mu.Unlock()
	want("nobody knows what arrives", first, ignored, many, outing{2, 4, 0, nil})
	l.cut() // while it is mute, or the stream may still say that it has the messages
	l.mute(false)
	flushed(t, p)
	waittest.Until(t, "it is over", func() bool {
		seen.mu.Lock()
		defer seen.mu.Unlock()
		return seen.all[3].over == 1 && seen.all[3].err != nil
	})
	if err := p.Close(waittest.Context(t)); err != nil {
		t.Error(err)
	}
	seen.mu.Lock()
	defer seen.mu.Unlock()
	for i, o := range seen.all {
		if want := 1; o.over != want && i != 1 {
			t.Errorf("the end of number %d was told %d times", i, o.over)
		}
	}
}
