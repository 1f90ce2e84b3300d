package events

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// Facts of many processes are queued without memory for each.
func TestWhoNeedsNoMemory(t *testing.T) {
	var whos []lockagent.Who
	for pid := range 4 {
		whos = append(whos, lockagent.Process{Host: "db3", PID: pid + 1}.Who())
	}
	q, i := newQueue(1000, time.Second), 0
	cycle := func() {
		i++
		grant := lockagent.Event{Kind: lockagent.EventGranted, Lock: "orders", Request: uint64(i), Who: whos[i%len(whos)]}
		q.add(0, &grant)
		q.add(0, &lockagent.Event{Kind: lockagent.EventReleased, Lock: "orders", Request: uint64(i), Who: whos[i%len(whos)]})
		q.gone(q.take(time.Hour, 1, nil))
	}
	cycle()
	if n := testing.AllocsPerRun(100, cycle); n > 1 { // the slice that take returns
		t.Errorf("%v allocations for a hold", n)
	}
}
