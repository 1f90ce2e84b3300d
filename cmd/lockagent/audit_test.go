package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/eventscmd"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/logtest"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/audit"
	"github.com/lockagent/lockagent/events/natslog"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	"github.com/lockagent/lockagent/internal/waittest"
)

func TestEventsAuditCheckpoint(t *testing.T) {
	t.Parallel()
	dir, checkpoint := kept(t), filepath.Join(t.TempDir(), "audit.json")
	auditor := func(dir string) result { return call(t, "events", "audit", "--dir", dir, "--checkpoint", checkpoint) }
	auditor(dir).expect(t, cli.ExitOK, []string{"proven: ", "(0 repeated) of 3 agents on 2 locks: "}, nil)
	// Only the last message is read again.
	auditor(dir).expect(t, cli.ExitOK, []string{"proven: ", "(0 repeated) of 3 agents on 2 locks: "}, nil)

	// The next audit counts what the last one has seen, and reads what is new.
	call(t, "demo", "--keep", dir, "--duration", "100ms", "--agents", "2").expect(t, cli.ExitOK, nil, nil)
	auditor(dir).expect(t, cli.ExitOK, []string{"proven: ", " of 5 agents on "}, nil)
	if files, err := filepath.Glob(checkpoint + "*"); err != nil || len(files) != 1 {
		t.Errorf("there are the files %v, %v", files, err)
	}

	auditor(kept(t)).expect(t, cli.ExitUsage, nil, []string{
		"is of another stream", "Try: lockagent events audit --dir ", " --checkpoint ",
	})
	if err := os.WriteFile(checkpoint, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	auditor(dir).expect(t, cli.ExitUsage, nil, []string{
		"no checkpoint of an audit", "Try: lockagent events audit --dir ", " --checkpoint ",
	})
}

// changes decodes the lines of an audit that goes on.
func changes(t *testing.T, text string) (all []eventscmd.VerdictChange) {
	t.Helper()
	for _, line := range lines(text) {
		var c eventscmd.VerdictChange
		if strings.HasSuffix(line, "\n") {
			if err := json.Unmarshal([]byte(line), &c); err != nil || c.Version != cli.JSONVersion {
				t.Fatalf("it is no change: %v\n%s", err, line)
			}
			all = append(all, c)
		}
	}
	return all
}

// awaitVerdict returns when the last line has a verdict.
func (r *running) awaitVerdict(t *testing.T, want audit.Verdict) {
	t.Helper()
	r.await(t, string(want), func(text string) bool {
		all := changes(t, text)
		return len(all) > 0 && all[len(all)-1].Verdict == want
	})
}

func TestEventsAuditFollows(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"})
	checkpoint := filepath.Join(t.TempDir(), "audit.json")
	r := start(t, "events", "audit", "--follow", "--format", "jsonl", "--nats", server.URL(),
		"--checkpoint", checkpoint, "--metrics", "127.0.0.1:0")
	r.awaitVerdict(t, audit.Empty)
	call(t, "demo", "--nats", server.URL(), "--duration", "100ms").expect(t, cli.ExitOK, nil, nil)
	r.awaitVerdict(t, audit.Proven)
	publishOverlap(t, server.URL())
	r.awaitVerdict(t, audit.Violated)
	last := changes(t, r.String())
	if c := last[len(last)-1]; c.Before == "" || c.Position == 0 || c.Report.Violations.Count != 1 {
		t.Errorf("the last change is %+v", c)
	}
	metrics := scrape(t, regexp.MustCompile(`Metrics: (http://\S+)`).FindStringSubmatch(r.stderr.String())[1])
	for _, want := range []string{
		`lockagent_audit_verdict{verdict="violated"} 1`, `lockagent_audit_verdict{verdict="proven"} 0`,
		"lockagent_audit_violations_total 1", "lockagent_audit_holes 0", "lockagent_audit_horizon_lag_seconds ",
		"lockagent_audit_pending 0", "lockagent_audit_events_total ",
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics do not have %q:\n%s", want, metrics)
		}
	}
	r.interrupt(t).expect(t, cli.ExitViolated, nil, []string{"not proven: violated"})

	// What it found is in the checkpoint.
	call(t, "events", "audit", "--nats", server.URL(), "--checkpoint", checkpoint).
		expect(t, cli.ExitViolated, []string{"violated: 1 ", `"orders/42": two holds overlapped`}, nil)
}

// An audit that goes on ends in order when nobody reads it any more.
func TestEventsAuditFollowsInText(t *testing.T) {
	t.Parallel()
	url := logged(t)
	r := start(t, "events", "audit", "--follow", "--nats", url)
	r.await(
		t, "the verdict",
		func(text string) bool { return strings.Contains(text, "\nproven: nothing overlapped that must not\n") },
	)
	r.interrupt(t).expect(t, cli.ExitOK, []string{"  up to position "}, nil)
}

