package natslog

import (
	"testing"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	"github.com/lockagent/lockagent/internal/waittest"
)

// The stream takes a full outbox, and all acknowledgements are lost. Then there is room again, and the memory of the
// records is free.
func TestFullOutboxWasStored(t *testing.T) {
	t.Parallel()
	c := Connection{InProcess: natstest.Start(t, natsserver.Config{})}
	var l link
	l.use(c.InProcess.(*natsserver.Server))
	p := newPublisher(t, Config{Connection: Connection{InProcess: &l}})
	record := func(n int) {
		for i := range n {
			p.Record(t.Context(), lockagent.Event{Kind: lockagent.EventLost, Lock: "orders/42", Request: uint64(i + 1)})
		}
	}
	record(1)
	flushed(t, p)
	l.mute(true)
	record(outboxMessages + 100)
	js := client(t, c)
	waittest.Until(t, "the stream has what was in the outbox", func() bool { return count(t, js) == outboxMessages+1 })
	l.mute(false)
	l.cut()
	flushed(t, p)
	wantStats(t, p, Stats{Recorded: outboxMessages + 101, Published: outboxMessages + 101})
	p.mu.Lock()
	defer p.mu.Unlock()
	if used := p.queue.Slots.Used; used != 0 {
		t.Errorf("the memory of %d records is not free", used)
	}
}
