//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"connectrpc.com/connect"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/client"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/servecmd"
	"github.com/lockagent/lockagent/internal/machinetest"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	"github.com/lockagent/lockagent/internal/waittest"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
	"github.com/lockagent/lockagent/proto/lockagent/v1/lockagentv1connect"
)

// serveProcess starts a daemon on a socket, with a state directory of its own, and waits until it is ready.
func serveProcess(t *testing.T, path string, environ []string, flags ...string) *process {
	t.Helper()
	cmd := exec.Command(program(t), serveFlags(path, flags)...)
	cmd.Env = append(os.Environ(), environ...)
	p := launch(t, cmd)
	p.stderr.await(t, "that it is ready", func(text string) bool {
		return strings.Contains(text, "Ready: ") || strings.Contains(text, `"msg":"ready"`)
	})
	return p
}

// signal sends a signal.
func (p *process) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := p.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// unixHTTP is a client of a Unix socket.
func unixHTTP(t *testing.T, path string) *http.Client {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// page reads a page.
func page(t *testing.T, client *http.Client, url string) (status int, text string) {
	t.Helper()
	r, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(body)
}

// SIGHUP takes all of a file, or nothing.
func TestReload(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	file := path + ".yaml"
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("log: {level: info}\n")
	d := serveProcess(t, path, nil, "--config", file)
	_, client := claims(t, path, "door")
	reload := func(says ...string) {
		t.Helper()
		before := len(d.stderr.String())
		d.signal(t, syscall.SIGHUP)
		d.stderr.await(t, strings.Join(says, " and "), func(text string) bool {
			return !slices.ContainsFunc(says, func(s string) bool { return !strings.Contains(text[before:], s) })
		})
	}
	check := func(want connect.Code) {
		t.Helper()
		_, err := client.Check(t.Context(), &lockagentv1.CheckRequest{Kind: readWrite, Name: "door", Token: 1})
		if got := connect.CodeOf(err); err == nil && want != 0 || err != nil && got != want {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	check(0)

	reload(`msg="the settings were reloaded" changes=0`)

	write("limits: {claims: 1}\nlease: {duration: 10s}\nrules: [{match: '**', allow: [acquire]}]\n")
	reload(
		`msg="a setting has changed" setting=limits.claims old=16384 new=1`,
		`msg="a setting has changed, and needs a restart to count" setting=lease.duration old=30s new=10s`,
		`setting=rules`, `msg="the settings were reloaded" changes=3`,
	)
	check(connect.CodePermissionDenied)
	stream, err := client.Acquire(t.Context(), &lockagentv1.AcquireRequest{Name: "desk"})
	if err == nil {
		stream.Receive()
		err = stream.Err()
		_ = stream.Close()
	}
	if connect.CodeOf(err) != connect.CodeResourceExhausted {
		t.Errorf("a second claim got %v", err)
	}

	write("rules: []\nlog: {levvel: debug}\n")
	reload(file+":2", `did you mean log.level?`, "the old ones go on counting")
	check(connect.CodePermissionDenied)

	write("rules: [{match: '**', users: [nobody-has-this], allow: [look]}]\n")
	reload(`rules.1 names the user \"nobody-has-this\"`, "the old ones go on counting")
	check(connect.CodePermissionDenied)

	write("rules: [{match: '**', allow: [look]}]\nlog: {level: debug}\n")
	reload("setting=log.level old=info new=debug")
	check(0)
	if level := strings.Count(d.stderr.String(), "level=DEBUG"); level > 0 {
		t.Logf("%d lines of debugging", level)
	}
}

// Lines of the log are JSON if somebody wants that, and have the trace of the request that they are about.
func TestLogOfTheDaemon(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	d := serveProcess(t, path, []string{"LOCKAGENT_LOG_FORMAT=json"})
	claims(t, path, "door")
	ctx, call := connect.NewClientContext(t.Context())
	call.RequestHeader().Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	operate := lockagentv1connect.NewOperateServiceClient(unixHTTP(t, path), client.URL)
	if _, err := operate.Break(
		ctx, &lockagentv1.BreakRequest{Kind: readWrite, Name: "door", Reason: "stuck"},
	); err != nil {
		t.Fatal(err)
	}
	d.stderr.await(t, "that the lock was broken", says("a lock was broken"))
	d.signal(t, syscall.SIGTERM)
	waittest.Receive(t, "the end of the process", d.stderr.ended)
	if d.end != nil {
		t.Errorf("it ended with %v", d.end)
	}
	var broken map[string]any
	for line := range strings.Lines(d.stderr.String()) {
		var record map[string]any
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Errorf("%q is no JSON: %v", line, err)
		}
		if record["msg"] == "a lock was broken" {
			broken = record
		}
	}
	if broken["trace_id"] != "0af7651916cd43dd8448eb211c80319c" || broken["span_id"] != "b7ad6b7169203331" ||
		broken["lock"] != "door" || broken["reason"] != "stuck" {
		t.Errorf("the line is %v", broken)
	}
}

func TestHealthAndMetrics(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	d := serving(t, path, "--metrics", "127.0.0.1:0", "--drain-then", "release")
	operator := unixHTTP(t, path+"-operator.sock")
	d.stderr.await(t, "where the metrics are", says("Metrics: "))
	_, base, _ := strings.Cut(d.stderr.String(), "Metrics: ")
	base, _, _ = strings.Cut(base, "/metrics\n")
	tcp := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(tcp.CloseIdleConnections)
	has := func(client *http.Client, url string, status int, text string) {
		t.Helper()
		if s, got := page(t, client, url); s != status || !strings.Contains(got, text) {
			t.Errorf("%s: %d, %s", url, s, got)
		}
	}
	g, client := claims(t, path, "door")
	for who, url := range map[*http.Client]string{tcp: base, operator: "http://operator"} {
		has(who, url+"/healthz", 200, "ok")
		has(who, url+"/readyz", 200, "ok")
		has(who, url+"/", 404, "")
	}
	has(operator, "http://operator/debug/pprof/goroutine?debug=1", 200, "goroutine profile")
	has(tcp, base+"/debug/pprof/", 404, "")
	has(unixHTTP(t, path), "http://lockagent/debug/pprof/", 404, "")
	if info, err := os.Stat(path + "-operator.sock"); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the operator's socket: %v, %v", info, err)
	}
	for _, metric := range []string{
		`lockagent_daemon_claims{state="held"} 1`, `lockagent_daemon_claims{state="waiting"} 0`, "lockagent_daemon_ready 1",
		"lockagent_lock_acquire_duration_seconds_count", "lockagent_events_published_total",
	} {
		has(tcp, base+"/metrics", 200, metric)
	}

	d.stop()
	d.stderr.await(t, "that it drains", says("Draining"))
	has(tcp, base+"/healthz", 200, "ok")
	waittest.Until(t, "that it is not ready", func() bool {
		status, text := page(t, tcp, base+"/readyz")
		if status == http.StatusServiceUnavailable && text != "not ready\n" {
			t.Errorf("everybody may read %q", text) // and the reason has paths and addresses
		}
		return status == http.StatusServiceUnavailable
	})
	has(operator, "http://operator/readyz", 503, "not ready: lockagent: the daemon drains: it takes no new claims")
	if _, err := client.Release(
		t.Context(), &lockagentv1.ReleaseRequest{Claim: g.GetClaim(), Secret: g.GetSecret()},
	); err != nil {
		t.Error(err)
	}
	d.interrupt(t).expect(t, cli.ExitOK, nil, nil)
	for _, socket := range []string{path, path + "-operator.sock"} {
		if _, err := os.Lstat(socket); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there: %v", socket, err)
		}
	}
}

