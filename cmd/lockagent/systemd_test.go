//go:build linux

package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/servecmd"
	"github.com/lockagent/lockagent/internal/config"
	"github.com/lockagent/lockagent/internal/machinetest"
	"github.com/lockagent/lockagent/internal/place"
)

const packagingDir = "../../packaging"

// unit is what a unit of systemd says: the values of each option, in their order.
func unit(t *testing.T, name string) map[string][]string {
	t.Helper()
	f, err := os.Open(filepath.Join(packagingDir, "systemd", name))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	options := make(map[string][]string)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), "="); ok && !strings.HasPrefix(name, "#") {
			options[name] = append(options[name], value)
		}
	}
	return options
}

// What the units say to the daemon is something that it knows, and the places are those where clients look.
func TestUnitsFitTheDaemon(t *testing.T) {
	service, sock := unit(t, "lockagent.service"), unit(t, "lockagent.socket")
	is := func(what string, got []string, want string) {
		t.Helper()
		if !slices.Equal(got, []string{want}) {
			t.Errorf("%s is %q, want %q", what, got, want)
		}
	}
	is("ListenStream", sock["ListenStream"], place.System)
	is("FileDescriptorName", sock["FileDescriptorName"], servecmd.SocketName)
	is("RuntimeDirectory", service["RuntimeDirectory"], filepath.Base(filepath.Dir(place.System)))
	is(
		"StateDirectory", service["StateDirectory"],
		filepath.Base(place.User{Getenv: func(string) string { return "" }}.StateDir()),
	)
	is("Type", service["Type"], "notify")
	is("StartLimitIntervalSec", service["StartLimitIntervalSec"], "0")

	args := strings.Fields(strings.TrimPrefix(service["ExecStart"][0], "/usr/bin/lockagent "))
	cmd, rest, err := newRoot().Find(args)
	if err == nil {
		err = cmd.ParseFlags(rest)
	}
	if err != nil || cmd.Name() != "serve" {
		t.Errorf("ExecStart has %q: %v", args, err)
	}
	var environ []string
	for _, value := range service["Environment"] {
		environ = append(environ, strings.Fields(value)...)
	}
	in := config.Inputs{
		Flags: config.Given(cmd.Flags()), UID: 999, Dir: "/", Hostname: "web-1",
		Environ: append(environ, "STATE_DIRECTORY=/var/lib/lockagent", "RUNTIME_DIRECTORY=/run/lockagent"),
	}
	in.Flags["config"] = filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(in.Flags["config"], nil, 0o600); err != nil {
		t.Fatal(err)
	}
	settings, err := config.Load(in)
	if err != nil {
		t.Fatal(err)
	}
	s := settings.Settings
	if s.Socket.Path != place.System || s.StateDir != "/var/lib/lockagent" ||
		s.Operator.Socket != "/run/lockagent/agent-operator.sock" {
		t.Errorf("the daemon has %s, %s and %s", s.Socket.Path, s.Operator.Socket, s.StateDir)
	}
	known := make(map[string]bool)
	for _, s := range config.All() {
		known[s.Variable()] = true
	}
	for _, item := range environ {
		if name, _, _ := strings.Cut(item, "="); strings.HasPrefix(name, "LOCKAGENT_") && !known[name] {
			t.Errorf("the daemon knows no %s", name)
		}
	}
	if stop := service["TimeoutStopSec"][0]; stop != "60s" ||
		s.Drain.Timeout.Seconds()+servecmd.PublishTime.Seconds() >= 60 {
		t.Errorf("systemd waits %s for a drain of %v", stop, s.Drain.Timeout)
	}
	for option, want := range map[string]string{"LimitCORE": "0", "OOMScoreAdjust": "-500", "MemoryMax": "50%"} {
		if got := service[option]; len(got) != 1 || got[0] != want {
			t.Errorf("%s is %q, want %s", option, got, want)
		}
	}
	if dog := service["WatchdogSec"][0]; dog != "20s" || s.Lease.Duration.Seconds()*0.9 <= 20 {
		t.Errorf("the watchdog waits for %s, and a lease is %v", dog, s.Lease.Duration)
	}
}

// systemd takes the units.
func TestUnitsAreValid(t *testing.T) {
	t.Parallel()
	analyze, err := exec.LookPath("systemd-analyze")
	machinetest.Needs(t, err)
	dir := t.TempDir()
	for _, name := range []string{"lockagent.service", "lockagent.socket"} {
		text, err := os.ReadFile(filepath.Join(packagingDir, "systemd", name))
		if err != nil {
			t.Fatal(err)
		}
		here := strings.ReplaceAll(string(text), "/usr/bin/lockagent", program(t)) // which has to be there
		if err := os.WriteFile(filepath.Join(dir, name), []byte(here), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	command := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(analyze, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	if out := command(
		"verify", "--man=no", "./lockagent.service", "./lockagent.socket",
	); strings.Contains(out, "lockagent.") {
		t.Errorf("systemd says: %s", out)
	}
	command("security", "--offline=yes", "--no-pager", "--threshold=20", "./lockagent.service") // its scale goes to 100
}

// The user and the directory of the package are those of the units.
func TestUserAndDirectory(t *testing.T) {
	sysusers, err := exec.LookPath("systemd-sysusers")
	machinetest.Needs(t, err)
	tmpfiles, err := exec.LookPath("systemd-tmpfiles")
	machinetest.Needs(t, err)
	machinetest.NeedsRoot(t) // who makes users
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	packaged := func(name string) string {
		path, err := filepath.Abs(filepath.Join(packagingDir, name, "lockagent.conf"))
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, cmd := range []*exec.Cmd{
		exec.Command(sysusers, "--root="+root, packaged("sysusers.d")),
		exec.Command(tmpfiles, "--create", "--root="+root, packaged("tmpfiles.d")),
	} {
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
		}
	}
	users, err := os.ReadFile(filepath.Join(root, "etc/passwd"))
	if err != nil ||
		!regexp.MustCompile(`(?m)^lockagent:x:\d+:\d+:lockagent daemon:/var/lib/lockagent:.*nologin$`).Match(users) {
		t.Errorf("the users are %q, %v", users, err)
	}
	if info, err := os.Stat(filepath.Join(root, filepath.Dir(place.System))); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the directory of the sockets: %v, %v", info, err)
	}
	service := unit(t, "lockagent.service")
	if service["User"][0] != "lockagent" || service["Group"][0] != "lockagent" {
		t.Errorf("the daemon runs as %s, %s", service["User"], service["Group"])
	}
}
