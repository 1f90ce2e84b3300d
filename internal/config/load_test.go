package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/lockagent/lockagent/internal/daemon/access"
)

func TestPrecedence(t *testing.T) {
	h := newHost(t)
	h.expect(h.load(), "lease.duration", "30s", "default")
	h.write("log: {level: warn}\nlease:\n  duration: 20s\n")
	h.expect(h.load(), "lease.duration", "20s", "FILE:3")
	h.Environ = append(h.Environ, "LOCKAGENT_LEASE=15s", "LOCKAGENT_HOST=")
	h.expect(h.load(), "lease.duration", "15s", "$LOCKAGENT_LEASE")
	h.Flags["lease"] = "10s"
	c := h.load()
	h.expect(c, "lease.duration", "10s", "--lease")
	h.expect(c, "log.level", "warn", "FILE:1")
	h.expect(c, "host", "web-1", "default") // a variable that is set to nothing is not set
	if c.Settings.Lease.Duration != 10*time.Second || c.Settings.Log.Level != "warn" || c.File != h.file {
		t.Errorf("the settings are %+v of %s", c.Settings, c.File)
	}
}

func TestTheFile(t *testing.T) {
	h := newHost(t)
	h.write("host: by-home")
	other := filepath.Join(t.TempDir(), "other.yaml")
	if err := os.WriteFile(other, []byte("host: by-name"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.expect(h.load(), "host", "by-home", "FILE:1")
	h.Environ = append(h.Environ, "LOCKAGENT_CONFIG="+other)
	h.expect(h.load(), "host", "by-name", other+":1")
	h.Flags["config"], h.Dir = "lockagent/config.yaml", filepath.Dir(filepath.Dir(h.file)) // a relative one
	h.expect(h.load(), "host", "by-home", "FILE:1")
	h.Flags["config"] = "/no/such/file"
	if got, want := h.problems(), []string{
		"/no/such/file: there is no such file; lockagent config default prints one",
	}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	h.Flags["config"] = t.TempDir()
	if got := h.problems(); len(got) != 1 || !strings.HasSuffix(got[0], "cannot be read: is a directory") {
		t.Errorf("got %q", got)
	}
	h.Flags["config"] = "/dev/zero"
	if got := h.problems(); len(got) != 1 || !strings.HasSuffix(got[0], "cannot be read: it has more than 1MiB") {
		t.Errorf("got %q", got)
	}
}

func TestWithoutXDGTheFileIsInTheHomeDirectory(t *testing.T) {
	h := newHost(t)
	home := t.TempDir()
	h.file = filepath.Join(home, ".config", "lockagent", "config.yaml")
	h.Environ = []string{"HOME=" + home}
	h.write("host: at-home")
	h.expect(h.load(), "host", "at-home", "FILE:1")
}

func TestHostDefaults(t *testing.T) {
	for _, test := range []struct {
		uid                     int
		environ                 string
		state, socket, operator string
	}{
		{
			0, "HOME=/root XDG_RUNTIME_DIR=/run/user/0", "/var/lib/lockagent", "/run/lockagent/agent.sock",
			"/run/lockagent/agent-operator.sock",
		},
		{7, "", "/var/lib/lockagent", "/var/lib/lockagent/agent.sock", "/var/lib/lockagent/agent-operator.sock"},
		{
			7, "HOME=/h", "/h/.local/state/lockagent", "/h/.local/state/lockagent/agent.sock",
			"/h/.local/state/lockagent/agent-operator.sock",
		},
		{
			7, "HOME=/h XDG_STATE_HOME=/s XDG_RUNTIME_DIR=/r", "/s/lockagent", "/r/lockagent/agent.sock",
			"/r/lockagent/agent-operator.sock",
		},
		{7, "STATE_DIRECTORY=/s1:/s2 RUNTIME_DIRECTORY=/r1:/r2", "/s1", "/r1/agent.sock", "/r1/agent-operator.sock"},
		{7, "HOME=/h LOCKAGENT_SOCKET=x/y", "/h/.local/state/lockagent", "/here/x/y", "/here/x/y-operator.sock"},
	} {
		h := newHost(t)
		h.UID, h.Environ = test.uid, strings.Fields(test.environ)
		s := h.load().Settings
		if got := []string{
			s.StateDir, s.Socket.Path, s.Operator.Socket,
		}; !slices.Equal(got, []string{test.state, test.socket, test.operator}) {
			t.Errorf("user %d with %s has %q", test.uid, test.environ, got)
		}
	}
	for name, want := range map[string]string{
		"web-1.example": "web-1", "": "", "büro": "bro", "a b": "ab", strings.Repeat("x", 63): strings.Repeat("x", 27),
	} {
		if got := label(name); got != want {
			t.Errorf("the label of %q is %q, want %q", name, got, want)
		}
	}
}

func TestPathsHaveVariables(t *testing.T) {
	h := newHost(t)
	h.Environ = append(
		h.Environ, "CREDENTIALS_DIRECTORY=/run/credentials", "LOCKAGENT_REDIS=redis://a",
		"LOCKAGENT_REDIS_PASSWORD_FILE=${CREDENTIALS_DIRECTORY}/b",
	)
	h.write("redis: {sentinel_password_file: '${CREDENTIALS_DIRECTORY}/s'}\nstate_dir: ${NOTHING}/s")
	if got, want := h.problems(), []string{
		"FILE:2: state_dir has ${NOTHING}, and there is no such variable in the environment",
	}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	h.write("state_dir: ${STATE_DIRECTORY}")
	if got, want := h.problems(), []string{
		"FILE:1: state_dir has ${STATE_DIRECTORY}, and there is no such variable in the environment; systemd sets it for a " +
			"service, and you can set it to try the file",
	}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	h.write("redis: {sentinel_password_file: '${CREDENTIALS_DIRECTORY}/s'}")
	c := h.load()
	if s := c.Settings.Redis; s.PasswordFile != "/run/credentials/b" || s.SentinelPasswordFile != "/run/credentials/s" {
		t.Errorf("got %+v", s)
	}
}

func TestRulesOfTheFile(t *testing.T) {
	h := newHost(t)
	h.write(`rules:
- {match: "deploy/*", allow: [acquire, look], users: [ann, 1002], groups: ["deploy"]}
- match: "**"
  allow: []
`)
	c := h.load()
	r := c.Settings.Rules
	if len(r) != 2 || !r[0].Match.Match("deploy/x") || r[0].Match.Match("deploy/x/y") ||
		r[0].Allow != access.Acquire|access.Look ||
		!slices.Equal(r[0].Users, []string{"ann", "1002"}) || !slices.Equal(r[0].Groups, []string{"deploy"}) ||
		!r[1].Match.Match("x/y") || r[1].Allow != 0 || r[1].Users != nil {
		t.Errorf("got %+v", r)
	}
	h.expect(c, "rules.1", `{match: "deploy/*", allow: [acquire, look], users: [ann, 1002], groups: [deploy]}`, "FILE:2")
	h.expect(c, "rules.2", `{match: "**", allow: []}`, "FILE:3")
}

func TestFlags(t *testing.T) {
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	flags.String("format", "text", "another flag")
	AddFlags(flags)
	if err := flags.Parse(
		strings.Fields("--lease 7 --format json --web-allow-break --redis=redis://a --config c.yaml"),
	); err != nil {
		t.Fatal(err)
	}
	given := Given(flags)
	want := map[string]string{"lease": "7", "web-allow-break": "true", "redis": "redis://a", "config": "c.yaml"}
	if len(given) != len(want) {
		t.Errorf("given are %v, want %v", given, want)
	}
	for name, value := range want {
		if given[name] != value {
			t.Errorf("--%s is %q, want %q", name, given[name], value)
		}
	}
	for _, s := range All() {
		f := flags.Lookup(s.Flag)
		switch {
		case s.Flag == "":
		case f == nil:
			t.Errorf("%s has no flag", s.Key)
		case !strings.Contains(f.Usage, "$"+s.Variable()):
			t.Errorf("the usage of --%s does not name its variable: %s", s.Flag, f.Usage)
		}
	}
}

// What a test or a reader sets in the environment of a host is meant for other verbs, too.
func TestVariablesOfOthers(t *testing.T) {
	h := newHost(t)
	h.Environ = append(h.Environ,
		"LOCKAGENT_NATS_STREAM=OTHER", "LOCKAGENT_LOCK=a", "LOCKAGENT_TOKEN=7", "LOCKAGENT_CLAIM=a.b",
		"LOCKAGENT_HUB=nats://a", "LOCKAGENT_HELD=x",
		"LOCKAGENT_TEST_MAIN=1", "LOCKAGENT_HUB_CREDS=/x", "LOCKAGENT_PORT=tcp://10.0.0.1:1", "PATH=/bin", "NOVALUE")
	c := h.load()
	h.expect(c, "nats.stream", "OTHER", "$LOCKAGENT_NATS_STREAM")
	if len(c.UnknownVariables) > 0 {
		t.Errorf("%v mean nothing, as it says", c.UnknownVariables)
	}
}

// A variable that looks like a setting must not be passed over: without $LOCKAGENT_REDIS the locks are in memory.
// Others may belong to other programs.
func TestVariablesThatAreNoSettings(t *testing.T) {
	for name, want := range map[string]string{
		"LOCKAGENT_REDIS_URL":    "$LOCKAGENT_REDIS_URL is no setting; did you mean $LOCKAGENT_REDIS?",
		"LOCKAGENT_RULES":        "$LOCKAGENT_RULES is no setting; rules is a setting of the file only",
		"LOCKAGENT_STATE_DIRS":   "$LOCKAGENT_STATE_DIRS is no setting; did you mean $LOCKAGENT_STATE_DIR?",
		"LOCKAGENT_SERVICE_HOST": "", // of a service in Kubernetes
	} {
		h := newHost(t)
		h.Environ = append(h.Environ, name+"=10.0.0.1")
		c, err := Load(h.Inputs)
		switch {
		case want != "" && (err == nil || err.Error() != want):
			t.Errorf("%s: %v, want %q", name, err, want)
		case want == "" && (err != nil || len(c.UnknownVariables) != 1 || c.UnknownVariables[0] != name):
			t.Errorf("%s: %v, and unknown are %v", name, err, c.UnknownVariables)
		}
	}
}