// The events of the daemon are in its state directory, and those of all its lives are at the hub.
func TestEventsOfTheDaemon(t *testing.T) {
	t.Parallel()
	hub := natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"}).URL()
	path := socketPath(t)
	read := func(from ...string) string {
		r := call(t, append([]string{"events", "tail", "--all", "--follow=false", "--format", "jsonl"}, from...)...)
		return r.stdout
	}
	var local string
	for _, name := range []string{"door", "desk"} {
		d := serving(t, path, "--nats", hub, "--drain-timeout", "1ms")
		claims(t, path, name)
		call(t, "events", "tail", "--dir", path+".state/events", "--all", "--follow=false").expect(
			t, cli.ExitUnavailable, nil, []string{"is in use by another process"},
		)
		d.interrupt(t)
		local = read("--dir", path+".state/events")
		if !strings.Contains(local, `"lock":"`+name+`"`) {
			t.Errorf("the log does not tell of %s:\n%s", name, local)
		}
	}
	d := serving(t, path, "--nats", hub)
	d.awaitHub(t, local, func() string {
		text := read("--nats", hub)
		return text[:min(len(local), len(text))] // what this daemon has added comes behind it
	})
	call(t, "events", "audit", "--nats", hub).expect(t, cli.ExitOK, []string{"proven"}, nil)
	d.interrupt(t)
}

