package events

import (
	"context"
	"testing"

	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	"github.com/lockagent/lockagent/internal/waittest"
)

// Whoever awaits a position goes on when the hub has all up to it, also if the hub had it before, or if nothing of it is to be forwarded.
func TestForwardAwait(t *testing.T) {
	t.Parallel()
	hub := natstest.Start(t, natsserver.Config{})
	from, to := Connection{InProcess: natstest.Start(t, natsserver.Config{})}, Connection{InProcess: hub}
	source, there := client(t, from), client(t, to)
	streamFor(t, source, nil)
	puts(t, source, "a", 1, 300)
	f := forward(t, from, to)
	await := func(position uint64) uint64 { return f.Await(waittest.Context(t), position) }
	if left := await(300); left != 0 || count(t, there) != 300 {
		t.Errorf("%d are left, and the hub has %d", left, count(t, there))
	}
	if _, err := source.Publish(waittest.Context(t), DefaultPrefix+".a.lock.x", []byte("from somebody else")); err != nil {
		t.Fatal(err)
	}
	if left := await(301); left != 0 {
		t.Errorf("a message that is none of ours leaves %d", left)
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	if left := f.Await(over, 305); left != 4 {
		t.Errorf("at the end of ctx %d are left of 4", left)
	}
	f.stop()
	f = forward(t, from, to)
	if left := await(301); left != 0 {
		t.Errorf("what the hub had before leaves %d", left)
	}
	if err := hub.Stop(); err != nil {
		t.Fatal(err)
	}
	puts(t, source, "a", 301, 303)
	if left := await(304); left == 0 {
		t.Errorf("without the hub %d are left", left)
	}
}
