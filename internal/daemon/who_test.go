//go:build linux

package daemon

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"

	"github.com/lockagent/lockagent"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// askers is a recorder that remembers who has asked for each lock, and who broke it.
type askers struct {
	mu       sync.Mutex // guards what follows
	who      map[lockagent.Name]lockagent.Process
	operator string
}

func (a *askers) Record(_ context.Context, e lockagent.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if e.Kind == lockagent.EventGranted {
		a.who[e.Lock] = e.Who.Process()
	}
	if e.Operator != "" {
		a.operator = e.Operator
	}
}

func (a *askers) of(name lockagent.Name) lockagent.Process {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.who[name]
}

// The events of a claim say which process has made it: what the kernel knows, and what the client says. A daemon may be
// told to forget commands.
func TestEventsTellWho(t *testing.T) {
	a := &askers{who: make(map[lockagent.Name]lockagent.Process)}
	for _, forgets := range []bool{false, true} {
		d := run(t, func(cfg *Config) { cfg.Recorder, cfg.NoCommands = a, forgets })
		c := d.client(t)
		me, _ := client(own(t, d))
		host, _ := os.Hostname()
		user := newUserNames().name(me.UID)
		want := lockagent.Process{Host: host, Program: me.Program, PID: os.Getpid(), User: user}
		c.acquire(t, &lockagentv1.AcquireRequest{Name: "plain"}).granted()
		if got := a.of("plain"); got != want || user == "" {
			t.Errorf("got %+v, want %+v", got, want)
		}
		c.acquire(t, &lockagentv1.AcquireRequest{
			Name: "backup", Program: "backup.sh", Command: "backup.sh --password=x " + strings.Repeat("y", 1000),
		}).granted()
		want.Program = "backup.sh"
		if !forgets {
			want.Command = ("backup.sh --password=x " + strings.Repeat("y", 1000))[:lockagent.MaxProcessText]
		}
		if got := a.of("backup"); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		got, err := c.look.Get(background, &lockagentv1.GetRequest{Name: "backup"})
		if err != nil {
			t.Fatal(err)
		}
		if h := got.GetLock().GetHolders()[0]; h.GetClient().GetProgram() != "backup.sh" ||
			(h.GetCommand() == "") != forgets {
			t.Errorf("the list has %v", h)
		}
		// A claim for a process is of that process.
		c.acquire(t, &lockagentv1.AcquireRequest{
			Name: "script", Program: "lockagent", Detach: true, ForPid: int32(os.Getpid()),
		}).granted()
		want.Program, want.Command = me.Program, ""
		if got := a.of("script"); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if _, err := c.operate.Break(background, &lockagentv1.BreakRequest{Name: "plain", Reason: "stuck"}); err != nil {
			t.Fatal(err)
		}
		a.mu.Lock()
		if want := want.String() + ": stuck"; a.operator != want {
			t.Errorf("it is broken by %q, want %q", a.operator, want)
		}
		a.operator = ""
		a.mu.Unlock()
	}
	s := run(t).client(t).acquire(t, &lockagentv1.AcquireRequest{
		Name: "door", Program: strings.Repeat("x", lockagent.MaxProcessText+1),
	})
	if s.events.Receive() || connect.CodeOf(s.events.Err()) != connect.CodeInvalidArgument {
		t.Errorf("got %v, %v", s.events.Msg(), s.events.Err())
	}
}
