//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/client"
	"github.com/lockagent/lockagent/internal/faultproxy"
	"github.com/lockagent/lockagent/internal/machinetest"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// The commands in the guide work.
func TestOperatingGuide(t *testing.T) {
	t.Parallel()
	_, err := exec.LookPath("curl")
	machinetest.Needs(t, err)
	bin, work := newBin(t), t.TempDir()
	path := socketPath(t)
	serving(t, path, "--drain-timeout", "1ms")
	claims(t, path, "orders/42")
	here := strings.NewReplacer(
		"/run/lockagent/agent-operator.sock", path+"-operator.sock", "/run/lockagent/agent.sock", path, "/var/lib/lockagent",
		path+".state",
	)
	blocks := regexp.MustCompile("(?s)\\*checked\\*\n```sh\n(.*?)```").FindAllStringSubmatch(guide(t), -1)
	if len(blocks) < 5 {
		t.Fatalf("the guide has %d blocks", len(blocks))
	}
	for _, block := range blocks {
		for line := range strings.Lines(block[1]) {
			cmd := exec.Command("sh", "-c", here.Replace(line))
			cmd.Dir = work
			cmd.Env = append(
				os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "LOCKAGENT_SOCKET="+path, "LOCKAGENT_STATE_DIR="+path+".state",
			)
			out, err := cmd.CombinedOutput()
			if err != nil || len(out) == 0 && strings.HasPrefix(line, "lockagent show") {
				t.Errorf("%s: %v\n%s", line, err, out)
			}
		}
	}
	if left := claimsOf(t, path); strings.Contains(left, "orders/42") {
		t.Errorf("the lock was not broken: %s", left)
	}
}

// claimsOf is what the daemon on a socket holds.
func claimsOf(t *testing.T, path string) string {
	t.Helper()
	return call(t, "ls", "--socket", path).stdout
}