// publishOverlap publishes what overlapping has: the holds of two agents at the same time.
func publishOverlap(t *testing.T, url string) {
	t.Helper()
	publishers := make(map[lockagent.AgentID]*natslog.Publisher)
	ctx := waittest.Context(t)
	log := strings.NewReader(logtest.Overlapping(t, time.Now()))
	err := events.ReadLines(log, func(r *events.Record, err error) error {
		if err != nil {
			return err
		}
		p := publishers[r.Agent]
		if p == nil {
			if p, err = natslog.NewPublisher(natslog.Config{
				Connection: natslog.Connection{URL: url}, Agent: r.Agent,
			}); err != nil {
				return err
			}
			publishers[r.Agent] = p
		}
		p.Record(ctx, r.Event)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range publishers {
		if err := p.Close(ctx); err != nil {
			t.Error(err)
		}
	}
}

// stream is the stream of a server, for somebody who changes it.
func stream(t *testing.T, url string) jetstream.Stream {
	t.Helper()
	s, err := jetStream(t, url).Stream(t.Context(), natslog.DefaultStream)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// jetStream is that of a server, for somebody who does there what no verb does.
func jetStream(t *testing.T, url string) jetstream.JetStream {
	t.Helper()
	to := natslog.Connection{URL: url}
	nc, err := natslog.Connect(to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := to.JetStream(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func TestEventsAuditAcknowledges(t *testing.T) {
	t.Parallel()
	url, checkpoint := logged(t), filepath.Join(t.TempDir(), "audit.json")
	auditor := func(args ...string) result {
		return call(t, append([]string{"events", "audit", "--nats", url, "--checkpoint", checkpoint}, args...)...)
	}
	publishOverlap(t, url)
	auditor().expect(t, cli.ExitViolated, []string{"violated: 1 "}, nil)
	auditor("--acknowledge", "we know").expect(
		t, cli.ExitOK,
		[]string{"proven: ", "acknowledged: by ", "1 violation (we know)", `violation: "orders/42": two holds overlapped`},
		nil,
	)
	auditor("--acknowledge", "again").expect(
		t, cli.ExitOK, []string{"proven: "}, []string{"there is nothing to acknowledge"},
	)
	auditor().expect(t, cli.ExitOK, []string{"proven: ", "acknowledged: by "}, nil)
}

// Somebody removes messages from the stream.
func TestEventsAuditOfRemovedMessages(t *testing.T) {
	t.Parallel()
	url, checkpoint := logged(t), filepath.Join(t.TempDir(), "audit.json")
	s := stream(t, url)
	if err := s.DeleteMsg(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	auditor := func() result { return call(t, "events", "audit", "--nats", url, "--checkpoint", checkpoint) }
	auditor().expect(t, cli.ExitIncomplete, []string{"incomplete: ", "missing: messages 3 to 3 of the stream"}, nil)

	// All that came after the checkpoint.
	before := s.CachedInfo().State.LastSeq + 1
	call(t, "demo", "--nats", url, "--duration", "100ms").expect(t, cli.ExitOK, nil, nil)
	if err := s.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	auditor().expect(t, cli.ExitIncomplete, []string{fmt.Sprintf("missing: messages %d to ", before)}, nil)
}

// An audit that began before there was a stream knows which one it has read.
func TestEventsAuditFollowsANewStream(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"})
	checkpoint := filepath.Join(t.TempDir(), "audit.json")
	r := start(t, "events", "audit", "--follow", "--nats", server.URL(), "--checkpoint", checkpoint)
	r.stderr.await(
		t, "that it waits", func(text string) bool { return strings.Contains(text, "waiting for the first agent") },
	)
	call(t, "demo", "--nats", server.URL(), "--duration", "100ms").expect(t, cli.ExitOK, nil, nil)
	r.await(t, "the verdict", func(text string) bool { return strings.Contains(text, "\nproven: ") })
	r.interrupt(t).expect(t, cli.ExitOK, nil, nil)
	other := kept(t)
	call(t, "events", "audit", "--dir", other, "--checkpoint", checkpoint).expect(
		t, cli.ExitUsage, nil, []string{"is of another stream"},
	)
}

// What is worth trying works as it is written: it names the same log.
func TestTryNamesTheSameLog(t *testing.T) {
	t.Parallel()
	url := published(t, logtest.Overlapping(t, logtest.Begun))
	user := strings.Replace(url, "nats://", "nats://joe:secret@", 1)
	for _, test := range []struct {
		verb []string
		code int
		try  string
	}{
		{[]string{"audit"}, cli.ExitViolated, "lockagent events state orders/42 --at "},
		{[]string{"audit", "--lock", "orders/43"}, cli.ExitEmpty, "lockagent events holders "},
		{[]string{"history", "orders/43"}, cli.ExitEmpty, "lockagent events holders "},
	} {
		place := []string{"--nats", url, "--nats-stream", natslog.DefaultStream, "--nats-tls-first=false"}
		r := call(t, slices.Concat([]string{"events"}, test.verb, place)...)
		r.expect(t, test.code, nil, []string{"Try: " + test.try})
		_, try, _ := strings.Cut(r.stderr, "Try: lockagent ")
		try, _, _ = strings.Cut(try, "    (")
		call(t, strings.Fields(try)...).expect(t, cli.ExitOK, nil, nil)

		secret := call(t, slices.Concat([]string{"events"}, test.verb, []string{"--nats", user})...)
		secret.expect(t, test.code, nil, []string{"Try: " + test.try, " --nats URL"})
		if strings.Contains(secret.stderr, "secret") {
			t.Errorf("it tells the password: %s", secret.stderr)
		}
	}
}

// What is older than the audit was to look stays out of it, also in a stream whose positions say nothing.
func TestEventsAuditFollowsFromALateBeginning(t *testing.T) {
	t.Parallel()
	url := published(t, logtest.Overlapping(t, time.Now()))
	cfg := stream(t, url).CachedInfo().Config
	cfg.Subjects = append(cfg.Subjects, "other.>")
	if _, err := jetStream(t, url).UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	r := start(t, "events", "audit", "--nats", url, "--follow", "--begin", "1ns")
	r.await(t, "the verdict", func(text string) bool { return strings.Contains(text, "empty: ") })
	publish(t, url, 1)
	r.await(t, "what is new", func(text string) bool { return strings.Count(text, "  up to position ") > 1 })
	if text := r.String(); strings.Contains(text, "violated") {
		t.Errorf("it reads what is older:\n%s", text)
	}
}
