package memstore

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

func TestTenuresBeginAtTimesOfTheirOwn(t *testing.T) {
	const most = lockagent.StoreTime(lockagent.MaxToken)
	start := time.UnixMicro(1_000_000)
	for _, test := range []struct {
		name   string
		guard  lockagent.StoreTime
		floor  lockagent.Token
		at     lockagent.StoreTime // 0 if there is no token left
		behind lockagent.StoreTime // how far the clock is, of what it gave
	}{
		{name: "by the clock", at: 1_000_000},
		{name: "in the same microsecond", guard: 1_000_000, at: 1_000_001, behind: 1},
		{name: "many in one", guard: 1_000_099, at: 1_000_100, behind: 100},
		{name: "too many in one", guard: 1_000_100, at: 1_000_101},
		{name: "floor below", floor: 999_998, at: 1_000_000},
		{name: "floor above", floor: 5_000_000, at: 5_000_001},
		{name: "the greatest", floor: lockagent.MaxToken - 1, at: most},
		{name: "none left", guard: most},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := &clock{started: start, guard: test.guard}
			at := c.begin(start, test.floor)
			if at != test.at {
				t.Fatalf("begin = %d, want %d", at, test.at)
			}
			if at == 0 {
				return
			}
			if behind := at - c.counted(start); behind != test.behind {
				t.Errorf("%d behind, want %d", behind, test.behind)
			}
			if now := c.at(start); now != at {
				t.Errorf("the clock shows %d, want %d", now, at)
			}
			if later := c.at(start.Add(time.Second)); later != at-test.behind+1_000_000 {
				t.Errorf("a second later the clock shows %d", later)
			}
		})
	}
}

func TestTokensGoOnAboveTheLast(t *testing.T) {
	g := newGuests(t, 1)[0]
	first := g.acquire(orders, 1)
	last := first.Token + 3_600_000_000
	released := g.end(lockagent.ReleaseRequest{Name: orders, Tenure: g.tenure(1), Last: last})
	second := g.acquire("another", 1)
	if released.At < lockagent.StoreTime(last) || second.Token <= last || second.At < released.At {
		t.Errorf("acquired %+v, released %+v with token %d, acquired %+v", first, released, last, second)
	}
}
