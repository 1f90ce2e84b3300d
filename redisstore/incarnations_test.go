package redisstore

import (
	"context"
	"errors"
	"reflect"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/redisstore/internal/script"
	"github.com/lockagent/lockagent/storetest"
)

func TestReasonsOfResets(t *testing.T) {
	for _, c := range []struct {
		from, to string
		server   string // that has the second one
		reason   string
	}{
		{"1.a", "2.a", "a", "emptied"},
		{"1.a", "2.b", "a", "emptied"},
		{"1.a", "11.a", "a", "emptied"},
		{"1.a", "1.b", "a", "restarted"},
		{"1.a", "1.b", "", "restarted"},
		{"1.a", "1.b", "b", "failed over"},
		{"1.a", "2.b", "b", "emptied"},
	} {
		i := newIncarnations()
		of := i.shard(0, false)
		i.observe(of, c.from, "a", 10, 0)
		i.observe(of, c.from, "", 20, 0)
		i.observe(of, c.to, c.server, 30, 0)
		want := []news{{reset: &lockagent.Reset{From: c.from, To: c.to, Reason: c.reason, After: 20, Before: 30}}}
		if !reflect.DeepEqual(i.untold, want) {
			t.Errorf("from %q to %q: %+v, want %+v", c.from, c.to, i.untold, want)
		}
	}
}

// The replies of calls that were under way when the incarnation changed tell of
// the past. They are not another change.
func TestRepliesOfThePastAreNoReset(t *testing.T) {
	i := newIncarnations()
	of := i.shard(0, false)
	i.observe(of, "1.a", "", 10, 0)
	_, late := i.known(of)
	i.observe(of, "2.a", "", 30, late)
	i.observe(of, "1.a", "", 20, late)
	i.observe(of, "2.a", "", 40, late)
	if len(i.untold) != 1 {
		t.Errorf("%d resets, want one: %+v", len(i.untold), i.untold)
	}
	// But what was asked for later may well be the old one again.
	_, now := i.known(of)
	i.observe(of, "1.a", "", 50, now)
	if len(i.untold) != 2 || i.untold[1].reset.From != "2.a" || i.untold[1].reset.After != 40 {
		t.Errorf("resets %+v, want another one back", i.untold)
	}
}

// A node had one home after the other. The next one goes on with the incarnation of the latest.
func TestTheLatestHomeOfAServer(t *testing.T) {
	i := newIncarnations()
	for n := range 20 { // a map has no order
		of := i.shard(uint16(n), true)
		i.observe(of, "1.a@"+string(of.home), "server", lockagent.StoreTime(n), 0)
	}
	next, latest := i.shard(20, true), i.shard(19, true)
	if name := i.at("server", next); name != "1.a@"+string(latest.home) {
		t.Errorf("it goes on with %q, want the one at %q", name, latest.home)
	}
}

// A call that is refused although the time of the grace period is over asks for a look, which ends the period.
func TestARefusalWhenAGracePeriodIsOver(t *testing.T) {
	for left, doubts := range map[time.Duration]int{time.Millisecond: 1, time.Second: 0} {
		i := newIncarnations()
		of := i.shard(0, true)
		name := "1.a.1@" + string(of.home)
		i.seen(of, &script.Looked{Name: name, Left: time.Second}, "a", 0)
		i.refused(of, &script.GraceError{Incarnation: name, Left: left}, 0)
		if len(i.doubt) != doubts {
			t.Errorf("%v are left, and %d looks are due", left, len(i.doubt))
		}
	}
}

// A server may forget once more in a grace period. That period has ended then, and the next one begins.
func TestAResetInAGracePeriod(t *testing.T) {
	i := newIncarnations()
	of := i.shard(0, false)
	i.seen(of, &script.Looked{Name: "1.a.1", Left: -1}, "a", 0)
	for n, name := range []string{"2.a.2", "3.a.3"} {
		i.seen(of, &script.Looked{Name: name, Left: time.Second}, "a", uint64(n))
	}
	var got []string
	for _, n := range i.untold {
		switch {
		case n.reset != nil:
			got = append(got, "reset to "+n.reset.To)
		case n.grace.Ended != 0:
			got = append(got, "end of "+n.grace.Incarnation)
		default:
			got = append(got, "grace of "+n.grace.Incarnation)
		}
	}
	want := []string{"reset to 2.a.2", "grace of 2.a.2", "end of 2.a.2", "reset to 3.a.3", "grace of 3.a.3"}
	if !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
}

func TestWhenTheServerIsLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		i := newIncarnations()
		began := time.Now()
		var looks []time.Duration
		var fails atomic.Bool
		go i.run(ctx, func(context.Context) error {
			looks = append(looks, time.Since(began))
			if fails.Load() {
				return errors.New("no server")
			}
			return nil
		})
		expect := func(want ...time.Duration) {
			t.Helper()
			synctest.Wait()
			if !reflect.DeepEqual(looks, want) {
				t.Fatalf("looked after %v, want %v", looks, want)
			}
			looks, began = nil, time.Now()
		}
		time.Sleep(time.Hour)
		expect() // nothing is wrong

		i.suspect()
		i.suspect()
		synctest.Wait()
		i.suspect()
		i.suspect()
		time.Sleep(time.Hour)
		expect(0, firstPause)

		fails.Store(true)
		i.suspect()
		time.Sleep(4 * time.Second)
		fails.Store(false)
		time.Sleep(time.Hour)
		const ms = time.Millisecond
		expect(0, 100*ms, 300*ms, 700*ms, 1500*ms, 2500*ms, 3500*ms, 4500*ms)
	})
}

func TestResetsAreToldInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		i := newIncarnations()
		of := i.shard(0, false)
		i.observe(of, "1.a", "", 1, 0)
		var told []string
		cancelHook := i.on(&hook{reset: func(r lockagent.Reset) {
			told = append(told, r.To)
			time.Sleep(time.Second) // though it must not
		}})
		go i.run(ctx, func(context.Context) error { return nil })
		for n, name := range []string{"2.a", "3.a", "4.a"} {
			i.observe(of, name, "", lockagent.StoreTime(n+2), uint64(n))
		}
		time.Sleep(time.Minute)
		cancelHook()
		cancelHook()
		i.observe(of, "5.a", "", 6, 3)
		time.Sleep(time.Minute)
		synctest.Wait()
		if want := []string{"2.a", "3.a", "4.a"}; !reflect.DeepEqual(told, want) {
			t.Errorf("told of %q, want %q", told, want)
		}
	})
}

// What is seen while it is doubted that the server is still the same proves nothing
// about when it was.
func TestWhatIsSeenInDoubt(t *testing.T) {
	for assured, want := range map[bool]lockagent.StoreTime{false: 10, true: 50} {
		i := newIncarnations()
		of := i.shard(0, false)
		i.observe(of, "1.a", "", 10, 0)
		i.suspect()
		if assured {
			<-i.doubt
			i.assured()
		}
		_, now := i.known(of)
		i.observe(of, "1.a", "", 50, now)
		i.observe(of, "1.b", "", 60, now)
		if r := i.untold[0].reset; r.After != want || r.Before != 60 {
			t.Errorf("assured %t: the reset was between %d and %d, want %d and 60", assured, r.After, r.Before, want)
		}
	}
}

// A holder that calls nobody, and whose connections stay, hears that the server was emptied as soon
// as any agent acquires any lock.
func TestAnIdleHolderHearsOfAnEmptiedServer(t *testing.T) {
	server := redistest.Start(t)
	holder, other := openURL(t, server.URL()), openURL(t, server.URL())
	storetest.Listen(t, holder, agent)
	told := make(chan lockagent.Reset, 10)
	holder.OnReset(func(r lockagent.Reset) { told <- r })
	acquire := func(s *Store, name lockagent.Name) lockagent.AcquireReply {
		reply, err := storetest.Acquire(t, s, lockagent.AcquireRequest{
			Name: name, Tenure: tenure(1), Lease: time.Minute,
		})
		if err != nil || !reply.Granted {
			t.Fatalf("acquired %+v, %v", reply, err)
		}
		return reply
	}
	before := acquire(holder, "orders")
	holder.incarnations.awaitAssured()
	server.Do("FLUSHALL")
	after := acquire(other, "invoices")
	if r := within(t, told); r.From != before.Incarnation || r.To != after.Incarnation || r.Reason != "emptied" {
		t.Errorf("told %+v, want that %q became %q", r, before.Incarnation, after.Incarnation)
	}
}

