package queue

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
	q, i := New(1000, time.Second), 0
	cycle := func() {
		i++
		grant := lockagent.Event{Kind: lockagent.EventGranted, Lock: "orders", Request: uint64(i), Who: whos[i%len(whos)]}
		q.Add(0, &grant)
		q.Add(0, &lockagent.Event{Kind: lockagent.EventReleased, Lock: "orders", Request: uint64(i), Who: whos[i%len(whos)]})
		q.Gone(q.Take(time.Hour, 1, nil))
	}
	cycle()
	if n := testing.AllocsPerRun(100, cycle); n > 1 { // the slice that take returns
		t.Errorf("%v allocations for a hold", n)
	}
}
