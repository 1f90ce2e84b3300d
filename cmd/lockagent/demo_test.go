package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/demo"
	"github.com/lockagent/lockagent/events/audit"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
)

// patientLease is for all demos but those without locks. On a busy machine no lock may be lost, and no call of Redis
// given up, which is after a part of the lease.
const patientLease = "1m"

// summaryLines begin the lines of a summary in which all is proven.
var summaryLines = []string{
	"  grants ", "  waits ", "  hand-offs ", "  store calls ", "  losses ", "  refused ",
	"  ok   no lost update ", "  ok   agents ", "  ok   event log ", "  ok   mutual exclusion ",
}

func TestDemo(t *testing.T) {
	t.Parallel()
	r := call(t, "demo", "--duration", "300ms", "--lease", patientLease)
	r.expect(t, cli.ExitOK, append(summaryLines,
		"3 agents with 8 workers each contend for 4 locks for 300ms.\n"+
			"Store: in memory. Event log: in an embedded NATS server.\n",
		"  losses       none\n", "0 operations with an old token", "3 of 3 ended well", "Next: lockagent demo --no-locks"),
		nil)
	if r.stderr != "" {
		t.Errorf("stderr says %q", r.stderr)
	}
	if strings.ContainsAny(r.stdout, "\r\x1b") {
		t.Errorf("the output is none of a terminal, but has what only a terminal understands: %q", r.stdout)
	}
}

func TestDemoWithoutLocks(t *testing.T) {
	t.Parallel()
	var r result
	waittest.Until(t, "a demo in which an update is lost", func() bool { // by chance, and nearly always
		r = call(t, "demo", "--no-locks", "--duration", "200ms")
		return r.code != cli.ExitOK
	})
	r.expect(t, cli.ExitFailed,
		[]string{"without locking anything", "FAIL no lost update", "were lost"},
		[]string{"not proven: no lost update", "Try: lockagent demo"})
}

func TestDemoJSON(t *testing.T) {
	t.Parallel()
	r := call(t, "demo", "--duration", "300ms", "--agents", "2", "--workers", "3", "--locks", "1", "--think", "0",
		"--lease", patientLease, "--format", "json")
	r.expect(t, cli.ExitOK, nil, nil)
	s := decodeSummary(t, r)
	switch {
	case !s.OK, s.Agents != 2, s.Workers != 3, s.Locks != 1, !s.Locked, s.Processes, s.Store != "memory",
		s.EventLog != "embedded",
		s.Grants == 0, s.Updates == 0, s.LostUpdates != 0, s.Audit == nil, len(s.Checks) != 4, len(s.Counters) != 1,
		s.Waits.Max < s.Waits.P50:
		t.Errorf("the summary is wrong: %s", r.stdout)
	}
}

func decodeSummary(t *testing.T, r result) demo.Summary {
	t.Helper()
	var s demo.Summary
	d := json.NewDecoder(strings.NewReader(r.stdout))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		t.Fatalf("the summary cannot be read: %v\n%s", err, r.stdout)
	}
	return s
}

func TestDemoInProcesses(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	r := call(t, "demo", "--redis", server.URL(), "--processes", "3", "--duration", "5s", "--think", "20ms",
		"--lease", patientLease, "--format", "json")
	r.expect(t, cli.ExitOK, nil, nil)
	s := decodeSummary(t, r)
	if !s.OK || s.Agents != 3 || !s.Processes || s.Store != "redis" || s.Audit.Agents != 3 || s.StoreCalls.Acquire == 0 {
		t.Errorf("the summary is wrong: %s", r.stdout)
	}
	if keys := server.Do("KEYS", "lockagent/demo/*"); len(keys.([]any)) > 0 {
		t.Errorf("locks are left in Redis: %v", keys)
	}
}

