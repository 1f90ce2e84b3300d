//go:build linux

package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/internal/waittest"
)

// A journal that a newer version has written, or that is damaged, is an error. The file stays as it is.
func TestServeWithAJournalThatItCannotRead(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	d := serveProcess(t, path, nil)
	call(t, "acquire", "--socket", path, "--ttl", "1h", "door").expect(t, cli.ExitOK, nil, nil)
	d.signal(t, syscall.SIGKILL)
	waittest.Receive(t, "the end of the process", d.stderr.ended)
	name := path + ".state/journal"
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]struct {
		at   int
		says string
	}{
		"newer":   {8, "start the version that wrote it"}, // the format is behind 8 bytes that are always the same
		"damaged": {len(content) / 2, "restore the file, or move it away"},
	} {
		bad := bytes.Clone(content)
		bad[change.at] ^= 0x40
		if err := os.WriteFile(name, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		call(t, "serve", "--socket", path, "--state-dir", path+".state").expect(
			t, cli.ExitFailed, nil, []string{name, change.says},
		)
		if now, err := os.ReadFile(name); err != nil || !bytes.Equal(now, bad) {
			t.Errorf("%s: the file has changed: %v", what, err)
		}
	}
	if err := os.WriteFile(name, content[:len(content)-1], 0o600); err != nil {
		// Cut off at the end, as a kill may leave it.
		t.Fatal(err)
	}
	serveProcess(t, path, nil).stderr.await(t, "what was not recovered", says("the end of the journal does not count"))
}

// Whoever does what the daemon says of a journal that it cannot read gets no second holder.
func TestADamagedJournalThatIsMovedAway(t *testing.T) {
	t.Parallel()
	for what, at := range map[string]int{"newer": 8, "damaged": 100} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			path := socketPath(t)
			d := serveProcess(t, path, nil)
			call(t, "acquire", "--socket", path, "--ttl", "1h", "door").expect(t, cli.ExitOK, nil, nil)
			awaitLog(t, path)
			d.signal(t, syscall.SIGKILL)
			waittest.Receive(t, "the end of the process", d.stderr.ended)
			name := path + ".state/journal"
			content, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			content[at] ^= 0x40
			if err := os.WriteFile(name, content, 0o600); err != nil {
				t.Fatal(err)
			}
			refused := call(t, "serve", "--socket", path, "--state-dir", path+".state")
			_, try, ok := strings.Cut(refused.stderr, "Try: ")
			if !ok {
				t.Fatalf("it says %q", refused.stderr)
			}
			if out, err := exec.Command("sh", "-c", try).CombinedOutput(); err != nil {
				t.Fatalf("%q: %v: %s", try, err, out)
			}
			call(t, "serve", "--socket", path, "--state-dir", path+".state").expect(
				t, cli.ExitFailed, nil, []string{"the journal of the daemon before is missing"},
			)
			if now, err := os.ReadFile(name + ".damaged"); err != nil || !bytes.Equal(now, content) {
				t.Errorf("the file is not there as it was: %v", err)
			}
		})
	}
}
