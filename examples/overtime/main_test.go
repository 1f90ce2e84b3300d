package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/examples/internal/testlog"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, natstest.LeftBehind()) }

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		alerts := make(chan string, 10)
		w := newWatch(10*time.Second, func(text string) { alerts <- text })
		seq := uint64(0)
		sayOf := func(
			agent lockagent.AgentID, kind lockagent.EventKind, lock lockagent.Name, token lockagent.Token, held time.Duration,
		) {
			seq++
			w.apply(events.Record{Epoch: 1, Seq: seq, Event: lockagent.Event{
				Kind: kind, Agent: agent, Time: time.Now(), Lock: lock, Owner: "joe", Tenure: 1, Token: token, Held: held,
			}})
		}
		say := func(kind lockagent.EventKind, lock lockagent.Name, token lockagent.Token, held time.Duration) {
			sayOf("a", kind, lock, token, held)
		}
		expect := func(want ...string) {
			t.Helper()
			synctest.Wait()
			var got []string
			for len(alerts) > 0 {
				got = append(got, <-alerts)
			}
			if !slices.EqualFunc(got, want, strings.HasPrefix) {
				t.Fatalf("alerts are %q, want %q", got, want)
			}
		}
		say(lockagent.EventGranted, "slow", 1, 0)
		say(lockagent.EventGranted, "quick", 2, 0)
		time.Sleep(9 * time.Second)
		say(lockagent.EventReleased, "quick", 2, 9*time.Second)
		expect()
		time.Sleep(3 * time.Second)
		expect("slow is held for more than 10s: \"joe\", token 1, agent a, from ")
		time.Sleep(time.Minute)
		expect() // once is enough
		say(lockagent.EventLost, "slow", 1, 72*time.Second)
		expect("slow: the hold is ended: \"joe\", token 1, agent a, from ")

		// The first holder crashes, so the log never has its end.
		say(lockagent.EventGranted, "crash", 3, 0)
		time.Sleep(12 * time.Second)
		expect("crash is held for more than 10s: ")
		sayOf("b", lockagent.EventGranted, "crash", 4, 0)
		time.Sleep(2 * time.Second)
		expect("crash: the hold is superseded: ")
		sayOf("b", lockagent.EventReleased, "crash", 4, 2*time.Second)
		time.Sleep(time.Minute)
		expect()

		// What was over long ago comes late, with its end.
		seq++
		w.apply(events.Record{Epoch: 1, Seq: seq, Event: lockagent.Event{
			Kind: lockagent.EventGranted, Agent: "a", Time: time.Now().Add(-time.Hour), Lock: "late", Tenure: 1, Token: 5,
		}})
		synctest.Wait()
		say(lockagent.EventReleased, "late", 5, time.Second)
		time.Sleep(time.Minute)
		expect()
		if len(w.timers) != 0 {
			t.Errorf("it remembers %v", w.timers)
		}
	})
}

// What went on before the program began counts as well.
func TestOvertime(t *testing.T) {
	log := testlog.New(natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"}).URL())
	agent := log.Agent(t)
	early := agent.Hold("early")

	ctx, stop := context.WithCancel(t.Context())
	alerts, ended := make(chan string), make(chan error, 1)
	go func() {
		ended <- run(ctx, log.URL, time.Millisecond, func(text string) {
			select {
			case alerts <- text:
			case <-ctx.Done():
			}
		})
	}()
	next := func(want string) {
		t.Helper()
		if got := <-alerts; !strings.HasPrefix(got, want) {
			t.Errorf("it says %q, want %q", got, want)
		}
	}
	next("early is held ")
	late := agent.Hold("late")
	next("late is held ")
	agent.Release(early)
	next("early: the hold is ended: ")
	agent.Release(late)
	next("late: the hold is ended: ")
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
}
