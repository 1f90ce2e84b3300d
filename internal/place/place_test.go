package place

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// user is a user with an environment.
func user(uid int, environ string) User {
	env := make(map[string]string)
	for item := range strings.FieldsSeq(environ) {
		name, value, _ := strings.Cut(item, "=")
		env[name] = value
	}
	return User{uid, func(name string) string { return env[name] }}
}

func TestPlaces(t *testing.T) {
	for _, test := range []struct {
		uid           int
		environ       string
		state, socket string
		client        string // where a client looks first
	}{
		{
			0, "HOME=/root XDG_RUNTIME_DIR=/run/user/0 XDG_STATE_HOME=/s", "/var/lib/lockagent", "/run/lockagent/agent.sock",
			"/run/lockagent/agent.sock",
		},
		{7, "", "/var/lib/lockagent", "/var/lib/lockagent/agent.sock", "/var/lib/lockagent/agent.sock"},
		{
			7, "HOME=/h", "/h/.local/state/lockagent", "/h/.local/state/lockagent/agent.sock",
			"/h/.local/state/lockagent/agent.sock",
		},
		{7, "HOME=/h XDG_STATE_HOME=/s", "/s/lockagent", "/s/lockagent/agent.sock", "/s/lockagent/agent.sock"},
		{7, "HOME=/h XDG_RUNTIME_DIR=/r", "/h/.local/state/lockagent", "/r/lockagent/agent.sock", "/r/lockagent/agent.sock"},
		{
			7, "HOME=/h STATE_DIRECTORY=/s1:/s2 RUNTIME_DIRECTORY=/r1:/r2", "/s1", "/r1/agent.sock",
			"/h/.local/state/lockagent/agent.sock",
		},
	} {
		u := user(test.uid, test.environ)
		if state := u.StateDir(); state != test.state {
			t.Errorf("user %d with %s keeps its state in %s", test.uid, test.environ, state)
		}
		if socket := u.Socket(u.StateDir()); socket != test.socket {
			t.Errorf("user %d with %s listens on %s", test.uid, test.environ, socket)
		}
		if client := u.Find(); !exists(System) && client != test.client {
			t.Errorf("user %d with %s looks for %s", test.uid, test.environ, client)
		}
	}
}

func TestAClientFindsWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	own := filepath.Join(dir, "lockagent", "agent.sock")
	if err := os.MkdirAll(filepath.Dir(own), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(own, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	u := user(7, "XDG_RUNTIME_DIR="+dir)
	if found := u.Find(); found != own {
		t.Errorf("it finds %s", found)
	}
}
