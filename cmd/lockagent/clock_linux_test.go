package main

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/client"
	"github.com/lockagent/lockagent/internal/machinetest"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// elsewhere are programs that put another one where it does not know the clock of the others, or has another one.
var elsewhere = map[string]struct{ script, says string }{
	"no boot id": {
		`exec unshare -p -f --kill-child sh -c 'mount -t proc -o subset=pid proc /proc && exec "$@"' sh "$@"`, "boot_id",
	},
	"another time namespace": {`exec unshare -T -f --kill-child --boottime 100000 "$@"`, "time namespace"},
}

// placed is the program where such a script puts it. It is root there. Who kills the command kills the program.
func placed(t *testing.T, script string, args ...string) *exec.Cmd {
	t.Helper()
	try := func(command ...string) *exec.Cmd {
		return ownMounts(exec.CommandContext(t.Context(), "sh", append([]string{"-c", script, "sh"}, command...)...))
	}
	if out, err := try("true").CombinedOutput(); err != nil {
		machinetest.Needs(t, fmt.Errorf("this user can make no such place: %w: %s", err, out))
	}
	return try(append([]string{program(t)}, args...)...)
}

// A program that would not know when its lock is lost does not begin to hold it. It says why. What needs no deadline
// works.
func TestAnotherClock(t *testing.T) {
	for name, place := range elsewhere {
		t.Run("the client has "+name, func(t *testing.T) {
			t.Parallel()
			d := runDaemon(t)
			run := func(args ...string) result { return ran(t, placed(t, place.script, args...)) }
			r := run("lock", "--socket", d.Path, "door", "echo", "it ran")
			r.expect(t, cli.ExitNoDaemon, nil, []string{"the deadlines of the daemon mean nothing to this process", place.says})
			if r.stdout != "" {
				t.Errorf("the command ran: %s", r.stdout)
			}
			d.until(t, "door", counts(0, 0))
			claim := run("acquire", "--socket", d.Path, "--ttl", "1h", "door")
			claim.expect(t, cli.ExitOK, []string{"."}, nil)
			handle := strings.TrimSpace(claim.stdout)
			r = run("attach", "--socket", d.Path, handle, "echo", "it ran")
			r.expect(t, cli.ExitNoDaemon, nil, []string{"the deadlines of the daemon mean nothing to this process", place.says})
			if r.stdout != "" {
				t.Errorf("the command ran: %s", r.stdout)
			}
			call(t, "renew", "--socket", d.Path, "--ttl", "1h", handle).expect(t, cli.ExitOK, nil, nil) // the claim is as it was
			if place.says == "boot_id" {
				run("doctor", "--socket", d.Path, "--state-dir", t.TempDir()).expect(
					t, cli.ExitFailed, []string{"deadlines\terror\tthis process cannot read"}, nil,
				)
			}
			run("ls", "--socket", d.Path).expect(t, cli.ExitOK, []string{"door"}, nil)
			run("break", "--socket", d.Path, "--yes", "door").expect(t, cli.ExitOK, nil, nil)
		})
		t.Run("the daemon has "+name, func(t *testing.T) {
			t.Parallel()
			path := socketPath(t)
			d := launch(t, placed(t, place.script, "serve", "--socket", path, "--state-dir", path+".state"))
			d.stderr.await(t, "that it is ready", says("Ready: "))
			if told := d.stderr.String(); strings.Contains(told, "clients refuse locks") != (place.says == "boot_id") {
				t.Errorf("the daemon says of its clock: %s", told)
			}
			apart(t, "lock", "--socket", path, "door", "echo", "it ran").expect(t, cli.ExitNoDaemon, nil, []string{
				"the deadlines of the daemon mean nothing to this process", place.says,
			})
			looks := &testDaemon{Daemon: client.New(path)}
			defer looks.Close()
			looks.until(t, "door", func(l *lockagentv1.Lock) bool { return l.GetHeld()+l.GetWaiting() == 0 })
		})
	}
}
