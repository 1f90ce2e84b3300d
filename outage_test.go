package lockagent_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/audit"
	"github.com/lockagent/lockagent/events/natslog"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/redisstore"
)

// roleVariable tells a process that a test has started from this binary what to be.
const roleVariable = "LOCKAGENT_TEST_ROLE"

// childConfig is what such a process needs to know. It comes in a line of JSON on the standard
// input. The process ends when its input does.
type childConfig struct {
	Dir, Addr string // of the NATS server
	Redis     string // URL
	Agent     lockagent.AgentID
	Epoch     uint64
	Queue     int
}

// childReport is what the process says when it works, and when it ends.
type childReport struct {
	Grants int // that its workers were given
	Stats  natslog.Stats
}

// runChild is the main function of such a process.
func runChild(role string) int {
	in := bufio.NewReader(os.Stdin)
	line, err := in.ReadBytes('\n')
	var c childConfig
	if err == nil {
		err = json.Unmarshal(line, &c)
	}
	if err == nil {
		switch role {
		case "nats":
			err = runServer(c, in)
		case "agent":
			err = runAgent(c, in)
		case "mortal":
			err = runMortal(c, in)
		default:
			err = fmt.Errorf("no role %q", role)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, role+":", err)
		return 1
	}
	return 0
}

// say writes a report that the test reads.
func (r childReport) say() { _ = json.NewEncoder(os.Stdout).Encode(r) }

