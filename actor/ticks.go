package actor

import (
	"slices"
	"sync"
	"time"

	"github.com/lockagent/lockagent/internal/lockstate"
)

// ticks sends their ticks to the locks of one agent. One timer serves them all. A timer for each
// lock would cost memory for each, and a goroutine with a new stack whenever one fires.
type ticks struct {
	clock *clock

	// mu guards what follows, and lock.tickAt. It is never held while a message is sent:
	// then the actor runs and sets its next tick.
	mu    sync.Mutex
	due   []tick // a heap: due[i] comes no later than due[ways*i+1] to due[ways*i+ways]
	timer *time.Timer
	fires time.Time         // when the timer fires; zero if it is not set
	help  lockstate.Instant // when another goroutine joins the one that sends ticks; 0 if none sends
}

// tick says when a lock has something to do.
type tick struct {
	at   lockstate.Instant
	lock *lock
}

// ways is how many ticks of the heap are directly below each. With four the heap is half as
// high as with two, so fewer ticks move. Each move writes to a lock that has long left the
// processor's cache.
const ways = 4

// helpAfter is how long the sender of one tick may take. Then another goroutine joins it and
// sends the next ticks. Only a callback of the application, or the store, takes so long.
const helpAfter = 10 * time.Millisecond

// fewTicks is a number of ticks whose memory is not worth giving back.
const fewTicks = 64

// set sets the tick of a lock, in place of the present one, if any.
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

// unset removes the tick of a lock, if any.
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

// fire sends the ticks that are due. The timer calls it, also while another goroutine is in it.
func (t *ticks) fire() {
	t.mu.Lock()
	t.fires = time.Time{}
	t.mu.Unlock()
	for l := t.take(); l != nil; l = t.take() {
		send(l.entry, &tickMsg{})
	}
}

// take returns a lock whose tick is due, or nil. It sets the timer for the ticks that are left,
// because the sender of this one may never return.
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
		t.fires = time.Time{} // the timer was set for help, which is not needed
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

// wind sets the timer for an instant, unless it fires before that anyway. It compares the two on
// the timer's own clock, which stands still while the machine is suspended. mu must be held,
// as for all methods below.
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

// put puts a tick where it belongs: at i, above it or below it.
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
	if cap(t.due) > fewTicks && len(t.due) < cap(t.due)/4 { // after a burst of locks, give the memory back
		t.due = slices.Clone(t.due)
	}
}
