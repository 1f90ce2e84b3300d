package redisstore

import (
	"strconv"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/storetest"
)

// readAt is a reading some time after the first instant, when a call took so long.
func readAt(sent, took, clock time.Duration) reading {
	began := time.Unix(1_700_000_000, 0)
	return reading{lockagent.StoreTime(1_000_000).Add(clock), began.Add(sent), began.Add(sent + took)}
}

func TestStepsOfAClock(t *testing.T) {
	const ms, s = time.Millisecond, time.Second
	for _, test := range []struct {
		name    string
		next    reading // after one at 0, that took 10 ms
		stepped bool
	}{
		{"at its own pace", readAt(10*s, 10*ms, 10*s), false},
		{"as far as it may be ahead", readAt(10*s, 10*ms, 10*s+10*ms+110*ms), false},
		{"set forward", readAt(10*s, 10*ms, 10*s+10*ms+111*ms), true},
		{"as far as it may be behind", readAt(10*s, 10*ms, 10*s-10*ms-110*ms), false},
		{"set back", readAt(10*s, 10*ms, 10*s-10*ms-111*ms), true},
		{"an answer that was long under way", readAt(10*s, 5*s, 15*s), false},
		{"a slow clock in an hour", readAt(time.Hour, 0, time.Hour-3*s), false},
		{"it stands", readAt(time.Second, 0, 0), true},
		{"set by an hour at once", readAt(0, 10*ms, time.Hour), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := readAt(0, 10*ms, 0).stepped(test.next); got != test.stepped {
				t.Errorf("stepped = %v", got)
			}
		})
	}
}

// A machine that was suspended, or whose wall clock was set, does not take the clock of the server
// for one that was set.
func TestStepsOfTheMachine(t *testing.T) {
	const second, hour = time.Second, time.Hour
	for name, test := range map[string]struct {
		moved, monotonic, wall time.Duration
		stepped                bool
		step                   time.Duration
	}{
		"nothing":                       {second, second, second, false, 0},
		"suspended":                     {hour, second, hour, false, 0},
		"the wall clock was set":        {second, second, hour, false, 0},
		"the server's clock was set":    {hour, second, second, true, hour - second},
		"the server's clock was halted": {second, hour, hour, true, second - hour},
		"suspended, and the server set": {2 * hour, second, hour, true, hour},
		"noticed after an hour":         {hour + 5*second, hour, hour, true, 5 * second},
	} {
		monotonic, wall := passed{test.monotonic, test.monotonic}, passed{test.wall, test.wall}
		if got := stepped(test.moved, monotonic, wall); got != test.stepped {
			t.Errorf("%s: stepped = %v", name, got)
		}
		if got := stepSize(test.moved, monotonic, wall); got != test.step {
			t.Errorf("%s: a step of %v, want %v", name, got, test.step)
		}
	}
}

// Many slots have the clock of one server. A step that one of them shows is not told again by the
// others, and the next step is.
func TestAStepIsNoticedOnce(t *testing.T) {
	var c clocks
	for i, want := range []struct {
		slot    uint16
		now     reading
		stepped bool
	}{
		{1, readAt(0, 0, 0), false},
		{2, readAt(1*time.Second, 0, 1*time.Second), false},
		{1, readAt(2*time.Second, 0, time.Hour), true},
		{2, readAt(3*time.Second, 0, time.Hour+time.Second), false},
		{1, readAt(4*time.Second, 0, time.Hour+2*time.Second), false},
		{2, readAt(5*time.Second, 0, 2*time.Hour), true},
	} {
		if _, stepped := c.read(want.slot, want.now); stepped != want.stepped {
			t.Errorf("reading %d: stepped %v", i, stepped)
		}
	}
}

// What moves the clock of a real server is the key that says how far the clock is ahead of it.
func TestAStepIsTold(t *testing.T) {
	server := redistest.Start(t)
	s := openURL(t, server.URL())
	told := make(chan lockagent.Reset, 10)
	s.OnReset(func(r lockagent.Reset) { told <- r })
	granted, err := storetest.Acquire(t, s, lockagent.AcquireRequest{
		Name: "orders", Tenure: tenure(1), Lease: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	renew := func() lockagent.RenewReply {
		reply, err := storetest.Renew(t, s, lockagent.RenewRequest{
			Name: "orders", Tenure: tenure(1), Lease: time.Minute, Urgent: true,
		})
		if err != nil || !reply.Held {
			t.Fatalf("renewed %+v, %v", reply, err)
		}
		return reply
	}
	before := renew()
	set := time.Now()
	server.Do("SET", "lockagent_ahead", strconv.FormatInt(time.Hour.Microseconds(), 10))
	after := renew()
	if since := s.RemembersSince(); since.Before(set) {
		t.Errorf("remembers since %v, and the clock was set after %v", since, set)
	}
	want := lockagent.Reset{
		From: granted.Incarnation, To: granted.Incarnation, Reason: "clock stepped", After: before.At, Before: after.At,
	}
	got := within(t, told)
	if lag := got.Step - time.Hour; lag.Abs() > time.Minute { // by how far apart the machine took the answers
		t.Errorf("told a step of %v", got.Step)
	}
	if got.Step = 0; got != want {
		t.Errorf("told %+v, want %+v", got, want)
	}
	renew()
	if len(told) > 0 {
		t.Errorf("told %+v as well", <-told)
	}
	since := s.RemembersSince()
	s.incarnations.report(lockagent.Reset{From: granted.Incarnation, To: granted.Incarnation, Step: -time.Hour})
	if within(t, told); !s.RemembersSince().Equal(since) {
		t.Errorf(
			"a step back ends no lease early, but it remembers since %v, and not since %v", s.RemembersSince(), since,
		)
	}
}

// The reply to a change of permits that is made again is as old as the change. So it does not show that the clock was
// set back.
func TestAChangeMadeAgainShowsNoStep(t *testing.T) {
	s := openURL(t, redistest.Start(t).URL())
	told := make(chan lockagent.Reset, 10)
	s.OnReset(func(r lockagent.Reset) { told <- r })
	granted, err := storetest.Acquire(t, s, lockagent.AcquireRequest{
		Name: "orders", Tenure: tenure(1), Lease: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	add := lockagent.PermitsRequest{
		Name: "seats", Kind: lockagent.Semaphore, Op: lockagent.AddPermits, N: 3, Change: string(lockagent.NewAgentID()),
	}
	first, err := storetest.Permits(t, s, add)
	if err != nil {
		t.Fatal(err)
	}
	s.clocks.change(s.slot("orders"), func(of *clock) { // as if the change was made an hour ago
		of.last.sent, of.last.received = of.last.sent.Add(-time.Hour), of.last.received.Add(-time.Hour)
	})
	if again, err := storetest.Permits(t, s, add); err != nil || again != first {
		t.Errorf("%+v, %v; want %+v", again, err, first)
	}
	next := lockagent.Reset{From: granted.Incarnation, To: granted.Incarnation, Reason: "the next"}
	s.incarnations.report(next)
	if got := within(t, told); got != next {
		t.Errorf("told %+v", got)
	}
}
