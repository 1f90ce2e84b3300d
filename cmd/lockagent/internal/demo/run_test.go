package demo

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockagent/lockagent/events/natslog"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
)

// forever is how long a demonstration takes that the test ends.
const forever = time.Hour

func check(t *testing.T, s Summary, name string) Check {
	t.Helper()
	for _, c := range s.Checks {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("there is no check %q among %+v", name, s.Checks)
	return Check{}
}

func TestRun(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var phases []Phase
	s, err := Run(ctx, Config{
		Work:     Work{Workers: 4, Locks: 2, Think: 100 * time.Microsecond, Lease: time.Minute},
		Agents:   2,
		Duration: forever,
		Logger:   testLogger(t),
		Watch: func(p Progress) {
			if len(phases) == 0 || phases[len(phases)-1] != p.Phase {
				phases = append(phases, p.Phase)
			}
			if p.Writes > 50 {
				stop()
			}
		},
		Every: time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	if !s.OK || len(s.Failed()) > 0 || len(s.Checks) != 4 {
		t.Errorf("checks are %+v", s.Checks)
	}
	if got, want := phases, []Phase{Opened, Working, Stopping, Auditing}; len(got) != len(want) || got[0] != Opened ||
		got[3] != Auditing {
		t.Errorf("phases are %v, want %v", got, want)
	}
	switch {
	case s.Updates < 50, s.Grants < uint64(s.Updates), s.HandOffs > s.Grants, s.StoreCalls.Acquire == 0,
		s.Audit.Grants != int(s.Grants), s.Audit.Events != int(s.Events.Records), s.Events.Records > s.Events.Published,
		len(s.Counters) != 2:
		t.Errorf("the summary does not add up: %+v", s)
	}
}

func TestRunWithoutLocks(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	s, err := Run(ctx, Config{
		Work:     Work{Workers: 8, Locks: 1, Think: 100 * time.Microsecond, NoLocks: true},
		Agents:   2,
		Duration: forever,
		Watch: func(p Progress) {
			if p.Lost > 0 {
				stop()
			}
		},
		Every: time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	if c := check(t, s, "no lost update"); s.OK || c.OK || s.LostUpdates == 0 || s.Audit != nil {
		t.Errorf("without locks the summary is %+v", s)
	}
}

// A process that is killed ends badly, and so does the demonstration, but in order.
func TestRunWithAProcessKilled(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var commands []*exec.Cmd
	command := joiner(t)
	kill := sync.OnceFunc(func() {
		if err := commands[1].Process.Kill(); err != nil {
			t.Errorf("kill: %v", err)
		}
		stop()
	})
	s, err := Run(ctx, Config{
		Work:     Work{Workers: 1, Locks: 1, Think: time.Millisecond, NoLocks: true},
		Agents:   3,
		Duration: forever,
		Command: func() *exec.Cmd {
			cmd := command()
			commands = append(commands, cmd)
			return cmd
		},
		Watch: func(p Progress) {
			if p.Writes > 0 {
				kill()
			}
		},
		Every: time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	c := check(t, s, "agents")
	if s.OK || c.OK || len(c.Detail) != 1 || !strings.Contains(c.Detail[0], "agent 2: ") ||
		!strings.Contains(c.Detail[0], "killed") {
		t.Errorf("check is %+v", c)
	}
}

// Nobody is left when one process cannot begin.
func TestRunWithAProcessThatFails(t *testing.T) {
	t.Parallel()
	command := joiner(t)
	n := 0
	_, err := Run(t.Context(), Config{
		Work:     Work{Workers: 1, Locks: 1, NoLocks: true},
		Agents:   3,
		Duration: forever,
		Command: func() *exec.Cmd {
			cmd := command()
			if n++; n == 2 {
				return exec.Command(cmd.Path, "-no-such-flag") // exits with 2
			}
			return cmd
		},
	})
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 2 {
		t.Errorf("Run returned %v, want the exit of the process", err)
	}
}

func TestRunWithoutNATS(t *testing.T) {
	server := natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"})
	url := server.URL()
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	_, err := Run(t.Context(), Config{
		Work:   Work{Workers: 1, Locks: 1, Lease: time.Minute},
		Agents: 1, Duration: forever, NATS: natslog.Connection{URL: url}, Logger: testLogger(t),
	})
	if !errors.Is(err, ErrNoEventLog) {
		t.Errorf("Run returned %v, want ErrNoEventLog", err)
	}
}
