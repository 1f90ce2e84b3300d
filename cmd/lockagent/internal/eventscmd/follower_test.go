package eventscmd

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/logtest"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/audit"
	"github.com/lockagent/lockagent/events/natslog"
)

// An agent is silent only while the server could tell of it, by the clock of the server.
func TestFollowerKnowsForHowLongAllIsSilent(t *testing.T) {
	at := func(s int) time.Time { return time.Date(2020, 1, 1, 0, 0, s, 0, time.UTC) }
	var now time.Time
	var err error
	w := &follower{
		audit: audit.New(),
		state: func(context.Context) (natslog.StreamState, error) { return natslog.StreamState{Now: now}, err },
	}
	w.audit.Add(events.Record{
		Event: lockagent.Event{Agent: "A", Kind: lockagent.EventAgentStarted}, Epoch: 1, Seq: 1, Position: 1, Stored: at(0),
	})
	for _, step := range []struct {
		now  int
		err  error
		idle time.Duration
	}{
		{30, nil, 30 * time.Second},
		{40, natslog.ErrNoStream, 0}, // the server is away
		{200, nil, 0},
		{210, nil, 10 * time.Second},
	} {
		now, err = at(step.now), step.err
		if w.listen(t.Context()); w.idle != step.idle {
			t.Errorf("at %d s it was silent for %v, want %v", step.now, w.idle, step.idle)
		}
	}
}

// Metrics can be asked for before the log was read. Then they say what the checkpoint says.
func TestFollowerBeginsWithItsCheckpoint(t *testing.T) {
	for log, want := range map[string]audit.Verdict{
		"": audit.Empty, logtest.Overlapping(t, logtest.Begun): audit.Violated,
	} {
		auditor := audit.New()
		if err := events.ReadLines(strings.NewReader(log), auditor.Visit); err != nil {
			t.Fatal(err)
		}
		checkpoint, err := auditor.Checkpoint()
		if err != nil {
			t.Fatal(err)
		}
		if auditor, err = audit.Resume(checkpoint); err != nil {
			t.Fatal(err)
		}
		if r := newFollower(&auditFlags{}, io.Discard, auditor, nil).report(); r.Verdict != want {
			t.Errorf("the verdict is %q, want %q", r.Verdict, want)
		}
	}
}

// An audit that is interrupted while it reads what there is keeps and tells what it has found. Those who ask for
// metrics see it before.
func TestAuditIsInterruptedWhileItReads(t *testing.T) {
	synctest.Test(t, auditIsInterrupted)
}

func auditIsInterrupted(t *testing.T) {
	f := &auditFlags{checkpoint: filepath.Join(t.TempDir(), "audit.json")}
	var out strings.Builder
	w := newFollower(f, &out, audit.New(), nil)
	ctx, interrupt := context.WithCancel(t.Context())
	err := w.run(ctx, func(ctx context.Context) error {
		position := uint64(0)
		log := strings.NewReader(logtest.Overlapping(t, time.Now()))
		if err := events.ReadLines(log, func(r *events.Record, err error) error {
			position++
			r.Position, r.Stored = position, r.Time
			return w.visit(r, err)
		}); err != nil {
			return err
		}
		time.Sleep(2 * lookEvery) // of virtual time
		if w.report().Events == 0 || out.Len() > 0 {
			t.Errorf("nobody has looked, or somebody was told: %s", &out)
		}
		interrupt()
		<-ctx.Done()
		return context.Cause(ctx)
	}, nil)
	if err != nil {
		t.Error(err)
	}
	if n := strings.Count(out.String(), "up to position"); n != 1 ||
		!strings.Contains(out.String(), "violated: 1 violation") {
		t.Errorf("it told %d times:\n%s", n, out.String())
	}
	auditor, err := f.resume()
	if err != nil || auditor.Position() != w.position() || auditor.Position() == 0 {
		t.Fatalf("resumed at %v: %v", auditor, err)
	}

	// What the checkpoint knows is known before anything is read.
	if before := newFollower(f, &out, auditor, nil).report(); before.Violations.Count != 1 {
		t.Errorf("%v", before)
	}

	// So it is without --follow.
	once := &auditFlags{checkpoint: filepath.Join(t.TempDir(), "audit.json"), format: "text"}
	cmd, text, said := new(cobra.Command), new(strings.Builder), new(strings.Builder)
	cmd.SetOut(text)
	cmd.SetErr(said)
	if err := once.interrupted(cmd, auditor, context.Canceled); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if again, err := once.resume(); err != nil || again.Position() != auditor.Position() {
		t.Errorf("resumed at %v: %v", again, err)
	}
	if !strings.Contains(text.String(), "violated: 1 violation") || !strings.Contains(said.String(), "up to position") {
		t.Errorf("it told %s, %s", text, said)
	}
}

// A look at a large audit takes its time, and nothing is read meanwhile.
func TestAuditReadsLongerThanItLooks(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{
		0: lookEvery, 90 * time.Millisecond: lookEvery, 200 * time.Millisecond: 2 * time.Second,
	} {
		if got := pauseAfter(took); got != want {
			t.Errorf("after %v: %v", took, got)
		}
	}
}