// grants are the counts in the lines of progress.
func grants(output string) []int {
	var all []int
	for _, m := range regexp.MustCompile(`([\d,]+) grants `).FindAllStringSubmatch(output, -1) {
		n, _ := strconv.Atoi(strings.ReplaceAll(m[1], ",", "")) // digits, as the expression says
		all = append(all, n)
	}
	return all
}

// working reports whether something was written: there were more grants than workers, and a worker writes before it
// asks again.
func working(output string) bool {
	const workers = 3 * 8
	g := grants(output)
	return len(g) > 0 && g[len(g)-1] > workers
}

// The agents go on when their Redis is killed and comes back without anything.
func TestDemoWithRedisRestartedEmpty(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	r := start(
		t, "demo", "--redis", server.URL(), "--processes", "3", "--duration", "1h", "--think", "20ms", "--lease",
		patientLease,
	)
	r.await(t, "it works", working)
	server.Restart()
	r.await(t, "it saw the reset", func(output string) bool { return strings.Contains(output, "store reset") })
	before := len(grants(r.String()))
	r.await(t, "it works again", func(output string) bool {
		g := grants(output)
		return len(g) > before+1 && g[len(g)-1] > g[before-1]
	})
	r.interrupt(t).expect(t, cli.ExitOK, append(summaryLines, "  store resets ", "emptied", "3 of 3 ended well"), nil)
}

// Whoever holds a lock when Redis forgets it may overlap with the next holder. The counters refuse the old tokens, and
// the audit names the reset. It says proven only if it can tell the order of the tokens before a reset and after it:
// on a busy machine, a grant may arrive too long after its token was made for that.
func TestDemoWithRedisFlushed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	r := start(
		t, "demo", "--redis", server.URL(), "--duration", "1h", "--locks", "1", "--think", "300ms", "--lease", patientLease,
	)
	for n := range 4 {
		r.await(t, "it goes on", func(text string) bool { return len(grants(text)) > n })
		server.Do("FLUSHALL")
	}
	// The agents learn of a reset when the store answers them again.
	before := grants(r.String())
	r.await(t, "it goes on after the last", func(text string) bool {
		now := grants(text)
		return now[len(now)-1] > before[len(before)-1]+2
	})
	got, code, lines := r.interrupt(t), cli.ExitOK, summaryLines
	if strings.Contains(got.stdout, "  unproven: ") {
		code, lines = cli.ExitFailed, append(slices.Clone(lines[:len(lines)-1]), "but the event log is incomplete")
	}
	got.expect(t, code, lines, nil)
	if strings.Contains(got.stdout, "  violation: ") {
		t.Errorf("the audit does not name the reset: %s", got.stdout)
	}
}

// A Redis that is gone for good does not keep the demo from ending.
func TestDemoWithRedisGone(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	r := start(t, "demo", "--redis", server.URL(), "--duration", "1h", "--think", "20ms", "--lease", patientLease)
	r.await(t, "it works", working)
	server.Kill()
	r.await(t, "nothing is granted any more", func(output string) bool { return strings.Contains(output, " 0/s ") })
	r.interrupt(t).expect(t, cli.ExitOK, summaryLines, nil)
}

func TestDemoWithoutRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Kill()
	for _, args := range [][]string{
		{"demo", "--redis", server.URL()},
		{"demo", "--redis", server.URL(), "--processes", "2"},
	} {
		r := call(t, args...)
		r.expect(t, cli.ExitUnavailable, nil, []string{"lockagent: ", "Try: "})
		if r.stdout != "" {
			t.Errorf("it says %q before it knows", r.stdout)
		}
	}
}

func TestDemoWithTheWrongPassword(t *testing.T) {
	const secret = "open-sesame"
	server := redistest.Start(t, redistest.WithPassword(secret))
	r := call(t, "demo", "--redis", server.UserURL("", "wrong-"+secret))
	r.expect(t, cli.ExitNotPermitted, nil, []string{"lockagent: "})
	if strings.Contains(r.stderr, secret) {
		t.Errorf("stderr has the password: %s", r.stderr)
	}
	t.Setenv("LOCKAGENT_REDIS", server.URL())
	works := start(t, "demo", "--duration", "1h", "--think", "20ms", "--lease", patientLease)
	works.await(t, "it works", working)
	works.interrupt(t).expect(t, cli.ExitOK, []string{"Store: Redis"}, nil)
}

