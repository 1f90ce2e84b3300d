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

	"github.com/lockagent/lockagent/examples/internal/testlog"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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

func TestHolders(t *testing.T) {
	log := testlog.New(natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"}).URL())
	agent, other := log.Agent(t), log.Agent(t)
	first := agent.Hold("orders/1")
	agent.Release(agent.Hold("orders/2"))
	second := other.Hold("orders/3")
	then := time.Now() // of the machine on which the server runs as well

	agent.Release(first)
	expect := func(got string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(got, part) {
				t.Fatalf("it says %q, want %q", got, part)
			}
		}
	}
	now := begin(t, log.URL, time.Now())
	expect(now(), "orders/3: ", fmt.Sprintf("token %d", second.Token()))
	expect(now(), "1 held\n")

	past := begin(t, log.URL, then)
	expect(past(), "orders/1: ", fmt.Sprintf("token %d", first.Token()))
	expect(past(), "orders/3: ")
	expect(past(), "2 held\n")
	expect(past(), "- orders/1: ", "released")

	// Both go on with what happens now.
	g := agent.Hold("orders/4")
	for _, next := range []func() string{now, past} {
		expect(next(), "+ orders/4: ", fmt.Sprintf("token %d", g.Token()))
	}
	agent.Release(g)
	for _, next := range []func() string{now, past} {
		expect(next(), "- orders/4: ", "released")
	}
}
