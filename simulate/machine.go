package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"

	"github.com/lockagent/lockagent/simulate/plan"
)

// machine runs the guest. All that a guest learns of the world is the plan, and a clock and random numbers that come
// from the seed of the plan.
type machine struct {
	runtime wazero.Runtime
	guest   wazero.CompiledModule
}

// newMachine builds and compiles the guest. The first time takes about a minute. The cache then has both.
func newMachine(ctx context.Context) (*machine, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	cache = filepath.Join(cache, "lockagent-simulate")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "lockagent-simulate")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	code, err := build(ctx, filepath.Join(dir, "guest.wasm"))
	if err != nil {
		return nil, err
	}
	compiled, err := wazero.NewCompilationCacheWithDir(cache)
	if err != nil {
		return nil, err
	}
	return compile(ctx, code, wazero.NewRuntimeConfig().WithCompilationCache(compiled))
}

// compile returns a machine that runs the code of a guest.
func compile(ctx context.Context, code []byte, config wazero.RuntimeConfig) (*machine, error) {
	m := &machine{runtime: wazero.NewRuntimeWithConfig(ctx, config)}
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, m.runtime); err != nil {
		return nil, err
	}
	var err error
	m.guest, err = m.runtime.CompileModule(ctx, code)
	return m, err
}

// build builds the guest into a file, and returns it.
func build(ctx context.Context, file string, flags ...string) ([]byte, error) {
	args := append([]string{"build", "-ldflags", "-s -w", "-o", file}, flags...)
	command := exec.CommandContext(ctx, "go", append(args, "github.com/lockagent/lockagent/simulate/guest")...)
	command.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if text, err := command.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("the guest cannot be built: run this in the directory simulate: %w\n%s", err, text)
	}
	return os.ReadFile(file)
}

func (m *machine) close(ctx context.Context) error { return m.runtime.Close(ctx) }

// guestGC has the guest collect garbage less often than other programs. It is slow there.
const guestGC = "400"

// mostTime is how long a run may last by its own clock, and mostLooks how often the guest may look at the clock.
const (
	mostTime  = 20 * time.Minute
	mostLooks = 100_000_000
)

// start has the guest follow a plan, and writes what it tells to out.
func (m *machine) start(ctx context.Context, p plan.Plan, trace bool, out io.Writer) error {
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	c := &clock{random: rand.New(rand.NewPCG(p.Seed, 3))}
	args := []string{"guest", string(text)}
	if trace {
		args = append(args, "trace")
	}
	config := wazero.NewModuleConfig().WithName("").WithEnv("GOGC", guestGC).WithArgs(args...).
		WithStdout(out).WithStderr(os.Stderr).
		WithWalltime(c.walltime, sys.ClockResolution(1)).WithNanotime(c.nanotime, sys.ClockResolution(1)).
		WithNanosleep(c.sleep).WithRandSource(rand.NewChaCha8(seedOf(p.Seed)))
	instance, err := m.runtime.InstantiateModule(ctx, m.guest, config)
	if instance != nil {
		defer instance.Close(ctx)
	}
	if exit := (*sys.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 0 {
		return nil
	}
	return err
}

func seedOf(seed uint64) (bytes [32]byte) {
	for i := range 8 {
		bytes[i] = byte(seed >> (8 * i))
	}
	return bytes
}

// clock is the time of a run. It passes at once when the guest sleeps, and a little whenever the guest looks: that is
// what its work takes.
type clock struct {
	random *rand.Rand
	now    time.Duration
	looks  int
}

// epoch is when a run begins.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func (c *clock) look() time.Duration {
	c.now += time.Duration(100 + c.random.Int64N(400))
	if c.looks++; c.looks > mostLooks || c.now > mostTime {
		panic(fmt.Sprintf("the run does not end: its clock shows %v after %d looks", c.now, c.looks))
	}
	return c.now
}

func (c *clock) walltime() (sec int64, nsec int32) {
	t := epoch.Add(c.look())
	return t.Unix(), int32(t.Nanosecond())
}

func (c *clock) nanotime() int64 { return int64(time.Hour + c.look()) }

func (c *clock) sleep(ns int64) { c.now += time.Duration(max(0, ns)) }