// A daemon that has the time ends when the hub has all events. Without the hub it does not wait, and says what is left.
func TestTheHubHasAllEventsAtTheEnd(t *testing.T) {
	t.Parallel()
	hub := natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"})
	path := socketPath(t)
	read := func(from ...string) string {
		return call(t, append([]string{"events", "tail", "--all", "--follow=false", "--format", "jsonl"}, from...)...).stdout
	}
	for range 3 {
		d := serving(t, path, "--nats", hub.URL(), "--drain-then", "release")
		for range 5 {
			apart(t, "lock", "--socket", path, "door", "true").expect(t, cli.ExitOK, nil, nil)
		}
		d.interrupt(t).expect(t, cli.ExitOK, nil, nil)
		local, there := read("--dir", path+".state/events"), read("--nats", hub.URL())
		if local != there || !strings.Contains(local, "agent.stopped") {
			t.Errorf("the hub has\n%s\nand the log\n%s", there, local)
		}
		if strings.Contains(d.stderr.String(), "the hub does not have") {
			t.Errorf("it says %s", &d.stderr)
		}
	}
	d := serving(t, path, "--nats", hub.URL(), "--drain-timeout", "1h", "--drain-then", "release")
	if err := hub.Stop(); err != nil {
		t.Fatal(err)
	}
	apart(t, "lock", "--socket", path, "door", "true").expect(t, cli.ExitOK, nil, nil)
	d.interrupt(t).expect(t, cli.ExitOK, nil, []string{"the hub does not have the last messages", "at_most="})
}

// A daemon says what of its event log is gone, and starts.
func TestADamagedEventLog(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	d := serving(t, path, "--drain-timeout", "1ms")
	for _, name := range []string{"door", "desk", "room"} {
		claims(t, path, name)
	}
	d.interrupt(t).expect(t, cli.ExitOK, nil, nil)
	whole := path + ".state"
	if d = serving(t, path); strings.Contains(d.stderr.String(), "level=ERROR") {
		t.Errorf("of a whole log it says %s", &d.stderr)
	}
	d.interrupt(t).expect(t, cli.ExitOK, nil, nil)

	const stream = "/events/jetstream/$G/streams/LOCKAGENT/"
	for _, test := range []struct {
		name, says string
		damage     func(dir string) error
	}{
		{
			"no meta file", "the event log could not be recovered, and a new one begins",
			func(dir string) error { return os.Remove(dir + stream + "meta.inf") },
		},
		{"another meta file", "the event log could not be recovered, and a new one begins", func(dir string) error {
			return os.WriteFile(dir+stream+"meta.inf", []byte("x"), 0o600)
		}},
		{
			"the directory is gone", "the event log could not be recovered, and a new one begins",
			func(dir string) error { return os.RemoveAll(dir + stream) },
		},
		{
			"cut", "the event log has messages that cannot be read",
			func(dir string) error { return os.Truncate(dir+stream+"msgs/1.blk", 700) },
		},
		{
			"no messages", "the event log has lost all of its messages",
			func(dir string) error { return os.Remove(dir + stream + "msgs/1.blk") },
		},
		{"what was seen is damaged", "nobody knows whether the event log has lost something", func(dir string) error {
			return os.WriteFile(dir+"/events.seen", []byte("x"), 0o600)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := socketPath(t)
			if err := os.CopyFS(path+".state", os.DirFS(whole)); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(os.Chmod(path+".state", 0o700), test.damage(path+".state")); err != nil {
				t.Fatal(err)
			}
			d := serving(t, path, "--drain-timeout", "1ms")
			d.stderr.await(t, test.says, says(test.says))
			claims(t, path, "hall")
			d.interrupt(t).expect(t, cli.ExitOK, nil, nil)
			if r := call(
				t, "events", "tail", "--dir", path+".state/events", "--all", "--follow=false",
			); !strings.Contains(r.stdout, "hall") {
				t.Errorf("the log does not go on: %s", r.stdout)
			}
			asides, err := filepath.Glob(path + ".state/events.damaged-*")
			if want := strings.Contains(test.says, "a new one begins"); err != nil || (len(asides) == 1) != want {
				t.Errorf("set aside is %v, %v", asides, err)
			}
		})
	}
}

