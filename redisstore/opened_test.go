package redisstore

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
)

// A latch that was opened within the last minute is known, however many others are opened. Older ones are
// forgotten in the end.
func TestManyLatchesAreOpened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o opened
		const latches = 3 * fewOpened
		name := func(round, i int) lockagent.Name {
			return lockagent.Name(strconv.Itoa(round) + "/" + strconv.Itoa(i))
		}
		for round := range 10 {
			for i := range latches {
				o.heard(name(round, i), "0")
			}
			for i := range latches {
				if !o.since(name(round, i), time.Now().Add(time.Second)) {
					t.Fatalf("round %d: latch %d is not known", round, i)
				}
			}
			if len(o.times) > 3*latches {
				t.Fatalf("round %d: %d latches are in memory", round, len(o.times))
			}
			time.Sleep(openedKept)
			if o.since(name(round, 0), time.Now()) {
				t.Fatalf("round %d: a latch counts as open after a minute", round)
			}
		}
		asked := time.Now()
		time.Sleep(time.Nanosecond)
		o.heard("a", "0")
		o.heard("a", "1")
		if !o.since("a", asked) {
			t.Error("a latch was open after the question, and does not count")
		}
		if time.Sleep(time.Nanosecond); o.since("a", time.Now()) {
			t.Error("a latch that was set again counts as open")
		}
		o.heard("a", "00")
		if o.since("a", time.Now()) {
			t.Error("a latch that was set again counts as open, for a message that came late by the other way")
		}
	})
}
