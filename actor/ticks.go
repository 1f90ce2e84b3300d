package actor

import (
	"slices"
	"sync"
	"time"

	"github.com/lockagent/lockagent/internal/lockstate"
)

// ticks tells the locks of one agent when their time has come. There is one timer for all:
// a timer of each lock would cost memory for each, and a goroutine with a new stack
// whenever one fires.
type ticks struct {
	clock *clock

	// mu guards what follows and where every lock is. It is never held while a
	// message is sent, because the actor then runs and sets its next tick.
	mu    sync.Mutex
	due   []tick // a heap: what is at i comes no later than what is below it, from ways*i+1 on
	timer *time.Timer
	fires time.Time         // when the timer does; zero if it is not set
	help  lockstate.Instant // when somebody helps who sends what is due; 0 if nobody does
}

// tick says when a lock has something to do.
type tick struct {
	at   lockstate.Instant
	lock *lock
}

// ways is how many ticks of the heap are below each. With four it is half as high as with
// two, and whatever is moved writes to a lock that has long left the processor's cache.
const ways = 4

// helpAfter is how long a goroutine sends what is due until another one joins it, and how
// long that one does until the next. What takes so long is a callback of the application
// or the store: it keeps the other locks from their ticks no longer.
const helpAfter = 10 * time.Millisecond

// fewTicks take no room that would be worth giving back.
const fewTicks = 64

// set has a lock sent a tick at an instant, in place of the one that was set before.
func (t *ticks) set(l *lock, at lockstate.Instant) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.tickAt == 0 {
		t.due = append(t.due, tick{})
		l.tickAt = len(t.due)
	}
	t.put(l.tickAt-1, tick{at, l})
	t.wind(max(t.due[0].at, t.help))
}

// unset is for a lock that needs no tick any more.
func (t *ticks) unset(l *lock) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.tickAt != 0 {
		t.remove(l.tickAt - 1)
	}
}

// stop is called when all locks have left.
func (t *ticks) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer != nil {
		t.timer.Stop()
	}
}

// fire is called by the timer, also while another goroutine is in it.
func (t *ticks) fire() {
	t.mu.Lock()
	t.fires = time.Time{}
	t.mu.Unlock()
	for l := t.take(); l != nil; l = t.take() {
		send(l.entry, &tickMsg{})
	}
}

// take returns a lock whose time has come, and nil if there is none. The timer is set for
// what is left, as the sender of this tick may never return.
func (t *ticks) take() *lock {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.help = 0
	if len(t.due) == 0 {
		return nil
	}
	now := t.clock.now()
	first := t.due[0]
	if first.at > now {
		t.fires = time.Time{} // nobody's help is needed before
		t.wind(first.at)
		return nil
	}
	t.remove(0)
	t.help = now + lockstate.Instant(helpAfter)
	if len(t.due) > 0 {
		t.wind(max(t.due[0].at, t.help))
	}
	return first.lock
}

// wind sets the timer for an instant, unless it fires before: what it finds to do then is
// nothing. The two are compared on the timer's own clock, which stands still while the
// machine is suspended. It expects mu to be held, as do all below.
func (t *ticks) wind(at lockstate.Instant) {
	now := time.Now()
	after := at.Sub(t.clock.instant(now))
	if !t.fires.IsZero() && t.fires.Sub(now) <= after {
		return
	}
	t.fires = now.Add(after)
	if t.timer == nil {
		t.timer = time.AfterFunc(after, t.fire)
	} else {
		t.timer.Reset(after)
	}
}

// put puts a tick at i, or above or below it, where it belongs.
func (t *ticks) put(i int, x tick) {
	for up := (i - 1) / ways; i > 0 && x.at < t.due[up].at; up = (i - 1) / ways {
		t.move(i, t.due[up])
		i = up
	}
	for {
		first := i
		for below := ways*i + 1; below <= ways*i+ways && below < len(t.due); below++ {
			if t.due[below].at < x.at && (first == i || t.due[below].at < t.due[first].at) {
				first = below
			}
		}
		if first == i {
			break
		}
		t.move(i, t.due[first])
		i = first
	}
	t.move(i, x)
}

func (t *ticks) move(i int, x tick) {
	t.due[i] = x
	x.lock.tickAt = i + 1
}

func (t *ticks) remove(i int) {
	t.due[i].lock.tickAt = 0
	end := len(t.due) - 1
	last := t.due[end]
	t.due[end] = tick{}
	t.due = t.due[:end]
	if i < end {
		t.put(i, last)
	}
	if cap(t.due) > fewTicks && len(t.due) < cap(t.due)/4 { // many locks used once should not cost room for ever
		t.due = slices.Clone(t.due)
	}
}