// guide is the pages for those who look after a daemon.
func guide(t *testing.T) string {
	t.Helper()
	var pages strings.Builder
	for _, name := range []string{"operating.md", "incidents.md"} {
		page, err := os.ReadFile("../../docs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		pages.Write(page)
	}
	return pages.String()
}

// guideBlock are the commands of the guide under a mark, with the exit codes that it says.
func guideBlock(t *testing.T, mark string) (lines []string, codes []int) {
	t.Helper()
	block := regexp.MustCompile("(?s)\\*" + mark + "\\*\n```sh\n(.*?)```").FindStringSubmatch(guide(t))
	if block == nil {
		t.Fatalf("the guide has no block with the mark %s", mark)
	}
	for line := range strings.Lines(block[1]) {
		command, comment, _ := strings.Cut(line, "#")
		code := 0
		if _, err := fmt.Sscanf(comment, " exit code %d", &code); err != nil && comment != "" {
			t.Errorf("%q says no exit code", line)
		}
		lines, codes = append(lines, command), append(codes, code)
	}
	return lines, codes
}

// guided is the host on which the commands of the guide run.
type guided struct {
	path    string   // of the socket of the daemon
	metrics string   // where its metrics are, if the commands ask for them
	environ []string // what else the commands find in their environment

	systemctl func(command string) // does what systemd does, if the commands ask for it
}

// run runs the commands of the guide under a mark, beside the daemon.
func (g guided) run(t *testing.T, mark string) {
	t.Helper()
	_, err := exec.LookPath("curl")
	machinetest.Needs(t, err)
	bin := newBin(t)
	here := strings.NewReplacer(
		"/run/lockagent/agent-operator.sock", g.path+"-operator.sock", "http://127.0.0.1:9464/metrics", g.metrics,
	)
	lines, codes := guideBlock(t, mark)
	for i, line := range lines {
		if command, ok := strings.CutPrefix(strings.TrimSpace(line), "systemctl "); ok {
			g.systemctl(command)
			continue
		}
		cmd := exec.CommandContext(t.Context(), "sh", "-c", here.Replace(line))
		cmd.Env = append(
			append(
				os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "LOCKAGENT_SOCKET="+g.path, "LOCKAGENT_STATE_DIR="+g.path+".state",
			),
			g.environ...,
		)
		out, _ := cmd.CombinedOutput() // the exit code says it
		if got := cmd.ProcessState.ExitCode(); got != codes[i] {
			t.Errorf("%s: the exit code is %d, want %d\n%s", line, got, codes[i], out)
		}
	}
}

// What the guide says of a drain: what is held stays held, and all goes on when it is taken back.
func TestGuideDrain(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	serving(t, path, "--drain-timeout", "1ms")
	held, client := claims(t, path, "orders/42")
	guided{path: path}.run(t, "checked while a lock is held")
	if r, err := client.Check(t.Context(), &lockagentv1.CheckRequest{
		Kind: readWrite, Name: "orders/42", Token: held.GetToken(),
	}); err != nil || !r.GetCurrent() {
		t.Errorf("the holder has %v: %v", r, err)
	}
}

// What the guide says of a daemon that is killed: its clients come back to the next one, and keep lock and token.
func TestGuideTheDaemonIsKilled(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	flags := []string{"--lease", "1h", "--drain-timeout", "1ms"} // however slow this machine is
	d := serveProcess(t, path, nil, flags...)
	looks := &testDaemon{Daemon: client.New(path)}
	t.Cleanup(looks.Close)
	holder := lockProcess(t, path, "orders/42", "--", "sh", "-c", "echo it runs >&2; read line; echo $LOCKAGENT_TOKEN")
	holder.stderr.await(t, "the command", says("it runs"))
	before, err := looks.Look.Get(t.Context(), &lockagentv1.GetRequest{Kind: readWrite, Name: "orders/42"})
	if err != nil {
		t.Fatal(err)
	}
	var done []string
	guided{path: path, systemctl: func(command string) {
		switch done = append(done, command); command {
		case "kill --signal=KILL lockagent":
			d.signal(t, syscall.SIGKILL)
			waittest.Receive(t, "the end of the process", d.stderr.ended)
		case "restart lockagent":
			d = serveProcess(t, path, nil, flags...)
		default:
			t.Errorf("systemctl %s: the test cannot do that", command)
		}
	}}.run(t, "checked while a program has orders/42")
	if len(done) != 2 {
		t.Fatalf("systemd was asked for %q", done)
	}
	looks.until(t, "orders/42", func(l *lockagentv1.Lock) bool {
		return l.GetHeld() == 1 && l.GetHolders()[0].GetState() == lockagentv1.State_STATE_HELD
	})
	holder.ended(t, fmt.Sprintln(before.GetLock().GetHolders()[0].GetToken()))
}

// What the guide says of Redis that is gone: holders keep what they have, requests are refused, and all goes on when it
// is back.
func TestGuideRedisIsGone(t *testing.T) {
	t.Parallel()
	redis, path := redistest.Start(t), socketPath(t)
	serving(t, path, "--redis", redis.URL(), "--lease", "1h", "--drain-timeout", "1ms")
	t.Cleanup(redis.Resume) // also if the test gives up: the daemon wants to end
	held, client := claims(t, path, "orders/42")
	redis.Pause()
	guided{path: path, environ: []string{"LOCKAGENT_REDIS=" + redis.URL()}}.run(t, "checked while Redis is away")
	if left := claimsOf(t, path); !strings.Contains(left, "orders/42") {
		t.Errorf("the holder has lost its lock: %s", left)
	}
	redis.Resume()
	waittest.Until(t, "a lock is granted again", func() bool {
		return apart(t, "lock", "--socket", path, "-n", "orders/43", "true").code == cli.ExitOK
	})
	if r, err := client.Check(t.Context(), &lockagentv1.CheckRequest{
		Kind: readWrite, Name: "orders/42", Token: held.GetToken(),
	}); err != nil || !r.GetCurrent() {
		t.Errorf("the holder has %v: %v", r, err)
	}
}

// What the guide says of NATS that is gone: locks go on, and the hub has every event once when it is back.
func TestGuideNATSIsGone(t *testing.T) {
	t.Parallel()
	hub, path := natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"}), socketPath(t)
	way := faultproxy.Start(t, strings.TrimPrefix(hub.URL(), "nats://"))
	url := "nats://" + way.Addr()
	d := serving(t, path, "--nats", url, "--metrics", "127.0.0.1:0", "--drain-timeout", "1ms")
	metrics := metricsOf(t, d)
	shows := func(line string) func() bool {
		return func() bool { return strings.Contains(scrape(t, metrics), "\n"+line+"\n") }
	}
	held := func(lock string) int {
		return strings.Count(call(t, "events", "history", lock, "--nats", hub.URL()).stdout, "released")
	}
	apart(t, "lock", "--socket", path, "-n", "orders/42", "true").expect(t, cli.ExitOK, nil, nil)
	waittest.Until(t, "the hub has the events", func() bool { return held("orders/42") == 1 })
	way.Refuse(true)
	way.Cut()
	// There is something to forward.
	apart(t, "lock", "--socket", path, "-n", "orders/42", "true").expect(t, cli.ExitOK, nil, nil)
	waittest.Until(t, "the forwarder notices", shows("lockagent_forward_stalled 1.0"))
	guided{path: path, metrics: metrics, environ: []string{"LOCKAGENT_NATS=" + url}}.run(t, "checked while NATS is away")
	if n := held("orders/43"); n != 0 {
		t.Errorf("the hub is away, and has %d holds", n)
	}
	way.Refuse(false)
	waittest.Until(t, "the hub has all events", func() bool { return held("orders/43") == 1 })
	waittest.Until(t, "the forwarder goes on", shows("lockagent_forward_stalled 0.0"))
	if n := held("orders/42"); n != 2 {
		t.Errorf("the hub has %d holds, want 2", n)
	}
	d.interrupt(t).expect(t, cli.ExitOK, nil, nil)
}

// What the guide says of a full disk: what is held stays held, requests are refused, and the daemon finds out when
// there is room.
func TestGuideTheDiskIsFull(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	if err := os.Mkdir(path+".state", 0o700); err != nil {
		t.Fatal(err)
	}
	d := serveOnSmallDisk(t, path)
	held, client := claims(t, path, "orders/42")
	disk := fmt.Sprintf("/proc/%d/root%s.state/", d.Process.Pid, path) // as the daemon sees it
	ballast, err := os.Create(disk + "ballast")
	if err != nil {
		t.Fatal(err)
	}
	for block := make([]byte, 4096); err == nil; {
		_, err = ballast.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	_ = ballast.Close()
	try := func() int { return call(t, "acquire", "--socket", path, "-n", "--lease", "1ms", "orders/43").code }
	waittest.Until(t, "the journal has no room left", func() bool { // until then it has that of its last page
		return try() == cli.ExitUnavailable
	})
	guided{path: path}.run(t, "checked on a full disk")
	if r, err := client.Check(t.Context(), &lockagentv1.CheckRequest{
		Kind: readWrite, Name: "orders/42", Token: held.GetToken(),
	}); err != nil || !r.GetCurrent() {
		t.Errorf("the holder has %v: %v", r, err)
	}
	if err := os.Remove(disk + "ballast"); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "a lock is granted again", func() bool {
		return try() == cli.ExitOK
	})
}

// serveOnSmallDisk starts a daemon whose state directory is a disk of its own, in a mount namespace of its own. So
// nothing is left behind.
func serveOnSmallDisk(t *testing.T, path string) *process {
	t.Helper()
	own := &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	try := exec.Command("true")
	try.SysProcAttr = own
	if err := try.Run(); errors.Is(err, syscall.EPERM) {
		machinetest.Needs(t, fmt.Errorf("the right to mount: %w", err))
	}
	cmd := exec.Command(
		"sh", "-c",
		`mount -t tmpfs -o size=64m,mode=700 tmpfs "$1" && `+
			`exec "$2" serve --socket "$3" --state-dir "$1" --drain-timeout 1ms`,
		"sh", path+".state", program(t), path,
	)
	cmd.SysProcAttr = own
	d := launch(t, cmd)
	d.stderr.await(t, "that it is ready", says("Ready: "))
	return d
}
