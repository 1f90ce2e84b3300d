package events

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent"
)

// These make the test binary a forwarder, so that one can be killed.
const (
	forwardFrom = "LOCKAGENT_TEST_FORWARD_FROM"
	forwardTo   = "LOCKAGENT_TEST_FORWARD_TO"
)

// forwardUntilOrphaned forwards until the test that started it is gone.
func forwardUntilOrphaned(from, to string) int {
	f, err := NewForwarder(ForwardConfig{
		Source: ReaderConfig{Connection: Connection{URL: from}},
		Hub:    ReaderConfig{Connection: Connection{URL: to}},
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	fmt.Println("started")
	_ = f.Run(ctx)
	return 0
}

// forwarderProcess is a forwarder in a process of its own.
type forwarderProcess struct {
	t        testing.TB
	from, to string
	cmd      *exec.Cmd
	in       io.Closer
}

func (p *forwarderProcess) start() {
	p.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), forwardFrom+"="+p.from, forwardTo+"="+p.to)
	cmd.Stderr = p.t.Output()
	in, err := cmd.StdinPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.cmd, p.in = cmd, in
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		p.t.Fatalf("the forwarder said %q: %v", line, err)
	}
}

func (p *forwarderProcess) kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill() // it may have ended by itself
	_ = p.cmd.Wait()
	_ = p.in.Close()
	p.cmd = nil
}

// stored returns how many messages a stream has, and false if the server does not say.
func stored(js jetstream.JetStream) (uint64, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	stream, err := js.Stream(ctx, DefaultStream)
	if err != nil {
		return 0, false
	}
	return stream.CachedInfo().State.Msgs, true
}

// TestForwardKilled kills the source, the forwarder and the hub in turns, while agents publish.
func TestForwardKilled(t *testing.T) {
	t.Parallel()
	source, hub := newProcess(t), newProcess(t)
	source.start()
	hub.start()
	sourceJS, hubJS := client(t, Connection{URL: source.url}), client(t, Connection{URL: hub.url})
	// The hub forgets message ids at once: they are not what this rests on.
	streamFor(t, hubJS, func(cfg *jetstream.StreamConfig) { cfg.Duplicates = 100 * time.Millisecond })
	worker := &forwarderProcess{t: t, from: source.url, to: hub.url}
	t.Cleanup(worker.kill)
	worker.start()

	var publishers []*Publisher
	done := make(chan signal)
	var wg sync.WaitGroup
	for _, agent := range []string{"first", "second"} {
		p := newPublisher(t, Config{Connection: Connection{URL: source.url}, Agent: lockagent.AgentID(agent)})
		publishers = append(publishers, p)
		wg.Go(func() {
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for n := 0; ; n++ {
				select {
				case <-tick.C:
					for range 3 {
						p.Record(context.Background(), requested(n))
					}
				case <-done:
					return
				}
			}
		})
	}
	stop := sync.OnceFunc(func() { close(done); wg.Wait() })
	t.Cleanup(stop)

	var before uint64
	for round := range 12 {
		eventually(t, fmt.Sprintf("the hub gets messages in round %d", round), func() bool {
			n, ok := stored(hubJS)
			if !ok || n < before+200+uint64(round)*7 { // at another moment each time
				return false
			}
			before = n
			return true
		})
		victim := []interface {
			kill()
			start()
		}{source, worker, hub}[round%3]
		victim.kill()
		victim.start()
	}
	stop()
	for _, p := range publishers {
		flushed(t, p)
	}
	var n uint64
	eventually(t, "the source says what it has", func() (ok bool) { n, ok = stored(sourceJS); return ok })
	eventually(t, fmt.Sprintf("the hub has %d messages", n), func() bool { got, _ := stored(hubJS); return got >= n })
	wantCopy(t, sourceJS, hubJS)
	got, _ := stored(hubJS)
	if got != n {
		t.Errorf("the hub has %d messages, want %d", got, n)
	}
	t.Logf("%d messages", n)
}
