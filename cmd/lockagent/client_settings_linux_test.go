package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent/internal/machinetest"
)

// clientLines have a line of a shell for each verb that asks the daemon, and for what else does. Each of them succeeds
// beside a daemon.
var clientLines = []struct{ verb, line string }{
	{"lock", `lockagent lock a true`},
	{"check", `lockagent lock a sh -c 'unset LOCKAGENT_SOCKET; lockagent check a $LOCKAGENT_TOKEN'`},
	{"acquire", `claim=$(lockagent acquire --ttl 1h a)`},
	{"renew", `lockagent renew --ttl 1h $claim`},
	{"attach", `lockagent attach $claim true`},
	{"release", `lockagent release $(lockagent acquire --ttl 1h a)`},
	{"slots", `lockagent slots builds 2`},
	{"ls", `lockagent acquire --ttl 1h a && lockagent ls | grep a`},
	{"show", `lockagent show a`},
	{"top", `lockagent top | grep a`},
	{"watch", `lockagent watch | grep -m 1 a`},
	{"events audit", `lockagent events audit 2>&1 | grep 'has no event log'`},
	{"events history", `lockagent events history a 2>&1 | grep 'has no event log'`},
	{"events holders", `lockagent events holders 2>&1 | grep 'has no event log'`},
	{"events state", `lockagent events state a --at 1m 2>&1 | grep 'has no event log'`},
	{"events tail", `lockagent events tail 2>&1 | grep 'has no event log'`},
	{"events top", `lockagent events top 2>&1 | grep 'has no event log'`},
	// A completion gives up after a moment, which may be too soon on a busy machine.
	{"", `seq 20 | while read -r _; do lockagent __complete show '' | grep '^a$' && break; done | grep '^a$'`},
	{"", `found=$(lockagent doctor) && echo "$found" | grep 'it can grant locks'`},
	{"break", `lockagent break --yes a`},
	{"drain", `lockagent drain --timeout 1m && lockagent drain --undo`},
}

// Whoever asks the daemon finds it, whatever the settings of the daemon are. They may be for the daemon's user alone,
// or for its environment, or an edit that is not finished.
func TestClientsReadNoSettings(t *testing.T) {
	t.Parallel()
	var clients, readers, covered []string
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		switch name := strings.TrimPrefix(cmd.CommandPath(), "lockagent "); {
		case cmd.Flags().Lookup("config") != nil:
			readers = append(readers, name)
		case cmd.Flags().Lookup("socket") != nil:
			clients = append(clients, name)
		}
		for _, c := range cmd.Commands() {
			walk(c)
		}
	}
	walk(newRoot())
	var script strings.Builder
	for _, c := range clientLines {
		if c.verb != "" {
			covered = append(covered, c.verb)
		}
		script.WriteString(
			"try='" + strings.ReplaceAll(c.line, "'", `'\''`) +
				`'; eval "$try" >out 2>errs || { echo "exit code $?: $try"; cat errs; }` + "\n",
		)
	}
	slices.Sort(clients)
	slices.Sort(covered)
	if !slices.Equal(clients, covered) {
		t.Errorf("the clients are %v, and there are lines for %v", clients, covered)
	}
	slices.Sort(readers)
	if want := []string{"config show", "config validate", "doctor", "serve"}; !slices.Equal(readers, want) {
		t.Errorf("the verbs that read the settings are %v, not %v", readers, want)
	}

	file := func(text string) string {
		name := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	documented := ""
	for _, b := range blocksOf(t, "../../docs/configuration.md") {
		if b.language == "yaml" && strings.Contains(b.text, "${CREDENTIALS_DIRECTORY}") {
			documented = b.text
		}
	}
	if documented == "" {
		t.Fatal("the document has no example with credentials")
	}
	for name, environ := range map[string][]string{
		"none":             nil,
		"the example":      {"LOCKAGENT_CONFIG=" + file(documented)},
		"a typo":           {"LOCKAGENT_CONFIG=" + file("lease: {duratoin: 5s}")},
		"unreadable":       {"LOCKAGENT_CONFIG=" + t.TempDir()},
		"missing":          {"LOCKAGENT_CONFIG=/no/such/file"},
		"a stray variable": {"LOCKAGENT_LEASES=5s", "LOCKAGENT_LEASE=5", "LOCKAGENT_REDIS=nonsense"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := runDaemon(t)
			const place = `mount -t tmpfs lockagent /run && mkdir /run/lockagent && ` +
				`ln -s "$1" /run/lockagent/agent.sock || exit 99` + "\n"
			cmd := ownMounts(exec.CommandContext(t.Context(), "sh", "-c", place+script.String(), "sh", d.Path))
			cmd.Dir = t.TempDir()
			cmd.Env = append(
				append(os.Environ(), "PATH="+newBin(t)+":"+os.Getenv("PATH"), "HOME="+cmd.Dir, "SHELL=/bin/sh"), environ...,
			)
			out, err := cmd.CombinedOutput()
			if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() == 99 {
				machinetest.Needs(t, err)
			}
			if err != nil || len(out) > 0 {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