// A daemon that systemd starts when the first client comes. The socket is systemd's, and stays.
func TestSocketActivation(t *testing.T) {
	t.Parallel()
	activate, err := exec.LookPath("systemd-socket-activate")
	machinetest.Needs(t, err)
	path := socketPath(t)
	cmd := exec.Command(
		activate, "--fdname=lockagent", "-l", path, program(t), "serve", "--state-dir", path+".state", "--socket",
		path+".unused", "--drain-timeout", "1ms",
	)
	p := launch(t, cmd)
	p.stderr.await(t, "that systemd listens", says("Listening on"))
	claims(t, path, "door") // which starts the daemon
	p.stderr.await(t, "that it is ready", says("Ready: "+path))
	p.signal(t, syscall.SIGTERM) // it has the number of the process that listened
	waittest.Receive(t, "the end of the process", p.stderr.ended)
	if p.end != nil {
		t.Errorf("it ended with %v:\n%s", p.end, &p.stderr)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the socket of systemd is gone: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(path + ".unused")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it made a socket of its own: %v", err)
	}
}

// A client that connects and asks while no daemon runs is answered by the next one, because the socket is systemd's.
func TestSocketActivationBetweenTwoDaemons(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	passed, err := l.(*net.UnixListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = passed.Close() }()
	activate := func() *process {
		cmd := exec.Command(
			"sh", "-c", `LISTEN_PID=$$ exec "$@"`, "sh", program(t), "serve", "--state-dir", path+".state", "--socket",
			path+".unused",
		)
		cmd.Env = append(os.Environ(), "LISTEN_FDS=1", "LISTEN_FDNAMES="+servecmd.SocketName)
		cmd.ExtraFiles = []*os.File{passed}
		d := launch(t, cmd)
		d.stderr.await(t, "that it is ready", says("Ready: "+path))
		return d
	}
	d := activate()
	call(t, "acquire", "--socket", path, "--ttl", "1h", "door").expect(t, cli.ExitOK, nil, nil)
	d.signal(t, syscall.SIGTERM)
	waittest.Receive(t, "the end of the process", d.stderr.ended)
	if d.end != nil {
		t.Fatalf("it ended with %v:\n%s", d.end, &d.stderr)
	}
	client, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	if _, err := fmt.Fprintf(
		client,
		"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}",
		lockagentv1connect.LookServiceListProcedure,
	); err != nil {
		t.Fatal(err)
	}
	activate()
	if answer, err := io.ReadAll(client); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 200") ||
		!strings.Contains(string(answer), `"door"`) {
		t.Errorf("the client is told %q, %v", answer, err)
	}
}

// The next daemon gives the event log its own limits. What is in the log stays, as far as it fits.
func TestLimitsOfTheEventLog(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	flags := []string{"--drain-timeout", "1ms"}
	once := func(says string, more ...string) {
		t.Helper()
		d := serving(t, path, append(flags, more...)...)
		apart(t, "lock", "--socket", path, "door", "true").expect(t, cli.ExitOK, nil, nil)
		d.interrupt(t).expect(t, cli.ExitOK, nil, nil)
		if told := d.stderr.String(); strings.Contains(told, "has other limits") != (says != "") ||
			!strings.Contains(told, says) || strings.Contains(told, "level=ERROR") {
			t.Errorf("with %v it says %s", more, told)
		}
	}
	once("")
	once("") // they are the same
	once(
		"old_max_size=1GiB max_size=64MiB old_max_age=0s max_age=1h0m0s", "--events-max-size", "64MiB", "--events-max-age",
		"1h",
	)
	once("", "--events-max-size", "64MiB", "--events-max-age", "1h")
	once("old_max_size=64MiB max_size=0B old_max_age=1h0m0s max_age=0s", "--events-max-size", "0B")
	log := call(t, "events", "tail", "--dir", path+".state/events", "--all", "--follow=false", "--kind", "granted,held")
	if n := strings.Count(log.stdout, "door"); n < 5 {
		t.Errorf("the log has %d grants:\n%s", n, log.stdout)
	}
}
