package python

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/natslog"
	"github.com/lockagent/lockagent/examples/internal/testlog"
	"github.com/lockagent/lockagent/internal/machinetest"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
)

func TestMain(m *testing.M) {
	var err error
	if venv, err = os.MkdirTemp("", "lockagent-python-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, natstest.LeftBehind(), goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(venv) // what is left is in the directory for what is temporary
		os.Exit(code)
	}))
}

// venv is the directory of the interpreter.
var venv string

// install makes a Python that has what the example needs.
var install = sync.OnceValues(func() (path string, err error) {
	path = filepath.Join(venv, "bin", "python3")
	for _, command := range [][]string{
		{"python3", "-m", "venv", venv},
		{path, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", "requirements.txt"},
	} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("%v: %w\n%s", command, err, out)
		}
	}
	return path, nil
})

// interpreter is that Python. If there is none, it is an error on a CI machine. Elsewhere the test is
// skipped, and says so.
func interpreter(t *testing.T) (path string) {
	t.Helper()
	for _, file := range []string{"holders.py", "requirements.txt"} {
		// A test whose result is cached runs again if a file has changed that it has read.
		if _, err := os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	path, err := install()
	if err != nil {
		err = fmt.Errorf("there is no Python for the example (make deps installs one): %w", err)
	}
	machinetest.Needs(t, err)
	return path
}

// contains fails the test unless output has some texts and not others.
func contains(t *testing.T, output string, wants, others []string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(output, want) {
			t.Errorf("the output does not say %q", want)
		}
	}
	for _, other := range others {
		if strings.Contains(output, other) {
			t.Errorf("the output says %q", other)
		}
	}
	if t.Failed() {
		t.Fatalf("the output:\n%s", output)
	}
}

func TestHolders(t *testing.T) {
	python := interpreter(t)
	log := testlog.New(natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"}).URL())
	agent, other := log.Agent(t), log.Agent(t)
	state := filepath.Join(t.TempDir(), "state.json")
	holders := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(
			t.Context(), python, append([]string{"holders.py", "--nats", log.URL, "--state", state}, args...)...,
		)
		cmd.Stderr = t.Output()
		return cmd
	}
	once := func() string {
		out, err := holders("--once").Output()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}

	first := agent.Hold("orders/1")
	agent.Release(agent.Hold("orders/2"))
	contains(t, once(), []string{"orders/1 ", fmt.Sprintf("token %d", first.Token())}, []string{"orders/2"})

	// The next run knows what the last one knew.
	other.Hold("orders/3")
	contains(t, once(), []string{"orders/1 ", "orders/3 "}, nil)
	agent.Release(first)
	contains(t, once(), []string{"orders/3 "}, []string{"orders/1"})

	cmd := holders()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(stdout)
	next := func() string {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return line
	}
	contains(t, next(), []string{"orders/3 "}, nil)
	g := other.Hold("orders/4")
	contains(t, next(), []string{"orders/4: ", " holds it", fmt.Sprintf("token %d", g.Token())}, nil)
	other.Release(g)
	contains(t, next(), []string{"orders/4: ", " no longer holds it: released"}, nil)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(t.Output(), lines); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("an interrupt is how it is meant to end: %v", err)
	}
}

