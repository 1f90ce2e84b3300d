//go:build linux

package claims

import (
	"errors"
	"os"
	"testing"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/daemon/refusal"
)

// wrapper is a client that has ended when it is not among the processes of a world any more.
var wrapper = Client{PID: os.Getpid(), UID: me.UID, Started: 70}

// A hold whose client has gone for good lasts until its workers have ended. A client has gone for good when its stream
// ends, when the next daemon finds that the client has ended, or when the client does not come back to that daemon.
func TestAClaimLastsUntilItsWorkersHaveEnded(t *testing.T) {
	for what, goes := range map[string]func(w *world, s *Stream, claim string){
		"its stream ends": func(w *world, s *Stream, _ string) {
			delete(w.started, wrapper.PID)
			s.Close()
		},
		"it has ended, and the daemon starts anew": func(w *world, _ *Stream, _ string) {
			w.kill()
			delete(w.started, wrapper.PID)
			w.begin()
		},
		"it does not come back": func(w *world, _ *Stream, claim string) {
			w.kill()
			w.begin()
			w.book.mu.Lock()
			c := w.book.claims[claim]
			w.book.mu.Unlock()
			c.abandon() // as when the grace has passed
		},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			first, _ := sleeper(t, me.UID)
			second, _ := sleeper(t, me.UID)
			w.started[wrapper.PID], w.started[first.Process.Pid], w.started[second.Process.Pid] = wrapper.Started, 1, 2
			s := ask(t, w.book, Request{Client: wrapper, Name: "door"})
			g := read[Granted](t, s)
			if err := w.book.Bind(wrapper, g.Claim, g.Secret, []int{first.Process.Pid, second.Process.Pid}); err != nil {
				t.Fatal(err)
			}
			goes(w, s, g.Claim)
			if err := w.journal.Flush(); err != nil {
				t.Fatal(err)
			}
			holds := func(what string) {
				t.Helper()
				l := w.book.Lock("door")
				if l.Held != 1 || !l.Holders[0].Detached || l.Holders[0].Token != g.Grant.Token() ||
					len(l.Holders[0].Workers) != 2 {
					t.Fatalf("%s: %+v", what, l)
				}
			}
			holds("both work")
			_ = first.Process.Kill()
			_, _ = first.Process.Wait()
			w.kill()
			w.begin()
			holds("one works")
			w.book.mu.Lock()
			c, err := w.book.find(g.Claim, g.Secret)
			if err != nil || c.ForPID != second.Process.Pid {
				t.Errorf("the claim is bound to %+v: %v", c, err)
			}
			w.book.mu.Unlock()
			_ = second.Process.Kill()
			if left := w.book.Await(t.Context()); left != 0 {
				t.Errorf("%d claims are left", left)
			}
		})
	}
}

// A process that got the number of a worker keeps no claim, and neither does one that was named no more.
func TestWorkersThatHaveEnded(t *testing.T) {
	w := newWorld(t)
	cmd, _ := sleeper(t, me.UID)
	for name, rename := range map[lockagent.Name]func(id, secret string) error{
		"door": func(string, string) error { w.started[cmd.Process.Pid]++; return nil },
		"desk": func(id, secret string) error { return w.book.Bind(wrapper, id, secret, nil) },
	} {
		w.started[wrapper.PID], w.started[cmd.Process.Pid] = wrapper.Started, 1
		s := ask(t, w.book, Request{Client: wrapper, Name: name})
		g := read[Granted](t, s)
		if err := w.book.Bind(wrapper, g.Claim, g.Secret, []int{cmd.Process.Pid}); err != nil {
			t.Fatal(err)
		}
		if err := rename(g.Claim, g.Secret); err != nil {
			t.Fatal(err)
		}
		s.Close()
		if left := w.book.Await(t.Context()); left != 0 {
			t.Errorf("%s: %d claims are left", name, left)
		}
	}
}

// A claim that is released ends, whoever works under it.
func TestAClaimWithWorkersIsReleased(t *testing.T) {
	w := newWorld(t)
	cmd, _ := sleeper(t, me.UID)
	s := ask(t, w.book, Request{Client: wrapper, Name: "door"})
	g := read[Granted](t, s)
	if err := w.book.Bind(wrapper, g.Claim, g.Secret, []int{cmd.Process.Pid}); err != nil {
		t.Fatal(err)
	}
	if ended, err := w.book.Release(t.Context(), g.Claim, g.Secret, 0); !ended || err != nil {
		t.Errorf("%v, %v", ended, err)
	}
	s.Close()
	if n := w.book.Counts(); n != (Counts{}) {
		t.Errorf("%+v", n)
	}
}

func TestWorkersThatAreRefused(t *testing.T) {
	b, _ := open(t)
	cmd, in := sleeper(t, me.UID)
	g := read[Granted](t, ask(t, b, Request{Client: me, Name: "door"}))
	refused := func(by Client, secret string, of error, pids ...int) {
		t.Helper()
		err := b.Bind(by, g.Claim, secret, pids)
		if !errors.Is(err, of) {
			t.Errorf("%d: %v", pids, err)
		}
		if bad, ok := errors.AsType[*lockagent.OptionError](err); ok && bad.Option != "pids" {
			t.Errorf("%d: it is about %s", pids, bad.Option)
		}
	}
	refused(Client{PID: me.PID, UID: me.UID + 1}, g.Secret, lockagent.ErrBadOption, cmd.Process.Pid) // another user's
	refused(Client{UID: me.UID}, g.Secret, lockagent.ErrBadOption, cmd.Process.Pid)
	refused(me, g.Secret, lockagent.ErrBadOption, make([]int, refusal.MaxWorkers+1)...)
	refused(me, g.Secret, lockagent.ErrBadOption, 0)
	refused(me, "wrong", refusal.ErrNoClaim, cmd.Process.Pid)
	_ = in.Close()
	_, _ = cmd.Process.Wait()
	refused(me, g.Secret, lockagent.ErrBadOption, cmd.Process.Pid)
	s := ask(t, b, Request{Client: me, Name: "desk", Detach: true, ForPID: me.PID})
	g = read[Granted](t, s)
	refused(me, g.Secret, lockagent.ErrBadOption, me.PID)
	over(t, s)
	refused(me, g.Secret, lockagent.ErrBadOption, me.PID)
	if _, err := b.Release(t.Context(), g.Claim, g.Secret, 0); err != nil {
		t.Error(err)
	}
}
