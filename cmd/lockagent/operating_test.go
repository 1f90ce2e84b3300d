//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/lockagent/lockagent/internal/machinetest"
)

// The commands in the guide work.
func TestOperatingGuide(t *testing.T) {
	_, err := exec.LookPath("curl")
	machinetest.Needs(t, err)
	guide, err := os.ReadFile("../../docs/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin, work := t.TempDir(), t.TempDir()
	if err := os.Symlink(self, filepath.Join(bin, "lockagent")); err != nil {
		t.Fatal(err)
	}
	path := socketPath(t)
	serving(t, path, "--drain-timeout", "1ms")
	claims(t, path, "orders/42")
	here := strings.NewReplacer(
		"/run/lockagent/agent-operator.sock", path+"-operator.sock", "/run/lockagent/agent.sock", path, "/var/lib/lockagent", path+".state",
	)
	blocks := regexp.MustCompile("(?s)\\*checked\\*\n```sh\n(.*?)```").FindAllStringSubmatch(string(guide), -1)
	if len(blocks) < 5 {
		t.Fatalf("the guide has %d blocks", len(blocks))
	}
	for _, block := range blocks {
		for line := range strings.Lines(block[1]) {
			cmd := exec.Command("sh", "-c", here.Replace(line))
			cmd.Dir = work
			cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "LOCKAGENT_SOCKET="+path, "LOCKAGENT_STATE_DIR="+path+".state")
			out, err := cmd.CombinedOutput()
			if err != nil || len(out) == 0 && strings.HasPrefix(line, "lockagent show") {
				t.Errorf("%s: %v\n%s", line, err, out)
			}
		}
	}
	if left := claimsOf(t, path); strings.Contains(left, "orders/42") {
		t.Errorf("the lock was not broken: %s", left)
	}
}

// claimsOf is what the daemon on a socket holds.
func claimsOf(t *testing.T, path string) string {
	t.Helper()
	return call(t, "ls", "--socket", path).stdout
}