// A lease that outlives its agent, as that of examples/cron, stays when the agent has closed its locks.
// It is over in time.
func TestOutlivingLease(t *testing.T) {
	python := interpreter(t)
	log := testlog.New(natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"}).URL())
	agent := log.Agent(t)
	began := time.Now()
	g := agent.Hold("cron/report", channelapi.Lease(time.Hour), channelapi.Outlive())
	agent.Hold("orders/1", channelapi.Lease(time.Hour))
	state := filepath.Join(t.TempDir(), "state.json")
	once := func() string {
		out, err := exec.CommandContext(
			t.Context(), python, "holders.py", "--nats", log.URL, "--once", "--state", state,
		).Output()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	contains(t, once(), []string{"cron/report ", "orders/1 ", " its lease ends at "}, []string{"nobody holds"})
	agent.Stop()
	for range 2 { // from the log, and from what the program kept
		out := once()
		contains(
			t, out, []string{"nobody holds anything", "cron/report ", "nobody holds it, but the lease of "},
			[]string{"orders/1", "cron/over"},
		)
		_, text, _ := strings.Cut(out, " ends only at ")
		end, err := time.Parse(time.RFC3339, strings.TrimSpace(text))
		if err != nil {
			t.Fatal(err)
		}
		// The store is in this process, and the program tells milliseconds.
		if least := began.Add(time.Hour - time.Millisecond); end.Before(least) || end.After(time.Now().Add(time.Hour)) {
			t.Errorf("the lease ends at %v, want an hour after the grant, %v", end, least)
		}
	}
	// Whoever is granted a lock shows that the lease is over, and so does the clock.
	log.Write(t,
		lockagent.Event{
			Kind: lockagent.EventGranted, Lock: "cron/report", Token: g.Token() + 1, Tenure: 1, Request: 1, Count: 1,
			Owner: "joe", How: lockagent.ByStore,
		},
		lockagent.Event{
			Kind: lockagent.EventLost, Lock: "cron/over", Token: 1, Tenure: 2, Request: 2, Owner: "sue",
			Reason: lockagent.LostClosed, Fixed: true, Lease: time.Hour, Confirmed: 1,
		})
	contains(t, once(), []string{"cron/report ", "joe"}, []string{"nobody", "cron/over"})
}

// jetStream connects to a server until the test ends.
func jetStream(t *testing.T, url string) jetstream.JetStream {
	t.Helper()
	to := natslog.Connection{URL: url}
	connection, err := natslog.Connect(to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(connection.Close)
	js, err := to.JetStream(connection)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// A stream may have messages of others, and messages that are no events.
func TestOtherMessages(t *testing.T) {
	python := interpreter(t)
	log := testlog.New(natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"}).URL())
	js := jetStream(t, log.URL)
	cfg := jetstream.StreamConfig{
		Name: natslog.DefaultStream, Subjects: []string{"other.>", events.DefaultPrefix + ".>"}, Duplicates: time.Minute,
	}
	if _, err := js.CreateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	publish := func(subject, text string) {
		t.Helper()
		if _, err := js.Publish(t.Context(), subject, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	once := func() (stdout, stderr string) {
		t.Helper()
		var told strings.Builder
		cmd := exec.CommandContext(t.Context(), python, "holders.py", "--nats", log.URL, "--once")
		cmd.Stderr = &told
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v\n%s%s", err, out, told.String())
		}
		return string(out), told.String()
	}
	publish("other.news", "{}")
	out, told := once()
	contains(t, out+told, []string{"nobody holds anything"}, []string{"left out"})

	publish(events.DefaultPrefix+".x.lock.orders", "no JSON")
	publish(events.DefaultPrefix+".x.lock.orders", `{"specversion": "1.0", "type": "io.lockagent.lock.granted.v1"}`)
	log.Agent(t).Hold("orders/1")
	publish("other.news", "{}")
	out, told = once()
	contains(t, out, []string{"orders/1 "}, nil)
	contains(
		t, told, []string{"message 2 is left out: no JSON", "message 3 is left out: no event: "},
		[]string{"message 1 ", "message 4 "},
	)
}

// A table may have columns in any order, unknown ones, and fields that are left out. One that is wrong is left out.
func TestTables(t *testing.T) {
	python := interpreter(t)
	url := natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"}).URL()
	js := jetStream(t, url)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: natslog.DefaultStream, Subjects: []string{events.DefaultPrefix + ".>"},
	}); err != nil {
		t.Fatal(err)
	}
	publish := func(seq int, kind, data string) {
		t.Helper()
		text := fmt.Sprintf(`{"specversion":"1.0","id":"1:%d","source":"/lockagent/agent/x",`+
			`"type":"io.lockagent.lock.%s.v1",`+
			`"time":"2026-11-21T02:03:04.123456Z","data":{"kind":"plain","mode":"exclusive",%s}}`, seq, kind, data)
		if _, err := js.Publish(t.Context(), events.DefaultPrefix+".x.lock.orders", []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	const grant = `"owner":"joe","request":1,"tenure":%d,"token":%[1]d,"how":"store","count":1`
	for i := range 4 {
		publish(i+1, "granted", fmt.Sprintf(`"lock":"orders/%d",`+grant, i, i+1))
	}
	const columns = `"count":0,"owner":"sue","columns":["token","shape","how","time","request","tenure","held_us"],"rows":`
	publish(5, "holds", `"lock":"orders/0",`+columns+`[[8,"round","store","2026-11-21T02:03:05Z",2,8,null]]`)
	publish(6, "holds", `"lock":"orders/1",`+columns+`[[8,null,"handoff",null,2,8,1],[9,null,"store",null,3,9,2,"more"]]`)
	publish(6, "holds", `"lock":"orders/2",`+columns+`[[8,{"a":[1]},"handoff",null,2,8,1],["9",null,"store",null,3,9,2]]`)
	publish(6, "holds", `"lock":"orders/3",`+columns+`[[8,null,"handoff",null,2,8,1],[9,null,"store",null,3,9,2]]`)
	publish(7, "granted", `"lock":"orders/4",`+fmt.Sprintf(grant, 10)) // it came before
	publish(8, "granted", `"lock":"orders/5",`+fmt.Sprintf(grant, 11))

	var told strings.Builder
	cmd := exec.CommandContext(t.Context(), python, "holders.py", "--nats", url, "--once")
	cmd.Stderr = &told
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, told.String())
	}
	contains(t, string(out), []string{"orders/1 ", "orders/2 ", "orders/5 "}, []string{"orders/0", "orders/3", "orders/4"})
	contains(
		t, told.String(),
		[]string{"message 6 is left out: no event: a row of a table", "message 7 is left out: no event: $.data.token"},
		[]string{"message 5 ", "message 8 "},
	)
}
