package memstore

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/storetest"
)

func TestReserve(t *testing.T) {
	const most = lockagent.MaxToken
	for _, test := range []struct {
		name  string
		last  lockagent.Token
		n     int
		floor lockagent.Token
		at    lockagent.StoreTime
		first lockagent.Token // 0 if there are not enough
	}{
		{name: "first", n: 1, first: 1},
		{name: "by the clock", n: 5, at: 100, first: 100},
		{name: "clock as far as the last", last: 100, n: 5, at: 100, first: 101},
		{name: "clock behind the last", last: 200, n: 5, at: 100, first: 201},
		{name: "clock behind the floor", last: 50, n: 5, floor: 300, at: 100, first: 301},
		{name: "clock before 1970", n: 1, at: -100, first: 1},
		{name: "all there are", n: int(most), first: 1},
		{name: "one more than there are", n: int(most) + 1},
		{name: "more than can be counted", n: math.MaxInt, last: 100},
		{name: "the greatest", last: most - 1, n: 1, first: most},
		{name: "none left", last: most, n: 1},
		{name: "none above the floor", floor: most, n: 1},
		{name: "clock at the end", at: lockagent.StoreTime(most), n: 1, first: most},
		{name: "clock beyond the end", at: lockagent.StoreTime(most) + 2, n: 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := &lock{last: test.last}
			first, err := l.reserve(test.n, test.floor, test.at)
			if first != test.first || errors.Is(err, lockagent.ErrBadOption) != (test.first == 0) {
				t.Errorf("reserve = %d, %v; want %d", first, err, test.first)
			}
			last := test.last
			if test.first != 0 {
				last = test.first + lockagent.Token(test.n) - 1
			}
			if l.last != last {
				t.Errorf("the last token is %d, want %d", l.last, last)
			}
		})
	}
}

func TestPlantedThingsTakeThePlaceOfOthers(t *testing.T) {
	store := New()
	over := func(what string) {
		t.Helper()
		reply, err := storetest.Renew(t, store, lockagent.RenewRequest{Name: "orders/42", Tenure: tenure(1), Lease: time.Minute})
		if err != nil || reply.Held {
			t.Errorf("Renew of a tenure instead of which there is %s = %+v, %v", what, reply, err)
		}
	}
	acquire(t, store, "orders/42", tenure(1), time.Minute)
	store.PlantValue("orders/42")
	if _, err := storetest.Inspect(t, store, "orders/42"); !errors.Is(err, lockagent.ErrWrongType) {
		t.Errorf("Inspect: %v; want ErrWrongType", err)
	}
	over("a value")
	store.PlantHolder("orders/42", "somebody", 3, 0)
	want := lockagent.Inspection{Held: true, Holder: "somebody", HoldCount: 3, Remaining: -1}
	if seen, err := storetest.Inspect(t, store, "orders/42"); err != nil || seen != want {
		t.Errorf("Inspect = %+v, %v; want %+v", seen, err, want)
	}
	over("another holder")
}
