package memstore

import (
	"testing"
	"testing/synctest"
	"time"
)

// Another program may release a lock without a word. The first waiter asks every second.
func TestTheFirstWaiterAsksAnotherProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guests := newGuests(t, 2)
		guests[0].store.PlantHolder(orders, "somebody", 1, time.Minute)
		for i, want := range []time.Duration{time.Second, 0} {
			for range 2 {
				if within := guests[i].queue(1).AskWithin; within != want {
					t.Errorf("waiter %d is to ask within %v, want %v", i, within, want)
				}
			}
		}
	})
}
