package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/manual"
	"github.com/lockagent/lockagent/internal/config"
)

// The reference and the recipes are made of the same text as the help.
func TestTheReferenceIsCurrent(t *testing.T) {
	made(t, "../../docs/cli.md", manual.Markdown(
		newRoot(), "configuration.md", "settings of the daemon", config.IsSetting,
	))
	made(t, "../../docs/recipes.md", recipesDocument().Markdown())
}

// made fails the test unless a file has the text after its head. It writes the text if somebody wants that.
func made(t *testing.T, file, text string) {
	t.Helper()
	const renew = "LOCKAGENT_TEST_RENEW"
	is, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, _, found := strings.Cut(string(is), "-->\n")
	want := head + "-->\n" + text
	switch {
	case !found:
		t.Errorf("%s has no place for what is made", file)
	case os.Getenv(renew) != "":
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	case string(is) != want:
		t.Errorf("%s is not what the program says; run this test with %s=1", file, renew)
	}
}

func TestMan(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "man")
	call(t, "man", "--dir", dir).expect(t, cli.ExitOK, nil, nil)
	pages := 0
	written := func(file string, args ...string) string {
		page, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Error(err)
		}
		pages++
		if got := call(t, append([]string{"man"}, args...)...); got.stdout != string(page) || got.code != cli.ExitOK {
			t.Errorf("man %v prints another page than is written, or ends with %d", args, got.code)
		}
		wellFormed(t, file, string(page))
		return string(page)
	}
	for cmd := range manual.Commands(newRoot()) {
		page := written(manual.File(cmd), strings.Fields(cmd.CommandPath())[1:]...)
		exits := exitManual(exitVerb(cmd))
		if !strings.Contains(page, exits.Roff()) || !strings.Contains(page, ".BR lockagent\\-exit (7)") {
			t.Errorf("the page of %s does not tell of the exit codes", cmd.CommandPath())
		}
		// Those who take settings tell where they are described.
		if got, want := strings.Contains(page, ".BR lockagent.yaml (5)"), !cmd.HasParent() ||
			cmd.Flags().Lookup("config") != nil; got != want {
			t.Errorf("the page of %s names that of the settings: %t", cmd.CommandPath(), got)
		}
	}
	if pages < 20 {
		t.Errorf("there are %d pages", pages)
	}
	exits := exitManual("")
	if page := written("man7/lockagent-exit.7", "exit"); !strings.Contains(page, exits.Roff()) {
		t.Error("the page about exit codes has none")
	}
	if page := written(
		"man7/lockagent-recipes.7", "lockagent-recipes",
	); !strings.Contains(page, "\nlockagent lock \\-\\-slots 3 builds ./build.sh\n") {
		t.Error("the page with the recipes lacks one")
	}
	written("man5/lockagent.yaml.5", "lockagent.yaml")
	files, err := filepath.Glob(filepath.Join(dir, "man*", "*"))
	if err != nil || len(files) != pages {
		t.Errorf("%d pages, and %d files: %v", pages, len(files), err)
	}
	call(t, "man", "nothing").expect(t, cli.ExitUsage, nil, []string{`no verb "nothing"`})
	call(t, "man", "lock", "--dir", dir).expect(t, cli.ExitUsage, nil, []string{"Try: lockagent man --dir"})
	call(t, "man", "--dir", filepath.Join(dir, "man1", "lockagent.1")).expect(t, cli.ExitFailed, nil, nil)
}

// wellFormed has groff read the page, where there is one.
func wellFormed(t *testing.T, of, page string) {
	groff, err := exec.LookPath("groff")
	if err != nil {
		return
	}
	cmd := exec.CommandContext(t.Context(), groff, "-man", "-Tutf8", "-ww", "-z")
	cmd.Stdin = strings.NewReader(page)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("the page of %s: %v\n%s", of, err, out)
	}
}
