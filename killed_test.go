package lockagent_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/audit"
	"github.com/lockagent/lockagent/events/natslog"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
)

// mark identifies a grant.
type mark struct {
	Lock  lockagent.Name
	Token lockagent.Token
}

// runMortal is an agent that may be killed at any moment. It says which of its grants are in the log
// for certain, again and again, until its input ends.
func runMortal(c childConfig, in io.Reader) error {
	ctx := context.Background()
	publisher, err := natslog.NewPublisher(natslog.Config{
		Connection: natslog.Connection{URL: "nats://" + c.Addr, Logger: slog.New(slog.DiscardHandler)},
		Agent:      c.Agent, Epoch: c.Epoch, Heartbeat: 100 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	store, locks, err := c.openLocks(publisher, 2*time.Second) // a lease of a killed agent must be over soon
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var had []mark // guarded by mu
	working, stop := context.WithCancel(ctx)
	defer stop()
	grants := contend(working, locks, func(g lockagent.Grant) {
		mu.Lock()
		defer mu.Unlock()
		had = append(had, mark{g.Name(), g.Token()})
	})
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, in)
		close(ended)
	}()
	out := json.NewEncoder(os.Stdout)
	tell := func() error {
		mu.Lock()
		certain := had
		had = nil
		mu.Unlock()
		if err := publisher.Flush(ctx); err != nil {
			return err
		}
		return out.Encode(certain)
	}
	for alive := true; alive; {
		select {
		case <-ended:
			alive = false
		default:
			if err := tell(); err != nil {
				return err
			}
		}
	}
	stop()
	grants()
	return errors.Join(tell(), locks.Close(), store.Close(), publisher.Close(ctx))
}

// TestKilledAgain kills an agent again and again, at any moment of its life. Each time it comes back
// with its identity and the next epoch. Another agent wants the same locks all the time.
func TestKilledAgain(t *testing.T) {
	t.Parallel()
	killedAgain(t, 3)
}

func killedAgain(t *testing.T, kills int) {
	server := natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"})
	cfg := childConfig{Addr: server.URL()[len("nats://"):], Redis: redistest.Start(t).URL()}
	steady := beginMortal(t, cfg, "steady", 1)
	certain := make(map[mark]bool)
	epoch := uint64(1)
	for ; epoch <= uint64(kills); epoch++ {
		m := beginMortal(t, cfg, "mortal", epoch)
		<-time.After(rand.N(600 * time.Millisecond)) // a moment of its start, or of its work
		m.child.kill()
		m.said(certain)
	}
	last := beginMortal(t, cfg, "mortal", epoch)
	last.works(t)
	last.end(t, certain)
	steady.end(t, certain)
	t.Logf("%d grants are certain", len(certain))
	if len(certain) == 0 {
		t.Error("nothing was granted")
	}

	reader := cfg.open(t)
	auditor, latest, lives := audit.New(), make(map[lockagent.AgentID]events.Place), 0
	must(t, reader.Replay(waittest.Context(t), natslog.From{}, events.Filter{}, func(r *events.Record, err error) error {
		switch r.Kind {
		case lockagent.EventGranted, lockagent.EventHeld:
			delete(certain, mark{r.Lock, r.Token})
		case lockagent.EventAgentStarted:
			if r.Agent == "mortal" {
				lives++
			}
			if before := latest[r.Agent]; r.Follows != before {
				t.Errorf("epoch %d of %s follows %v, and the log had %v", r.Epoch, r.Agent, r.Follows, before)
			}
		}
		latest[r.Agent] = events.Place{Epoch: r.Epoch, Seq: r.Seq}
		return auditor.Visit(r, err)
	}))
	for m := range certain {
		t.Errorf("the grant of %s with token %d was acknowledged, and is not in the log", m.Lock, m.Token)
	}
	report := auditor.Report()
	t.Logf("%d of %d lives left records\n%s", lives, kills+1, report)
	nothingLeft := 0
	for _, gap := range report.RecordHoles.First {
		nothingLeft += int(gap.Lives)
	}
	if report.Violations.Count > 0 || nothingLeft != kills+1-lives || report.Late.Count > 0 {
		t.Errorf(
			"the audit finds more than the ends that are lost, and %d lives that left nothing:\n%s", kills+1-lives, report,
		)
	}
	if report.Tails.Count != lives-1 || latest["mortal"].Epoch != epoch {
		t.Errorf(
			"%d ends are lost, and the audit names %d; the last epoch is %d, want %d", lives-1, report.Tails.Count,
			latest["mortal"].Epoch, epoch,
		)
	}
}

// mortal is a process that runs [runMortal].
type mortal struct {
	child *child
	lines chan []mark
}

func beginMortal(t *testing.T, cfg childConfig, id lockagent.AgentID, epoch uint64) *mortal {
	t.Helper()
	cfg.Agent, cfg.Epoch = id, epoch
	c := &child{cmd: exec.Command(os.Args[0])}
	c.cmd.Env = append(os.Environ(), roleVariable+"=mortal")
	c.cmd.Stderr = t.Output()
	var err error
	c.in, err = c.cmd.StdinPipe()
	must(t, err)
	r, w, err := os.Pipe() // Wait does not close our end
	must(t, err)
	c.cmd.Stdout = w
	must(t, c.cmd.Start())
	must(t, w.Close())
	t.Cleanup(c.kill)
	must(t, json.NewEncoder(c.in).Encode(cfg))
	m := &mortal{child: c, lines: make(chan []mark, 1<<20)}
	go func() {
		defer close(m.lines)
		defer r.Close()
		for lines := bufio.NewReader(r); ; {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return // what there is of a last line was not said
			}
			var marks []mark
			if err := json.Unmarshal(line, &marks); err != nil {
				panic(fmt.Sprintf("a child says %q", line))
			}
			m.lines <- marks
		}
	}()
	return m
}

// works waits until some grants are in the log.
func (m *mortal) works(t *testing.T) {
	t.Helper()
	for granted := 0; granted == 0; {
		granted = len(waittest.Receive(t, "a grant", m.lines))
	}
}

// said adds what the process has said before its end.
func (m *mortal) said(certain map[mark]bool) {
	for marks := range m.lines {
		for _, of := range marks {
			certain[of] = true
		}
	}
}

// end ends the process in order.
func (m *mortal) end(t *testing.T, certain map[mark]bool) {
	t.Helper()
	must(t, m.child.in.Close())
	m.said(certain)
	must(t, m.child.cmd.Wait())
	m.child.cmd = nil
}
