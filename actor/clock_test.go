package actor

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent/internal/bootclock"
	"github.com/lockagent/lockagent/internal/lockstate"
)

// computer is one whose clocks the test moves. It counts how often it is
// asked for how long it was suspended.
type computer struct {
	mono, wall, suspended time.Duration
	asked                 int
	clock                 *clock
}

func newComputer() *computer {
	m := &computer{suspended: time.Hour} // before the agent started
	m.clock = &clock{before: m.suspended, suspended: func() time.Duration {
		m.asked++
		return m.suspended
	}}
	return m
}

func (m *computer) run(d time.Duration)     { m.mono += d; m.wall += d }
func (m *computer) suspend(d time.Duration) { m.wall += d; m.suspended += d }
func (m *computer) setWall(d time.Duration) { m.wall += d }

// reads checks what the clock shows, several times, and how often the system was
// asked since the last check.
func (m *computer) reads(t *testing.T, what string, want time.Duration, asked int) {
	t.Helper()
	for range 3 {
		if got := m.clock.at(m.mono, m.wall); got != lockstate.Instant(want) {
			t.Errorf("%s: %v, want %v", what, time.Duration(got), want)
		}
	}
	if m.asked != asked {
		t.Errorf("%s: the system was asked %d times, want %d", what, m.asked, asked)
	}
	m.asked = 0
}

func TestClock(t *testing.T) {
	m := newComputer()
	m.reads(t, "start", 0, 0)
	for range 1000 {
		m.run(time.Second)
		m.clock.at(m.mono, m.wall)
	}
	m.reads(t, "after 1000s", 1000*time.Second, 0)
	m.suspend(time.Minute)
	m.reads(t, "suspended for 1m", 1060*time.Second, 1)
	m.run(time.Second)
	m.reads(t, "one second later", 1061*time.Second, 0)
	m.setWall(time.Hour)
	m.reads(t, "set forwards by 1h", 1061*time.Second, 1)
	m.setWall(-2 * time.Hour)
	m.reads(t, "set back by 2h", 1061*time.Second, 1)
	m.run(9 * time.Second)
	m.reads(t, "nine seconds later", 1070*time.Second, 0)
	m.suspend(20 * time.Second)
	m.setWall(-time.Hour)
	m.reads(t, "suspended for 20s and set back by 1h", 1090*time.Second, 1)
	m.setWall(20 * time.Millisecond)
	m.reads(t, "a correction by ntp", 1090*time.Second, 0)
	m.setWall(20 * time.Millisecond)
	m.reads(t, "another", 1090*time.Second, 0)
	m.setWall(20 * time.Millisecond)
	m.reads(t, "and one that makes it too much", 1090*time.Second, 1)
}

// Short suspensions go unseen one by one, but not when they add up.
func TestClockAddsShortSuspensionsUp(t *testing.T) {
	m := newComputer()
	for range 100 {
		m.suspend(30 * time.Millisecond)
		m.run(time.Millisecond)
		m.clock.at(m.mono, m.wall)
	}
	missing := m.mono + 100*30*time.Millisecond - time.Duration(m.clock.at(m.mono, m.wall))
	if missing < 0 || missing > driftMost {
		t.Errorf("%v are missing", missing)
	}
}

func TestClockOfThisMachine(t *testing.T) {
	if before := bootclock.Suspended(); before < -time.Second {
		t.Errorf("suspended for %v", before)
	}
	c := newClock()
	last := c.now()
	for range 10_000 {
		now := c.now()
		if now < last {
			t.Fatalf("%v after %v", time.Duration(now), time.Duration(last))
		}
		last = now
	}
	if slept := time.Duration(c.slept.Load()); slept != 0 {
		t.Logf("suspended for %v during the test", slept)
	}
}

func BenchmarkClock(b *testing.B) {
	b.ReportAllocs()
	c := newClock()
	for b.Loop() {
		c.now()
	}
}
