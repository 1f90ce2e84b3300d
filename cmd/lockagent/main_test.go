package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	"github.com/lockagent/lockagent/internal/waittest"
)

// asProgram is a variable of the environment. If it is set, the test binary is the program. So a program in this
// process can start itself, and scripts can run what has the race detector.
const asProgram = "LOCKAGENT_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGHUP} {
		if signal.Ignored(s) { // by a script, or nohup, that runs these tests; the programs of the tests would inherit it
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	_ = os.Unsetenv("NO_COLOR") // cannot fail for a valid name
	for _, setting := range os.Environ() {
		if name, _, _ := strings.Cut(setting, "="); strings.HasPrefix(name, "LOCKAGENT_") &&
			!strings.HasPrefix(name, "LOCKAGENT_TEST_") {
			_ = os.Unsetenv(name) // likewise
		}
	}
	for _, variable := range os.Environ() {
		if strings.HasPrefix(variable, "OTEL_") {
			_ = os.Unsetenv(strings.SplitN(variable, "=", 2)[0])
		}
	}
	// For all that the tests start.
	_ = os.Setenv(asProgram, "1")
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // rather than a second for each program
	var err error
	if bin, err = os.MkdirTemp("", "lockagent-bin"); err != nil {
		panic(err)
	}
	if err := os.Chmod(bin, 0o755); err != nil { // some tests run the program as another user
		panic(err)
	}
	goleak.VerifyTestMain(m, natstest.LeftBehind(), goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(bin)
		os.Exit(code)
	}))
}

// bin is the directory of the program. It stays when a test panics, or when go test gives up.
var bin string

// build builds the program. It lacks the race detector, with which it starts several times as slowly. What the daemon
// does has its own tests with the race detector, and so has what verbs do in this process. Some scripts run wrappers
// with it.
var build = sync.OnceValue(func() error {
	if out, err := exec.Command(
		"go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", bin, ".",
	).CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w: %s", err, out)
	}
	return nil
})

// program is the path of the program.
func program(t testing.TB) string {
	t.Helper()
	if err := build(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(bin, "lockagent")
}

// process is the program in a process of its own.
type process struct {
	*exec.Cmd
	stderr output
	end    error // read it after stderr.ended
}

// launch starts the program. The end of the test kills it.
func launch(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	ended := make(chan struct{})
	p := &process{Cmd: cmd, stderr: output{ended: ended}}
	p.Stderr = &p.stderr
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(ended)
		p.end = p.Wait()
	}()
	t.Cleanup(func() {
		_ = p.Process.Kill() // it has ended if all went well
		<-ended
		if t.Failed() {
			t.Logf("%s:\n%s", p, &p.stderr)
		}
	})
	return p
}

// result is what became of a run of the program.
type result struct {
	code           int
	stdout, stderr string
}

// call runs the program in this process until it ends.
func call(t *testing.T, args ...string) result { return callWith(t, "", args...) }

// callWith is call with a standard input.
func callWith(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	ctx := waittest.Context(t)
	var stdout, stderr bytes.Buffer
	code := run(ctx, args, strings.NewReader(stdin), &stdout, &stderr)
	if ctx.Err() != nil {
		t.Errorf("%v did not end by itself", args)
	}
	return result{code, stdout.String(), stderr.String()}
}

// expect fails the test unless the program ended with code, and its outputs
// contain the texts.
func (r result) expect(t *testing.T, code int, stdout, stderr []string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code %d, want %d", r.code, code)
	}
	for _, want := range stdout {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("stdout does not say %q", want)
		}
	}
	for _, want := range stderr {
		if !strings.Contains(r.stderr, want) {
			t.Errorf("stderr does not say %q", want)
		}
	}
	if t.Failed() {
		t.Logf("stdout:\n%s\nstderr:\n%s", r.stdout, r.stderr)
	}
}

// running is the program at work.
type running struct {
	output
	stderr output
	stop   context.CancelFunc // as an interrupt does
	end    result             // read it after output.ended
}

// start runs the program in this process. The test ends it, at the latest when the
// test ends itself.
func start(t *testing.T, args ...string) *running {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	r := &running{stop: stop, output: output{ended: ended}, stderr: output{ended: ended}}
	go func() {
		defer close(ended)
		code := run(ctx, args, strings.NewReader(""), &r.output, &r.stderr)
		r.end = result{code, r.String(), r.stderr.String()}
	}()
	t.Cleanup(func() {
		stop()
		waittest.Receive(t, "the end of the program", ended)
		if t.Failed() {
			t.Logf("lockagent %s: exit code %d\n%s", strings.Join(args, " "), r.end.code, r.end.stderr)
		}
	})
	return r
}

// interrupt asks the program to end, and returns how it did.
func (r *running) interrupt(t *testing.T) result {
	t.Helper()
	r.stop()
	waittest.Receive(t, "the end of the program", r.ended)
	return r.end
}
