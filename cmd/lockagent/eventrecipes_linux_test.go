package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/logtest"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/natslog"
	"github.com/lockagent/lockagent/internal/machinetest"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
)

// duckDB returns a Python that has DuckDB. If there is none, it is an error on a CI machine. Elsewhere the test is
// skipped, and says so.
func duckDB(t *testing.T) (python string) {
	t.Helper()
	const wheel = "testdata/duckdb.txt"
	if _, err := os.ReadFile(wheel); err != nil { // so that a result in the cache depends on it
		t.Fatal(err)
	}
	venv := t.TempDir()
	python = filepath.Join(venv, "bin", "python3")
	for _, command := range [][]string{
		{"python3", "-m", "venv", venv},
		{python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", wheel},
	} {
		if out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput(); err != nil {
			machinetest.Needs(t, fmt.Errorf("there is no DuckDB (make deps installs Python, and pip that): %w\n%s", err, out))
		}
	}
	return python
}

// small is the log of the page in a stream: that of logtest.LossOf, an overlap, and holds that are a table.
type small struct {
	t    *testing.T
	js   jetstream.JetStream
	last map[lockagent.AgentID]uint64
}

var midafternoon = time.Date(2026, 11, 21, 14, 3, 0, 0, time.UTC)

// put adds records of one lock and agent, in one message.
func (s *small) put(all ...events.Record) {
	s.t.Helper()
	for i := range all {
		r := &all[i]
		s.last[r.Agent]++
		r.Epoch, r.Seq, r.Store = 1, s.last[r.Agent], "1"
		if r.Lock != "" {
			r.LockKind, r.Mode = lockagent.PlainLock, lockagent.Exclusive
		}
	}
	first := all[0]
	m := nats.NewMsg(string(events.AppendSubject(nil, events.DefaultPrefix, first.Agent, first.Kind, first.Lock)))
	m.Data = events.AppendBatch(nil, all)
	m.Header.Set("Content-Type", events.BatchContentType)
	if _, err := s.js.PublishMsg(s.t.Context(), m); err != nil {
		s.t.Fatal(err)
	}
}

// hold returns a hold in one record.
func (s *small) hold(
	agent lockagent.AgentID, lock lockagent.Name, owner lockagent.Owner, tenure uint64, began, ended float64,
) events.Record {
	e := lockagent.Event{
		Kind: lockagent.EventHeld, Agent: agent, Time: s.at(began), Lock: lock, Owner: owner, Request: tenure, Tenure: tenure,
		Token: lockagent.Token(tenure), How: lockagent.ByStore, Lease: 10 * time.Second, Held: s.at(ended).Sub(s.at(began)),
		Incarnation: "1",
	}
	e.StoreTime, e.Confirmed, e.Returned = s.clock(began), s.clock(began), s.clock(ended)
	e.Until = e.Returned + 100
	return events.Record{Event: e}
}

func (s *small) at(seconds float64) time.Time {
	return midafternoon.Add(time.Duration(seconds*1e6) * time.Microsecond)
}

func (s *small) clock(seconds float64) lockagent.StoreTime {
	return lockagent.StoreTime(s.at(seconds).UnixMicro())
}

func (s *small) write() {
	s.t.Helper()
	if _, err := s.js.CreateStream(s.t.Context(), jetstream.StreamConfig{
		Name: natslog.DefaultStream, Subjects: []string{events.AllSubjects},
	}); err != nil {
		s.t.Fatal(err)
	}
	err := events.ReadLines(strings.NewReader(logtest.LossOf(s.t, midafternoon)), func(r *events.Record, err error) error {
		s.put(*r)
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	for i, agent := range []lockagent.AgentID{"c", "d"} {
		s.put(events.Record{Event: lockagent.Event{
			Kind: lockagent.EventAgentStarted, Agent: agent, Time: s.at(9),
			Process: lockagent.Process{Host: "web-3", Program: "batch", PID: 5 + i},
		}})
	}
	s.put(s.hold("c", "stock/7", "ann", 1, 10, 13))
	bob := s.hold("d", "stock/7", "bob", 2, 12, 15)
	bob.Waited = 800 * time.Millisecond
	bob.Who = lockagent.Process{Host: "web-3", Program: "report.sh", PID: 41, User: "ops"}.Who()
	s.put(bob)
	s.put(events.Record{Event: lockagent.Event{ // the log has forgotten its beginning
		Kind: lockagent.EventLost, Agent: "e", Time: s.at(15.5), Lock: "stock/8", Owner: "e/1", Request: 1, Tenure: 1,
		Token: 1, Held: 2 * time.Second,
		Who:    lockagent.Process{Host: "web-4", Program: "report.sh", PID: 52, User: "ops"}.Who(),
		Reason: lockagent.LostDeadline, Lease: 10 * time.Second, Confirmed: s.clock(5), Until: s.clock(15.5),
	}})
	s.put(s.hold("c", "cache", "ann", 3, 16, 16.002), s.hold("c", "cache", "ann", 4, 17, 17.003)) // a table
}

// askDuckDB answers the statements in its standard input, in one session.
const askDuckDB = `
import duckdb, sys
db = duckdb.connect()
for block in sys.stdin.read().split("\0"):
    answer = db.sql(block)
    if "create view" not in block:
        answer.show()
    print("\0", end="")
`

// Each recipe of the page is run, and its output is what the page shows. The page is written if somebody wants that.
func TestRecipesForTheEventLog(t *testing.T) {
	t.Parallel()
	const page = "../../docs/recipes-events.md"
	if _, err := exec.LookPath("jq"); err != nil {
		machinetest.Needs(t, fmt.Errorf("CI=true make deps installs jq: %w", err))
	}
	python := duckDB(t)
	url := natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"}).URL()
	(&small{t, jetStream(t, url), make(map[lockagent.AgentID]uint64)}).write()
	if s := stream(t, url); !strings.Contains(lastOf(t, s), ".holds.v1") {
		t.Error("the stream has no table")
	}
	blocks := blocksOf(t, page)
	words := strings.Fields(blocks[0].text)
	if len(words) < 4 || words[0] != "lockagent" || words[len(words)-2] != ">" {
		t.Fatalf("the first block is %q", blocks[0].text)
	}
	dir := t.TempDir()
	log := call(t, slices.Concat(words[1:len(words)-2], []string{"--nats", url})...)
	log.expect(t, cli.ExitOK, []string{".held.v1"}, nil)
	if err := os.WriteFile(filepath.Join(dir, words[len(words)-1]), []byte(log.stdout), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(stdin, name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s\n%s", err, stdin, out)
		}
		return string(out)
	}
	var statements []string
	for _, b := range blocks {
		if b.language == "sql" {
			statements = append(statements, b.text)
		}
	}
	answers := strings.Split(run(strings.Join(statements, "\x00"), python, "-c", askDuckDB), "\x00")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	is, shown := string(text), 0
	for i, b := range blocks[1:] {
		var got string
		switch b.language {
		case "sh":
			got = run(b.text, "bash", "-e")
		case "sql":
			got, answers = strings.TrimRight(answers[0], "\n"), answers[1:]
			if got != "" {
				got += "\n"
			}
		default:
			continue
		}
		if next := i + 2; next < len(blocks) && blocks[next].language == "text" {
			shown++
			is = strings.Replace(
				is, "```"+b.language+"\n"+b.text+"```\n```text\n"+blocks[next].text+"```",
				"```"+b.language+"\n"+b.text+"```\n```text\n"+got+"```", 1,
			)
		} else if got != "" {
			t.Errorf("the page does not show what this prints:\n%s%s", b.text, got)
		}
	}
	if shown < 9 {
		t.Errorf("%d recipes have an output", shown)
	}
	if lines := strings.Count(statements[len(statements)-1], "\n"); lines > 10 || !strings.Contains(is, "│ stock/7 │ c") {
		t.Errorf("the last recipe has %d lines, or does not find the overlap", lines)
	}
	if !strings.Contains(is, "│ web-4 ") {
		t.Error("no recipe tells that an agent of web-4, whose start the log has forgotten, has lost a hold")
	}
	if os.Getenv("LOCKAGENT_TEST_RENEW") != "" {
		if err := os.WriteFile(page, []byte(is), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(text) != is {
		t.Errorf("got\n%s\nwant\n%s", text, is)
	}
}

// lastOf is the last message of a stream.
func lastOf(t *testing.T, s jetstream.Stream) string {
	t.Helper()
	m, err := s.GetMsg(t.Context(), s.CachedInfo().State.LastSeq)
	if err != nil {
		t.Fatal(err)
	}
	return string(m.Data)
}