// awaitAssured waits for the look at a server to which the store has just connected.
func (i *incarnations) awaitAssured() {
	for inDoubt := true; inDoubt; runtime.Gosched() {
		i.mu.Lock()
		inDoubt = i.inDoubt
		i.mu.Unlock()
	}
}

// The clock of an emptied server may be behind, so that the reply which names the new incarnation also shows a step
// back. A step back ends no lease early. But the store knows at once that the server has forgotten the leases.
func TestAnEmptiedServerWhoseClockIsBehind(t *testing.T) {
	server := redistest.Start(t)
	s := openURL(t, server.URL())
	told := make(chan lockagent.Reset, 10)
	s.OnReset(func(r lockagent.Reset) { told <- r })
	req := lockagent.AcquireRequest{Name: "orders", Tenure: tenure(1), Lease: time.Minute}
	first, err := storetest.Acquire(t, s, req)
	if err != nil {
		t.Fatal(err)
	}
	s.incarnations.awaitAssured()
	s.clocks.change(0, func(of *clock) { // as if an hour had passed, and the clock of the server had stood
		of.last.sent, of.last.received = of.last.sent.Add(-time.Hour), of.last.received.Add(-time.Hour)
	})
	emptied := time.Now()
	server.Do("FLUSHALL")
	answered := make(chan lockagent.AcquireReply, 1)
	var since time.Time
	s.Acquire(t.Context(), req, func(reply lockagent.AcquireReply, err error) {
		since = s.RemembersSince()
		answered <- reply
	})
	second := within(t, answered)
	if since.Before(emptied) || second.Incarnation == first.Incarnation {
		t.Errorf(
			"%+v after %+v: at the answer it remembers since %v, and it was emptied after %v", second, first, since,
			emptied,
		)
	}
	if r := within(t, told); r.Reason != "emptied" || r.From != first.Incarnation || r.To != second.Incarnation {
		t.Errorf("told %+v, want that %q became %q", r, first.Incarnation, second.Incarnation)
	}
	if r := within(t, told); r.Reason != "clock stepped" || r.Step >= 0 || r.From != r.To {
		t.Errorf("told %+v, want a step back", r)
	}
}

// within receives what comes.
func within[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	return waittest.Receive(t, "what the test waits for", c)
}

// A store that is opened after the server may have forgotten something knows of that.
func TestWhatWasForgottenBeforeAStoreWasOpened(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config []string
		forget func(*redistest.Server)
		kept   bool
	}{
		"nothing":         {forget: func(*redistest.Server) {}, kept: true},
		"emptied":         {forget: func(s *redistest.Server) { s.Do("FLUSHALL") }},
		"restarted empty": {forget: (*redistest.Server).Restart},
		"restarted with its data": {
			forget: (*redistest.Server).Restart, config: []string{"appendonly yes", "appendfsync always"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t, redistest.WithConfig(c.config...))
			opened := time.Now()
			if since := openURL(t, server.URL()).RemembersSince(); since.Before(opened) {
				t.Errorf("a new server remembers since %v; it was opened after %v", since, opened)
			}
			server.Age(time.Hour)
			forgot := time.Now()
			c.forget(server)
			for range 2 { // the first one leaves a trace at the server
				if since := openURL(t, server.URL()).RemembersSince(); since.Before(forgot) != c.kept {
					t.Errorf("remembers since %v; it forgot at %v", since, forgot)
				}
			}
		})
	}
	t.Run("failed over", func(t *testing.T) {
		sentinel := redistest.StartSentinel(t)
		openURL(t, sentinel.URL())
		sentinel.A.Age(time.Hour)
		sentinel.A.AwaitReplica()
		forgot := time.Now()
		sentinel.Failover()
		if since := openURL(t, sentinel.URL()).RemembersSince(); since.Before(forgot) {
			t.Errorf("remembers since %v; it failed over after %v", since, forgot)
		}
	})
}
