package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/lockagent/lockagent/examples/internal/testlog"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, natstest.LeftBehind()) }

// begin runs the example. It returns its lines, one at a time.
func begin(t *testing.T, url string) (next func() string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, url, in)
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
	agent.Release(first)
	second := other.Hold("orders/3")

	next := begin(t, log.URL)
	expect(t, next(), "orders/3: ", fmt.Sprintf("token %d", second.Token()))

	g := agent.Hold("orders/4")
	expect(t, next(), "+ orders/4: ", fmt.Sprintf("token %d", g.Token()))
	agent.Release(g)
	expect(t, next(), "- orders/4: ", "released")
	other.Release(second)
	expect(t, next(), "- orders/3: ", "released")
}
