package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/internal/daemon"
	"github.com/lockagent/lockagent/internal/daemon/access"
)

// The verbs read the log of the daemon of this host, which has no hub, when they are told nothing else.
func TestEventsOfTheHost(t *testing.T) {
	path := socketPath(t)
	serving(t, path)
	t.Setenv("LOCKAGENT_SOCKET", path)
	call(t, "lock", "orders/42", "true").expect(t, cli.ExitOK, nil, nil)
	claims(t, path, "orders/43")

	call(t, "events", "history", "orders/42").expect(
		t, cli.ExitOK, []string{"orders/42: 1 hold of 1 agent", "released"}, nil,
	)
	call(t, "events", "state", "orders/42").expect(t, cli.ExitOK, []string{"nobody held it", "before"}, nil)
	call(t, "events", "holders").expect(t, cli.ExitOK, []string{"orders/43", "1 hold, 0 requests wait"}, nil)
	log := call(t, "events", "tail", "--all", "--follow=false", "--format", "jsonl")
	log.expect(t, cli.ExitOK, []string{"agent.started", "orders/42", "orders/43"}, nil)

	// The daemon lives, so what it did just now may be pending.
	if r := call(t, "events", "audit"); !slices.Contains([]int{cli.ExitOK, cli.ExitIncomplete}, r.code) ||
		!strings.Contains(r.stdout, "1 agent on ") {
		t.Errorf("exit code %d:\n%s%s", r.code, r.stdout, r.stderr)
	}
	callWith(t, log.stdout, "events", "audit", "--file", "-").expect(
		t, cli.ExitOK, []string{"proven: ", "on 2 locks"}, nil,
	)
	call(
		t, "events", "tail", "--all", "--follow=false", "--lock", "orders/42", "--format", "jsonl", "--socket", path,
	).expect(t, cli.ExitOK, []string{"orders/42"}, nil)
}

// Whoever follows the log of the host goes on when the daemon has restarted, and sees each event once.
func TestEventsOfTheHostGoOn(t *testing.T) {
	path := socketPath(t)
	first := serving(t, path, "--drain-then", "release")
	tail := start(t, "events", "tail", "--all", "--format", "jsonl", "--socket", path)
	tail.await(t, "the first start", says("agent.started"))
	first.interrupt(t).expect(t, cli.ExitOK, nil, nil)
	serving(t, path)
	call(t, "lock", "--socket", path, "orders/42", "true").expect(t, cli.ExitOK, nil, nil)
	tail.await(t, "what came", says("orders/42"))
	told := tail.interrupt(t)
	told.expect(t, cli.ExitOK, nil, nil)
	seen := make(map[events.Place]bool)
	err := events.ReadLines(strings.NewReader(told.stdout), func(r *events.Record, err error) error {
		at := events.Place{Epoch: r.Epoch, Seq: r.Seq}
		if seen[at] {
			t.Errorf("twice: %v", at)
		}
		seen[at] = true
		return err
	})
	if err != nil || !seen[events.Place{Epoch: 1, Seq: 1}] || !seen[events.Place{Epoch: 2, Seq: 1}] {
		t.Errorf("%v, of %v", err, seen)
	}
}

func TestEventsOfAHostThatHasNone(t *testing.T) {
	all, err := access.ParsePattern("**")
	if err != nil {
		t.Fatal(err)
	}
	rules, err := access.New(access.Config{
		Directory: daemon.Directory{}, Rules: []access.Rule{{Match: all, Allow: access.Acquire | access.Look | access.Watch}},
		Now: time.Now, Refused: func(uint32, error, uint64) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	without, watcher := runDaemon(t), runDaemon(t, func(cfg *daemon.Config) { cfg.Access = rules })
	nobody := socketPath(t)
	const elsewhere = "Try: lockagent events audit --nats URL"
	for name, test := range map[string]struct {
		socket string
		code   int
		says   []string
	}{
		"NoDaemon": {
			nobody, cli.ExitNoDaemon,
			[]string{"no daemon listens on " + nobody + "; without --nats, --dir and --file its event log is read", elsewhere},
		},
		"NoLog": {
			without.Path, cli.ExitUnavailable, []string{"the daemon on " + without.Path + " has no event log", elsewhere},
		},
		"NoOperator": {
			watcher.Path, cli.ExitNotPermitted,
			[]string{"tells of all locks", "no right to operate", "Try: lockagent watch --since 10m"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("LOCKAGENT_SOCKET", test.socket)
			call(t, "events", "audit").expect(t, test.code, nil, test.says)
			call(t, "events", "tail", "--all").expect(t, test.code, nil, test.says[:1])
		})
	}
}

// Which log is read: the one on the command line, or else the one that the environment names, or else that of the host.
func TestWhichEventLogIsRead(t *testing.T) {
	nobody := socketPath(t)
	const nats = "nats://127.0.0.1:1"
	const ofDaemon, ofNATS = "no daemon listens on ", "NATS"
	for name, test := range map[string]struct {
		socket, nats string // in the environment
		args         []string
		says         string
	}{
		"Nothing":        {nobody, "", nil, ofDaemon},
		"NATS":           {nobody, nats, nil, ofNATS},
		"FlagOfNATS":     {nobody, "", []string{"--nats", nats}, ofNATS},
		"SocketOverNATS": {"", nats, []string{"--socket", nobody}, ofDaemon},
		"Both":           {"", "", []string{"--socket", nobody, "--nats", nats}, "--socket and --nats exclude each other"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("LOCKAGENT_SOCKET", test.socket)
			t.Setenv("LOCKAGENT_NATS", test.nats)
			r := call(t, append([]string{"events", "audit"}, test.args...)...)
			if r.code == cli.ExitOK || !strings.Contains(r.stderr, test.says) {
				t.Errorf("exit code %d: %s", r.code, r.stderr)
			}
		})
	}
}