func TestDemoMetrics(t *testing.T) {
	t.Parallel()
	r := start(t, "demo", "--metrics", "127.0.0.1:0", "--duration", "1h", "--think", "20ms", "--lease", patientLease)
	body := scrape(t, metricsURL(t, &r.output))
	for _, want := range []string{
		"lockagent_lock_acquire_duration_seconds_count{", "lockagent_store_call_duration_seconds_count{",
		"lockagent_lock_held ", "lockagent_events_published_total ", "lockagent_events_dropped_total ",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the metrics have no %s:\n%s", want, body)
		}
	}
	r.interrupt(t).expect(t, cli.ExitOK, summaryLines, nil)
}

func TestDemoMetricsWithoutAPort(t *testing.T) {
	call(t, "demo", "--metrics", "nowhere").expect(t, cli.ExitUsage, nil, []string{
		"missing port", "Try: lockagent demo --metrics 127.0.0.1:0",
	})
}

// leader starts the program in a process of its own, as the leader of a group.
func leader(t *testing.T, args ...string) (*exec.Cmd, *output) {
	t.Helper()
	var out output
	cmd := exec.Command(program(t), args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stdout, cmd.Stderr = &out, t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // in case the test has given up
	return cmd, &out
}

// A terminal sends an interrupt to the whole group of processes.
func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			cmd, out := leader(
				t, "demo", "--redis", server.URL(), "--processes", "2", "--duration", "1h", "--think", "20ms", "--lease",
				patientLease,
			)
			out.await(t, "it works", working)
			if err := syscall.Kill(-cmd.Process.Pid, sig); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("it ended with %v", err)
			}
			result{cmd.ProcessState.ExitCode(), out.String(), ""}.expect(t, cli.ExitOK, summaryLines, nil)
		})
	}
}

// Whoever reads the output may go away: that ends nothing but the output.
func TestDemoWithItsReaderGone(t *testing.T) {
	t.Parallel()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	read.Close()
	temporary := t.TempDir()
	cmd := exec.Command(program(t), "demo", "--duration", "200ms", "--lease", patientLease)
	cmd.Env = append(os.Environ(), "TMPDIR="+temporary)
	var stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = write, &stderr
	_ = cmd.Run() // the exit code is looked at
	write.Close()
	if code := cmd.ProcessState.ExitCode(); code != cli.ExitFailed || stderr.Len() > 0 {
		t.Errorf("exit code %d, want %d; stderr: %s", code, cli.ExitFailed, &stderr)
	}
	left, err := os.ReadDir(temporary)
	if err != nil || len(left) > 0 {
		t.Errorf("files are left: %v, %v", left, err)
	}
}

// The summary is a contract: fields are only added. So is the report in it.
func TestSummaryFields(t *testing.T) {
	text, err := json.Marshal(demo.Summary{Audit: &audit.Report{}, Checks: []demo.Check{{}}})
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"ok", "agents", "processes", "workers", "locks", "locked", "store", "event_log", "elapsed_ms", "grants",
		"grants_per_second", "waits", "hand_offs", "hand_off_share", "store_calls", "store_resets", "grace_periods", "losses",
		"unconfirmed_releases", "counters", "updates", "lost_updates", "refused_operations", "unfinished", "events", "audit",
		"checks",
	} {
		if _, ok := fields[name]; !ok {
			t.Errorf("the summary has no field %q", name)
		}
		delete(fields, name)
	}
	if len(fields) > 0 {
		t.Errorf("fields that nobody has written down here: %v", fmt.Sprint(fields))
	}
}
