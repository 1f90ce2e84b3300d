package main

import (
	"context"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lockagent/lockagent/bench/stat"
	"github.com/lockagent/lockagent/internal/machinetest"
)

// The test binary is its own worker, as the program is.
func TestMain(m *testing.M) {
	if os.Getenv(workerVariable) != "" {
		main()
		os.Exit(0)
	}
	firstCycle, patience = time.Minute, time.Minute // the machine may be busy with anything
	goleak.VerifyTestMain(m)
}

func requireRedis(t *testing.T) {
	t.Helper()
	_, err := exec.LookPath("redis-server")
	machinetest.Needs(t, err)
}

func smoke(t *testing.T) *bench {
	t.Helper()
	return &bench{
		plan: smokePlan, contenders: regexp.MustCompile("^(rueidislock-best|redsync-best|redislock)$"), progress: t.Output(),
		grantTimes: make(map[string]time.Duration), results: &results{Machine: "a test"},
	}
}

// Some scenarios, each of another sort. TestGaugesRead has more. None needs Java, or a program that has to be built.
// make soak runs every scenario.
func TestSomeScenariosRun(t *testing.T) {
	some := slices.DeleteFunc(slices.Clone(scenarios), func(s scenario) bool {
		return !slices.Contains([]string{"own-1", "killed", "server", "kept-10000"}, s.name)
	})
	if found := scenariosRun(t, some); len(found) != 4 {
		t.Errorf("%d scenarios ran", len(found))
	}
}

// scenariosRun runs scenarios, and returns what they found.
func scenariosRun(t *testing.T, scenarios []scenario) []*results {
	requireRedis(t)
	found := make([]*results, len(scenarios))
	built := new(programs)
	t.Cleanup(built.remove)
	// As a group, which ends before the rest begins. Nothing that they measure means anything here,
	// so they need not be alone.
	t.Run("Scenarios", func(t *testing.T) {
		for i, s := range scenarios {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				b := smoke(t)
				b.programs = built
				if err := b.all(t.Context(), regexp.MustCompile("^"+s.name+"$")); err != nil {
					t.Fatal(err)
				}
				found[i] = b.results
			})
		}
	})
	if t.Failed() || slices.Contains(found, nil) { // -run may choose some of them
		t.SkipNow()
	}
	return found
}

// A run that takes too long ends what it started, and says why.
func TestRunsAreBounded(t *testing.T) {
	requireRedis(t)
	dir := t.TempDir()
	for _, scenario := range []string{"own-64", "one-8x8", "handoff"} {
		err := command(t.Context(), []string{"-only", "^" + scenario + "$", "-limit", "200ms", "-write", dir})
		if !errors.Is(err, errTooLong) {
			t.Errorf("%s: %v, want it to have taken too long", scenario, err)
		}
		if _, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); !errors.Is(err, syscall.ECHILD) {
			t.Errorf("%s: a process is left: %v", scenario, err)
		}
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("%v was written, %v", files, err)
	}
}

// A ratio to nothing compares with nothing.
func TestCheckNeedsValues(t *testing.T) {
	g := gauge{open: func(*bench, context.Context) (func() (float64, error), func(), error) {
		return func() (float64, error) { return math.NaN(), nil }, func() {}, nil
	}}
	if rounds, err := smoke(t).read(t.Context(), g, nil, roundsMost); !errors.Is(err, errNoValue) {
		t.Errorf("read %v, %v", rounds, err)
	}
}

func TestGaugesRead(t *testing.T) {
	requireRedis(t)
	for _, g := range gauges {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			b := smoke(t)
			b.slowdown = 0.3 // that way is taken as well
			read, shut, err := g.open(b, t.Context())
			if err != nil {
				t.Fatal(err)
			}
			_, err = read() // whose value means nothing after so short a time
			shut()
			if err != nil {
				t.Error(err)
			}
		})
	}
}

func TestCompare(t *testing.T) {
	more, less := gauge{more: true}, gauge{more: false}
	steady := func(v float64) stat.Estimate { return stat.Estimate{Median: v, Noise: 0.02, Rounds: 9} }
	noisy := func(v float64) stat.Estimate { return stat.Estimate{Median: v, Noise: 0.5, Rounds: 9} }
	for _, c := range []struct {
		what      string
		gauge     gauge
		now, base stat.Estimate
		fails     bool
	}{
		{"the same", more, steady(1), steady(1), false},
		{"more is better", more, steady(2), steady(1), false},
		{"less is better", less, steady(1), steady(2), false},
		{"a little slower", more, steady(0.95), steady(1), false},
		{"30 % slower", more, steady(1 / 1.3), steady(1), true},
		{"30 % longer", less, steady(1.3), steady(1), true},
		{"30 % slower in much noise", more, noisy(1 / 1.3), noisy(1), true},
		{"15 % longer in noise", less, noisy(1.15), noisy(1), false},
		{"15 % longer without noise", less, steady(1.15), steady(1), true},
	} {
		if r := c.gauge.compare(c.now, c.base); r.failed() != c.fails {
			t.Errorf("%s: worse by %.3f of %.3f allowed", c.what, r.worse, r.allowed)
		}
	}
}

func TestCheckNeedsItsBaseline(t *testing.T) {
	b := smoke(t)
	path := filepath.Join(t.TempDir(), "baseline.json")
	if err := b.check(t.Context(), path, regexp.MustCompile("")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a baseline: %v", err)
	}
	if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := b.check(t.Context(), path, regexp.MustCompile("own-1$")); err == nil ||
		!strings.Contains(err.Error(), "own-1") {
		t.Errorf("with an empty baseline: %v", err)
	}
}
