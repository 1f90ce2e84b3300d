package natslog

import (
	"context"
	"testing"

	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	"github.com/lockagent/lockagent/internal/waittest"
)

// Whoever awaits a position goes on when the hub has all up to it, also if the hub had it before, or if nothing of it
// is to be forwarded.
func TestForwardAwait(t *testing.T) {
	t.Parallel()
	hub := natstest.Start(t, natsserver.Config{})
	from, to := Connection{InProcess: natstest.Start(t, natsserver.Config{})}, Connection{InProcess: hub}
	source, there := client(t, from), client(t, to)
	streamFor(t, source, nil)
	puts(t, source, "a", 1, 300)
	f := forward(t, from, to)
	ctx := waittest.Context(t)
	await := func(position uint64) uint64 { return f.Await(ctx, position) }
	goesOn := func(position uint64) { // a hub that is slow ends a wait early
		t.Helper()
		waittest.Until(t, "whoever awaits goes on", func() bool { return await(position) == 0 })
	}
	goesOn(300)
	if n := count(t, there); n != 300 {
		t.Errorf("the hub has %d", n)
	}
	if _, err := source.Publish(ctx, events.DefaultPrefix+".a.lock.x", []byte("from somebody else")); err != nil {
		t.Fatal(err)
	}
	goesOn(301) // a message that is none of ours
	over, cancel := context.WithCancel(context.Background())
	cancel()
	if left := f.Await(over, 305); left != 4 {
		t.Errorf("at the end of ctx %d are left of 4", left)
	}
	f.stop()
	f = forward(t, from, to)
	goesOn(301) // the hub had all before
	if err := hub.Stop(); err != nil {
		t.Fatal(err)
	}
	puts(t, source, "a", 301, 303)
	if left := await(304); left == 0 {
		t.Errorf("without the hub %d are left", left)
	}
}
