package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/examples/internal/testlog"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, natstest.LeftBehind()) }

// begin runs the example. It returns its lines, one at a time.
func begin(t *testing.T, url string, point time.Time) (next func() string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, url, point, in)
		in.CloseWithError(err)
		ended <- err
	}()
	t.Cleanup(func() {
		cancel()
		_ = out.Close() // it may still want to write
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
	})
	lines := bufio.NewReader(out)
	return func() string {
		t.Helper()
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return line
	}
}

func expect(t *testing.T, got string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(got, part) {
			t.Fatalf("it says %q, want %q", got, part)
		}
	}
}

func TestHolders(t *testing.T) {
	log := testlog.New(natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"}).URL())
	agent, other := log.Agent(t), log.Agent(t)
	first := agent.Hold("orders/1")
	agent.Release(agent.Hold("orders/2"))
	second := other.Hold("orders/3")
	then := time.Now() // of the machine on which the server runs as well

	agent.Release(first)
	now := begin(t, log.URL, time.Now())
	expect(t, now(), "orders/3: ", fmt.Sprintf("token %d", second.Token()))
	expect(t, now(), "1 held\n")

	past := begin(t, log.URL, then)
	expect(t, past(), "orders/1: ", fmt.Sprintf("token %d", first.Token()))
	expect(t, past(), "orders/3: ")
	expect(t, past(), "2 held\n")
	expect(t, past(), "- orders/1: ", "released")

	// Both go on with what happens now.
	g := agent.Hold("orders/4")
	for _, next := range []func() string{now, past} {
		expect(t, next(), "+ orders/4: ", fmt.Sprintf("token %d", g.Token()))
	}
	agent.Release(g)
	for _, next := range []func() string{now, past} {
		expect(t, next(), "- orders/4: ", "released")
	}
}

// A lease that outlives its agent stays when nobody holds the lock, until it is over.
func TestOutlivingLease(t *testing.T) {
	log := testlog.New(natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"}).URL())
	agent := log.Agent(t)
	agent.Hold("cron/report", channelapi.Lease(time.Hour), channelapi.Outlive())
	agent.Hold("orders/1", channelapi.Lease(time.Hour))
	agent.Stop()
	next := begin(t, log.URL, time.Now())
	expect(t, next(), "cron/report: nobody, but the lease of ", " stays until ")
	expect(t, next(), "0 held\n")
	next = begin(t, log.URL, time.Now().Add(2*time.Hour))
	expect(t, next(), "0 held\n")
}

// A hub has what happened on a host only when the forwarder has brought it. What counts is when it
// happened.
func TestRecordsThatCameLate(t *testing.T) {
	log := testlog.New(natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"}).URL())
	point := time.Now().Add(-12 * time.Hour)
	event := func(kind lockagent.EventKind, lock lockagent.Name, token lockagent.Token, count int, at time.Duration) lockagent.Event {
		return lockagent.Event{
			Kind: kind, Lock: lock, Owner: "joe", Request: uint64(token), Tenure: uint64(token), Token: token, How: lockagent.ByStore,
			Count: count, Time: point.Add(at),
		}
	}
	// The agent that is later is in the stream first.
	log.Write(t, event(lockagent.EventGranted, "orders/3", 3, 1, time.Second))
	log.Write(t,
		event(lockagent.EventGranted, "orders/1", 1, 1, -2*time.Second),
		event(lockagent.EventGranted, "orders/2", 2, 1, -time.Second),
		event(lockagent.EventExpired, "orders/2", 2, 0, 2*time.Second), // not one record, with the grant
		event(lockagent.EventGranted, "orders/4", 4, 1, 3*time.Second),
		event(lockagent.EventReleased, "orders/4", 4, 0, 3*time.Second)) // one record
	next := begin(t, log.URL, point)
	expect(t, next(), "orders/1: ")
	expect(t, next(), "orders/2: ")
	expect(t, next(), "2 held\n")
	expect(t, next(), "+ orders/3: ")
	expect(t, next(), "- orders/2: ")
	expect(t, next(), "+ orders/4: ")
	expect(t, next(), "- orders/4: ")
}
