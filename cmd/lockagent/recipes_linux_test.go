package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/internal/config"
)

// said is what each recipe writes, in this order.
var said = map[string][]string{
	"Run a job on one host at a time":               {"backup --all under jobs/backup"},
	"Run a job once in a period":                    {"report under jobs/report"},
	"Wait, but not for ever":                        {"deploy under deploy", "deployed"},
	"Let a script run once at a time":               {"nobody else runs this: now, under scripts/once with 1"},
	"Readers beside each other, and a writer alone": {"read under cache", "write under cache"},
	"Share a lock with a program in Go or Java":     {"build under invoices"},
	"At most three at a time":                       {"build under builds"},
	"In the order of arrival":                       {"print under printer"},
	"Several locks at once":                         {"transfer under accounts/4"},
	"Several steps of a script under one lock":      {"read under", "write under"},
	"A lock that goes from one program to the next": {"write under orders/42"},
	"Keep out a holder that was too slow":           {"done"},
	"Run something when the lock is lost":           {"another host leads now"},
	"See who has a lock, and who waits":             {"stuck/1", "stuck/1: process ", "held"},
	"Break a lock whose holder hangs":               {"it is free"},
}

// Each recipe is a script that works.
func TestRecipes(t *testing.T) {
	t.Parallel()
	d, bin, work := runDaemon(t), newBin(t), t.TempDir()
	for _, name := range []string{"backup", "deploy", "read", "write", "build", "print", "transfer", "report"} {
		writeScript(t, filepath.Join(work, name+".sh"), `echo "`+name+`${*:+ $*} under $LOCKAGENT_LOCK"`)
	}
	writeScript(t, filepath.Join(work, "lead.sh"), "lockagent break leader --yes >&2\nexec sleep 1000")
	call(t, "acquire", "--socket", d.Path, "--ttl", "1h", "stuck/1").expect(t, cli.ExitOK, nil, nil)
	for _, r := range recipes {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", r.Code)
		cmd.Dir = work
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "LOCKAGENT_SOCKET="+d.Path, "SHELL=/bin/sh",
			"LOCKAGENT_LOCK=scripts/once", "LOCKAGENT_TOKEN=7") // left from another time
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("%s: %v\n%s%s", r.Title, err, out, &stderr)
		}
		rest := string(out)
		for _, want := range said[r.Title] {
			_, after, found := strings.Cut(rest, want)
			if !found {
				t.Errorf("%s: it does not write %q but\n%s%s", r.Title, want, out, &stderr)
			}
			rest = after
		}
		if len(said[r.Title]) == 0 {
			t.Errorf("nobody knows what the recipe %q writes", r.Title)
		}
	}
	call(t, "lock", "--socket", d.Path, "-n", "jobs/report", "true").expect(t, cli.ExitFailed, nil, []string{"is held by"})
	call(t, "break", "--socket", d.Path, "--yes", "jobs/report").expect(t, cli.ExitOK, nil, nil)
	if left := claimsOf(t, d.Path); left != "" {
		t.Errorf("the recipes have left\n%s", left)
	}
	call(t, "help", "recipes").expect(
		t, cli.ExitOK, []string{"\n" + recipes[2].Title + "\n\n  The exit code", "\n\n    " + recipes[0].Code + "\n"}, nil,
	)
	if len(said) != len(recipes) {
		t.Errorf("%d recipes, and %d outputs", len(recipes), len(said))
	}
}

// writeScript writes a script that can be executed.
func writeScript(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
}

// The example of lockagent.yaml(5) is valid, and the page has all settings.
func TestTheManualOfTheSettings(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	d := settingsDocument()
	if err := os.WriteFile(
		file, []byte(strings.Replace(exampleSettings, "/etc/lockagent/redis.password", file, 1)), 0o600,
	); err != nil {
		t.Fatal(err)
	}
	call(t, "config", "show", "--config", file).expect(t, cli.ExitOK, []string{"rediss://", "deploy/**"}, nil)
	page := documentPage(d)
	for _, want := range []string{
		"\n.SS redis\n", "\n.TP\n.B redis.url\nThe Redis that has the locks.", "\n.TP\n.B rules\n",
		"The flag is \\-\\-drain\\-timeout, and the variable LOCKAGENT_DRAIN_TIMEOUT. A reload is enough.\n",
		"Default: 30s.", ".SH SEE ALSO\n.BR lockagent (1),\n.BR lockagent\\-exit (7),\n",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	var named int
	for _, part := range d.Parts {
		for _, below := range part.Parts {
			named += len(below.Items)
		}
	}
	if n := len(config.All()); named != n {
		t.Errorf("the page has %d settings of %d", named, n)
	}
}
