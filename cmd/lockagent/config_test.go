package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/internal/config"
)

// settings writes a configuration file, and has the environment name it.
func settings(t *testing.T, text string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "lockagent.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("LOCKAGENT_CONFIG", file)
	return file
}

// settingView is the JSON of a setting.
type settingView struct {
	Key, Value string
	From       config.OriginKind
	At         string
	Live       bool
}

func TestConfigShow(t *testing.T) {
	file := settings(t, "host: web-1\nredis:\n  password_file: /p\nrules:\n- {match: '**', allow: [look]}\n")
	t.Setenv("LOCKAGENT_REDIS", "redis://joe:hunter2@a")
	r := call(t, "config", "show", "--lease", "10s")
	r.expect(t, cli.ExitOK, []string{
		"host\tweb-1\t" + file + ":1\n",
		"redis.url\tredis://joe:xxxxx@a\t$LOCKAGENT_REDIS\n",
		"redis.password_file\t/p\t" + file + ":3\n",
		"lease.duration\t10s\t--lease\n",
		"lease.margin\t0s\tdefault\n",
		"rules.1\t{match: \"**\", allow: [look]}\t" + file + ":5\n",
		"socket.group\t\tdefault\n",
	}, nil)
	if strings.Contains(r.stdout, "hunter2") || strings.Contains(r.stdout, "SETTING") {
		t.Errorf("it says %s", r.stdout)
	}
	if n := strings.Count(r.stdout, "\n"); n != len(config.All()) {
		t.Errorf("it has %d lines, and there are %d settings", n, len(config.All()))
	}

	r = call(t, "config", "show", "--format", "table")
	r.expect(t, cli.ExitOK, []string{"SETTING  ", "  FROM\n", "socket.group  ", "  -  "}, nil)

	r = call(t, "config", "show", "--format", "json", "--log-level=debug")
	var all struct {
		Version  int
		Settings []settingView
	}
	if err := json.Unmarshal([]byte(r.stdout), &all); err != nil || all.Version != 1 ||
		len(all.Settings) != len(config.All()) {
		t.Fatalf("%v: %s", err, r.stdout)
	}
	want := map[string]settingView{
		"host":         {"host", "web-1", config.FromFile, file + ":1", false},
		"lease.margin": {"lease.margin", "0s", config.FromDefault, "", false},
		"log.level":    {"log.level", "debug", config.FromFlag, "--log-level", true},
		"redis.url":    {"redis.url", "redis://joe:xxxxx@a", config.FromVariable, "$LOCKAGENT_REDIS", false},
	}
	for _, v := range all.Settings {
		if w, ok := want[v.Key]; ok && v != w {
			t.Errorf("%s is %+v, want %+v", v.Key, v, w)
		}
		delete(want, v.Key)
	}
	if len(want) > 0 {
		t.Errorf("missing are %v", want)
	}

	call(t, "config", "show", "--format", "jsonl").expect(
		t, cli.ExitOK, []string{`{"key":"host","value":"web-1","from":"file","at":"` + file + `:1","live":false}` + "\n"},
		nil,
	)
}

func TestConfigShowOfNothing(t *testing.T) {
	settings(t, "")
	call(t, "config", "show").expect(t, cli.ExitOK, []string{"redis.url\t\tdefault\n", "rules\t\tdefault\n"}, nil)
}

func TestConfigValidate(t *testing.T) {
	file := settings(t, "host: web-1\n")
	t.Setenv("LOCKAGENT_FROBNICATE", "1")
	call(t, "config", "validate").expect(
		t, cli.ExitOK, []string{file + " is valid\n"}, []string{"these variables: $LOCKAGENT_FROBNICATE\n"},
	)
	t.Setenv("LOCKAGENT_CONFIG", "")
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	if _, err := os.Stat("/etc/lockagent/config.yaml"); err != nil {
		call(t, "config", "validate").expect(
			t, cli.ExitOK, []string{"there is no configuration file; flags and environment are valid\n"}, nil,
		)
	}
	file = settings(t, "redsi:\n  url: redis://a\nlease: {duration: 5}\n")
	const help = "\nTry: lockagent config default    (prints a file that is valid, and says what each setting means)\n"
	for _, verb := range []string{"validate", "show"} {
		r := call(t, "config", verb, "--log-level", "loud")
		r.expect(t, cli.ExitConfig, nil, []string{
			"lockagent: 3 problems with the settings:\n  --log-level wants ",
			file + ":1: redsi is no setting; did you mean redis?\n", file + ":3: lease.duration wants", help,
		})
		if r.stdout != "" {
			t.Errorf("stdout says %q", r.stdout)
		}
	}
	settings(t, "rules: [{match: a, allow: [look], users: [rooot, root]}]\n") // which serve and reload say as well
	call(t, "config", "validate").expect(t, cli.ExitConfig, nil, []string{
		`:1: rules.1 names the user "rooot", which this host does not have; did you mean root?`, help,
	})
	settings(t, "redsi: {}")
	call(t, "config", "validate").expect(t, cli.ExitConfig, nil, []string{
		":1: redsi is no setting; did you mean redis?\n", help,
	})
	call(t, "config", "validate", "--config", "/no/such/file").expect(t, cli.ExitConfig, nil, []string{
		"lockagent: /no/such/file: there is no such file", help,
	})
}

func TestConfigDefaultIsValid(t *testing.T) {
	r := call(t, "config", "default")
	r.expect(t, cli.ExitOK, []string{"\nredis:\n", "# The Unix socket on which clients connect."}, nil)
	settings(t, r.stdout)
	call(t, "config", "validate").expect(t, cli.ExitOK, nil, nil)
}

func TestConfigSchema(t *testing.T) {
	r := call(t, "config", "schema")
	var schema map[string]any
	if err := json.Unmarshal([]byte(r.stdout), &schema); err != nil || r.code != cli.ExitOK {
		t.Fatalf("%v: %+v", err, r)
	}
	if schema["$schema"] != "https://json-schema.org/draft/2020-12/schema" {
		t.Errorf("the schema is of %v", schema["$schema"])
	}
}