func runServer(c childConfig, in io.Reader) error {
	server, err := natsserver.Start(natsserver.Config{Dir: c.Dir, Listen: c.Addr, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	childReport{}.say()
	_, _ = io.Copy(io.Discard, in)
	return server.Stop()
}

// openLocks opens the locks of the agent of a child process.
func (c childConfig) openLocks(
	publisher *natslog.Publisher, lease time.Duration,
) (*redisstore.Store, *channelapi.Locks, error) {
	store, err := patient.Open(context.Background(), c.Redis)
	if err != nil {
		return nil, nil, err
	}
	locks, err := channelapi.New(channelapi.Config{Store: store, ID: c.Agent, Recorder: publisher, Lease: lease})
	return store, locks, err
}

func runAgent(c childConfig, in *bufio.Reader) error {
	ctx := context.Background()
	publisher, err := natslog.NewPublisher(natslog.Config{
		Connection: natslog.Connection{URL: "nats://" + c.Addr, Logger: slog.New(slog.DiscardHandler)},
		Agent:      c.Agent, QueueSize: c.Queue, MaxBytes: -1,
	})
	if err != nil {
		return err
	}
	store, locks, err := c.openLocks(publisher, 5*time.Second) // a lease of a killed agent must be over soon
	if err != nil {
		return err
	}
	working, stop := context.WithCancel(ctx)
	grants := contend(working, locks, func(lockagent.Grant) {})
	childReport{}.say()
	for _, err := in.ReadString('\n'); err == nil; _, err = in.ReadString('\n') { // each line is a question
		childReport{Stats: countsOf(publisher)}.say()
	}
	stop()
	report := childReport{Grants: grants()}
	err = errors.Join(locks.Close(), store.Close())
	_ = publisher.Close(ctx) // what was dropped is in the counts
	report.Stats = countsOf(publisher)
	report.say()
	return err
}

// countsOf is what JSON can tell of the counts of a publisher.
func countsOf(publisher *natslog.Publisher) natslog.Stats {
	counts := publisher.Stats()
	counts.Err = nil
	return counts
}

// workers is how many want locks in an agent of a child process.
const workers = 4

// contend has the workers want three locks until ctx ends, and hold them for 10 ms. granted is
// called for each grant. grants waits for their end, and tells how many grants they were given.
func contend(ctx context.Context, locks *channelapi.Locks, granted func(lockagent.Grant)) (grants func() int) {
	var all sync.WaitGroup
	var mu sync.Mutex
	total := 0
	for w := range workers {
		all.Go(func() {
			for n := w; ctx.Err() == nil; n++ {
				g, err := locks.Lock(fmt.Sprintf("outage/%d", n%3)).Acquire(ctx)
				if err != nil {
					continue // ctx has ended
				}
				mu.Lock()
				total++
				granted(g)
				mu.Unlock()
				select {
				case <-time.After(10 * time.Millisecond):
				case <-g.Done():
				}
				_ = g.Release(context.WithoutCancel(ctx)) // what went wrong with it is in the log
			}
		})
	}
	return func() int {
		all.Wait()
		return total
	}
}

// child is a process of a test.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// spawn starts a process, and returns when it works.
func spawn(t *testing.T, role string, cfg childConfig) *child {
	t.Helper()
	c := &child{cmd: exec.Command(os.Args[0])}
	c.cmd.Env = append(os.Environ(), roleVariable+"="+role)
	c.cmd.Stderr = t.Output()
	var err error
	c.in, err = c.cmd.StdinPipe()
	must(t, err)
	out, err := c.cmd.StdoutPipe()
	must(t, err)
	c.out = bufio.NewReader(out)
	must(t, c.cmd.Start())
	t.Cleanup(c.kill)
	must(t, json.NewEncoder(c.in).Encode(cfg))
	c.hear(t)
	return c
}

func (c *child) hear(t *testing.T) (r childReport) {
	t.Helper()
	line, err := c.out.ReadBytes('\n')
	must(t, err)
	must(t, json.Unmarshal(line, &r))
	return r
}

// counts asks an agent for the counts of its publisher.
func (c *child) counts(t *testing.T) natslog.Stats {
	t.Helper()
	_, err := fmt.Fprintln(c.in)
	must(t, err)
	return c.hear(t).Stats
}

// droppedGrants is how many grants are not in the log because the publisher had no room for them.
func droppedGrants(counts natslog.Stats) int {
	of := counts.DroppedByKind
	return int(of[lockagent.EventGranted]+of[lockagent.EventHeld]) - int(of[lockagent.EventUnclaimed])
}

// kill is kill -9. It may be called again.
func (c *child) kill() {
	if c.cmd == nil {
		return
	}
	_ = c.cmd.Process.Kill() // it may have ended
	_ = c.cmd.Wait()
	_ = c.in.Close()
	c.cmd = nil
}

// end ends the process in order, and returns its report.
func (c *child) end(t *testing.T) childReport {
	t.Helper()
	must(t, c.in.Close())
	r := c.hear(t)
	must(t, c.cmd.Wait())
	c.cmd = nil
	return r
}

// NATS is killed and away for a while. Meanwhile one agent is killed, and later the one that
// takes its place. The audit accounts for every grant of the others, and names each gap.
func TestOutageAndCrashes(t *testing.T) {
	t.Parallel()
	outageAndCrashes(t, 300, 20)
}

// outageAndCrashes keeps NATS away while the agents ask Redis for something so many times. One of them has room for
// fewer events than that.
func outageAndCrashes(t *testing.T, calls, room int) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	must(t, listener.Close())
	redis := redistest.Start(t)
	cfg := childConfig{Dir: t.TempDir(), Addr: listener.Addr().String(), Redis: redis.URL()}
	working := func() {
		t.Helper()
		before := redis.Calls("evalsha")
		waittest.Until(t, "the agents to work on", func() bool { return redis.Calls("evalsha") >= before+calls/2 })
	}
	agent := func(id lockagent.AgentID, queue int) *child {
		cfg := cfg
		cfg.Agent, cfg.Queue = id, queue
		return spawn(t, "agent", cfg)
	}
	nats := spawn(t, "nats", cfg)
	roomy := agent("roomy", 0)        // keeps all its events until NATS is back
	narrow := agent("narrow", room)   // has to drop some
	first := agent("first-killed", 0) // loses what it has kept
	cfg.awaitGrants(t, "roomy", "narrow", "first-killed")
	nats.kill()
	working()
	first.kill()
	second := agent("second-killed", 0)
	working()
	waittest.Until(t, "the agent without room to drop some grants", func() bool {
		return droppedGrants(narrow.counts(t)) > workers // each worker may leave one unclaimed when it ends
	})
	nats = spawn(t, "nats", cfg)
	cfg.awaitGrants(t, "second-killed")
	second.kill()
	said := map[lockagent.AgentID]childReport{"roomy": roomy.end(t), "narrow": narrow.end(t)}

	auditor, grants := audit.New(), make(map[lockagent.AgentID]int)
	reader := cfg.open(t)
	must(t, reader.Replay(waittest.Context(t), natslog.From{}, events.Filter{}, func(r *events.Record, err error) error {
		switch r.Kind {
		case lockagent.EventGranted, lockagent.EventHeld:
			grants[r.Agent]++
		case lockagent.EventUnclaimed: // the worker ended at that moment
			grants[r.Agent]--
		}
		return auditor.Visit(r, err)
	}))
	must(t, nats.in.Close())
	report := auditor.Report()
	text := report.String()
	t.Logf("the agents said %+v\n%s", said, text)
	if report.Verdict != audit.Incomplete || report.Violations.Count > 0 {
		t.Errorf(
			"the verdict is %v with %d violations; want incomplete, for two ends of logs are missing", report.Verdict,
			report.Violations.Count,
		)
	}
	r := said["roomy"]
	if r.Stats.Dropped > 0 || grants["roomy"] != r.Grants {
		t.Errorf(
			"the log has %d grants of the agent with room, which had %d and dropped %d events", grants["roomy"], r.Grants,
			r.Stats.Dropped,
		)
	}
	r = said["narrow"]
	dropped := droppedGrants(r.Stats)
	if dropped == 0 || grants["narrow"]+dropped != r.Grants {
		t.Errorf(
			"the log has %d grants of the agent without room, which had %d and dropped %d", grants["narrow"], r.Grants, dropped,
		)
	}
	for _, name := range []string{"first-killed", "second-killed", "narrow"} {
		if !strings.Contains(text, name) {
			t.Errorf("the report does not name the gap of %q", name)
		}
	}
}

func (c childConfig) open(t *testing.T) *natslog.Reader {
	t.Helper()
	reader, err := natslog.OpenReader(natslog.ReaderConfig{
		Connection: natslog.Connection{URL: "nats://" + c.Addr, Logger: slog.New(slog.DiscardHandler)},
	})
	must(t, err)
	t.Cleanup(reader.Close)
	return reader
}

// awaitGrants waits until the log has a grant of each of the agents.
func (c childConfig) awaitGrants(t *testing.T, agents ...lockagent.AgentID) {
	t.Helper()
	ctx := waittest.Context(t)
	missing := make(map[lockagent.AgentID]bool)
	for _, a := range agents {
		missing[a] = true
	}
	reader, enough := c.open(t), errors.New("enough")
	err := natslog.ErrNoStream
	for errors.Is(err, natslog.ErrNoStream) {
		err = reader.Tail(ctx, natslog.From{}, events.Filter{}, func(r *events.Record, err error) error {
			if r.Kind == lockagent.EventGranted || r.Kind == lockagent.EventHeld {
				delete(missing, r.Agent)
			}
			if len(missing) == 0 {
				return enough
			}
			return err
		})
	}
	if !errors.Is(err, enough) {
		t.Fatalf("no grants of %v in the log: %v", missing, err)
	}
}
