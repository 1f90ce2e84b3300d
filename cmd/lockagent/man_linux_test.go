package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/manual"
)

// The reference is made of the same text as the help.
func TestTheReferenceIsCurrent(t *testing.T) {
	const file, renew = "../../docs/cli.md", "LOCKAGENT_TEST_RENEW"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, _, found := strings.Cut(string(text), "-->\n")
	want := head + "-->\n" + manual.Markdown(newRoot())
	switch {
	case !found:
		t.Error("the reference has no place for the verbs")
	case os.Getenv(renew) != "":
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	case string(text) != want:
		t.Errorf("docs/cli.md is not what the help says; run this test with %s=1", renew)
	}
}

func TestMan(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man", "man1")
	call(t, "man", "--dir", dir).expect(t, exitOK, nil, nil)
	pages := 0
	for cmd := range manual.Commands(newRoot()) {
		page, err := os.ReadFile(filepath.Join(dir, manual.Name(cmd)+".1"))
		if err != nil {
			t.Error(err)
			continue
		}
		pages++
		args := append([]string{"man"}, strings.Fields(cmd.CommandPath())[1:]...)
		if got := call(t, args...); got.stdout != string(page) || got.code != exitOK {
			t.Errorf("%v prints another page than is written, or ends with %d", args, got.code)
		}
		if !strings.Contains(string(page), exitManual()) {
			t.Errorf("the page of %s does not tell of the exit codes", cmd.CommandPath())
		}
		wellFormed(t, cmd.CommandPath(), string(page))
	}
	if pages < 20 {
		t.Errorf("there are %d pages", pages)
	}
	call(t, "man", "nothing").expect(t, exitUsage, nil, []string{`no verb "nothing"`})
	call(t, "man", "lock", "--dir", dir).expect(t, exitUsage, nil, []string{"Try: lockagent man --dir"})
	call(t, "man", "--dir", filepath.Join(dir, "lockagent.1")).expect(t, exitFailed, nil, nil)
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
