package python

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/lockagent/lockagent/examples/internal/testlog"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// interpreter makes a Python that has what the example needs, in a directory of the test.
func interpreter(t *testing.T) (path string) {
	t.Helper()
	venv := t.TempDir()
	path = filepath.Join(venv, "bin", "python3")
	for _, command := range [][]string{
		{"python3", "-m", "venv", venv},
		{path, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", "requirements.txt"},
	} {
		out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput()
		switch {
		case err == nil:
		case os.Getenv("CI") != "":
			t.Fatalf("there is no Python for the example: %v: %v\n%s", command, err, out)
		default:
			t.Skipf("there is no Python for the example: %v: %v\n%s", command, err, out)
		}
	}
	return path
}

// contains fails the test unless output has some texts and not others.
func contains(t *testing.T, output string, wants, others []string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(output, want) {
			t.Errorf("the output does not say %q", want)
		}
	}
	for _, other := range others {
		if strings.Contains(output, other) {
			t.Errorf("the output says %q", other)
		}
	}
	if t.Failed() {
		t.Fatalf("the output:\n%s", output)
	}
}

func TestHolders(t *testing.T) {
	python := interpreter(t)
	log := testlog.New(natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"}).URL())
	agent, other := log.Agent(t), log.Agent(t)
	state := filepath.Join(t.TempDir(), "state.json")
	holders := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), python, append([]string{"holders.py", "--nats", log.URL, "--state", state}, args...)...)
		cmd.Stderr = t.Output()
		return cmd
	}
	once := func() string {
		out, err := holders("--once").Output()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}

	first := agent.Hold("orders/1")
	agent.Release(agent.Hold("orders/2"))
	contains(t, once(), []string{"orders/1 ", fmt.Sprintf("token %d", first.Token())}, []string{"orders/2"})

	// The next run knows what the last one knew.
	other.Hold("orders/3")
	contains(t, once(), []string{"orders/1 ", "orders/3 "}, nil)
	agent.Release(first)
	contains(t, once(), []string{"orders/3 "}, []string{"orders/1"})

	cmd := holders()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(stdout)
	next := func() string {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return line
	}
	contains(t, next(), []string{"orders/3 "}, nil)
	g := other.Hold("orders/4")
	contains(t, next(), []string{"orders/4: ", " holds it", fmt.Sprintf("token %d", g.Token())}, nil)
	other.Release(g)
	contains(t, next(), []string{"orders/4: ", " no longer holds it: released"}, nil)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(t.Output(), lines); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("an interrupt is how it is meant to end: %v", err)
	}
}
