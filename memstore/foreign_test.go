package memstore

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Another program may release a lock without a word. Who waits asks less and less often, as long as nothing changes.
func TestHowOftenWaitersAskAnotherProgram(t *testing.T) {
	const ms = time.Millisecond
	for title, c := range map[string]struct {
		again []time.Duration // when the other program acquires or renews
		want  []time.Duration // within what times the waiter asks again, each time as late as it may
	}{
		"a hold that lasts":         {nil, []time.Duration{100 * ms, 100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms, 3200 * ms}},
		"a hold that is renewed":    {[]time.Duration{500 * ms}, []time.Duration{100 * ms, 100 * ms, 200 * ms, 400 * ms, 100 * ms, 100 * ms, 200 * ms}},
		"holds that follow another": {[]time.Duration{50 * ms, 110 * ms, 130 * ms}, []time.Duration{100 * ms, 25 * ms, 6250 * time.Microsecond, 5 * ms, 5 * ms, 10 * ms, 20 * ms}},
	} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGuests(t, 1)[0]
				began := time.Now()
				acquires := func() { g.store.PlantHolder(orders, "somebody", 1, time.Minute) }
				acquires()
				var got []time.Duration
				for range c.want {
					for len(c.again) > 0 && time.Since(began) >= c.again[0] {
						c.again = c.again[1:]
						acquires()
					}
					within := g.queue(1).AskWithin
					got = append(got, within)
					time.Sleep(within)
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("asked within %v, want %v", got, c.want)
				}
			})
		})
	}
}
