package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/eventscmd"
	"github.com/lockagent/lockagent/events/fold"
)

// What runs under lockagent lock is in the event log with its program, pid, user, host and command. Every verb that
// reads the log tells it, and --no-command leaves the arguments out.
func TestTheLogTellsWho(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	d := serving(t, path)
	pids := make(map[string]int)
	for _, args := range [][]string{
		{"open", "--", "sh", "-c", "exit 0 # PASSWORD"},
		{"--no-command", "closed", "--", "sh", "-c", "exit 0 # PASSWORD"},
	} {
		cmd := exec.Command(program(t), append([]string{"lock", "--socket", path}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		pids[args[len(args)-5]] = cmd.Process.Pid
	}
	d.interrupt(t).expect(t, cli.ExitOK, nil, nil)

	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(path+".state", "events")
	whole := call(t, "events", "tail", "--all", "--follow=false", "--dir", log, "--format", "jsonl").stdout
	for name, command := range map[string]string{"open": "sh -c exit 0 # PASSWORD", "closed": ""} {
		var view eventscmd.HistoryView
		r := call(t, "events", "history", name, "--dir", log, "--format", "json")
		if err := json.Unmarshal([]byte(r.stdout), &view); err != nil || len(view.Holds) != 1 {
			t.Fatalf("%v: %+v", err, r)
		}
		want := fold.Process{Host: host, Program: "sh", PID: pids[name], User: me.Username, Command: command}
		if got := fold.Process(view.Holds[0].Who.Process()); got != want {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
		text := view.Holds[0].Who.String()
		for _, args := range [][]string{
			{"history", name},
			{"state", name, "--at", "-0s"},
			{"tail", "--lock", name, "--all", "--follow=false"},
		} {
			r := call(t, append([]string{"events", args[0], "--dir", log}, args[1:]...)...)
			r.expect(t, cli.ExitOK, []string{text}, nil)
			if says := strings.Contains(r.stdout, "PASSWORD"); says != (command != "" && args[0] != "history") {
				t.Errorf("%v tells the command: %v\n%s", args, says, r.stdout)
			}
		}

		// If a second agent says the same of itself, both had the lock at one time.
		twice := whole + strings.ReplaceAll(whole, string(view.Holds[0].Agent), "another")
		told := callWith(t, twice, "events", "audit", "--lock", name, "--file", "-")
		told.expect(t, cli.ExitViolated, []string{"first:  " + text + ", token ", "second: " + text + ", token "}, nil)
		if strings.Contains(told.stdout+told.stderr, "PASSWORD") {
			t.Errorf("audit tells the command:\n%s", told.stdout)
		}
	}
}
