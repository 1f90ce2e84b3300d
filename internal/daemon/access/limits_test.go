package access

import (
	"errors"
	"testing"
	"time"

	"github.com/lockagent/lockagent/internal/daemon/quota"
	"github.com/lockagent/lockagent/internal/daemon/refusal"
)

// The table of limits, as they are set and as they are without.
func TestBounds(t *testing.T) {
	half := func(n int) quota.Bound { return quota.Bound{Each: n, All: 2 * n, Reserve: 16} }
	set := Limits{Claims: 1, Waiters: 2, Streams: 3, Watches: 4, Connections: 5, Numbers: 6}
	for kind, want := range map[quota.Kind]struct{ set, unset quota.Bound }{
		quota.Claims:             {quota.Bound{Each: 1}, quota.Bound{}},
		quota.Waiters:            {quota.Bound{Each: 2}, quota.Bound{}},
		quota.Streams:            {quota.Bound{Each: 3}, quota.Bound{}},
		quota.Watches:            {quota.Bound{Each: 4}, quota.Bound{}},
		quota.Requests:           {quota.Bound{Each: 3 + 1024}, quota.Bound{}},
		quota.Connections:        {quota.Bound{Each: 5, All: 128, Reserve: 16}, quota.Bound{Reserve: 16}},
		quota.Processes:          {quota.Bound{Each: 4, All: 7}, quota.Bound{}},
		quota.Numbers:            {quota.Bound{All: 6}, quota.Bound{}},
		quota.Lists:              {quota.Bound{Each: 32}, quota.Bound{Each: 32}},
		quota.Pages:              {half(32), half(32)},
		quota.PageConnections:    {half(128), half(128)},
		quota.MetricsConnections: {half(32), half(32)},
	} {
		for limits, want := range map[Limits]quota.Bound{set: want.set, {}: want.unset} {
			a, err := New(Config{Now: time.Now, Limits: limits})
			if err != nil {
				t.Fatal(err)
			}
			if limits == set {
				a.room = Room{Connections: 128, Processes: 7}
			}
			if got := a.bound(kind); got != want {
				t.Errorf("with %+v there may be %+v of kind %d, want %+v", limits, got, kind, want)
			}
		}
	}
}

func TestNobodyHasAllConnections(t *testing.T) {
	for _, c := range [][3]int{{16384, 128, 112}, {0, 128, 112}, {10, 128, 10}, {10, 1, 1}, {10, 0, 10}} {
		if got := connections(c[0], c[1]); got != c[2] {
			t.Errorf("with the limit %d and room for %d a user has %d, want %d", c[0], c[1], got, c[2])
		}
	}
}

// A reload makes other limits count at once. Root and the daemon's user have a reserve of what all users share. Each
// refusal is counted and told.
func TestHold(t *testing.T) {
	d := newDesk(t, Limits{Claims: 1, Connections: 1})
	d.room.Connections = 128
	leave, err := d.Hold(1001, quota.Claims)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(uid uint32, of quota.Kind, what string, limit int) {
		t.Helper()
		_, err := d.Hold(uid, of)
		if q, ok := errors.AsType[*refusal.QuotaError](err); !ok || q.What != what || q.Limit != limit {
			t.Errorf("got %v", err)
		}
	}
	refused(1001, quota.Claims, "claims", 1)
	if err := d.Replace(nil, Limits{Claims: 2, Connections: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Hold(1001, quota.Claims); err != nil {
		t.Errorf("with another limit: %v", err)
	}
	refused(1001, quota.Claims, "claims", 2)
	leave()
	leave()
	if _, err := d.Hold(1001, quota.Claims); err != nil {
		t.Errorf("the place of one that was left: %v", err)
	}
	refused(1001, quota.Claims, "claims", 2)
	for _, uid := range []uint32{0, self} {
		for range 1 + Reserve {
			if _, err := d.Hold(uid, quota.Connections); err != nil {
				t.Fatal(err)
			}
		}
		refused(uid, quota.Connections, "connections", 1+Reserve)
	}
	var counts []uint64
	for _, c := range d.Refusals() {
		counts = append(counts, c.Count)
	}
	if len(counts) != 3 || counts[0] != 1 || counts[1] != 1 || counts[2] != 3 || len(d.told) != 3 {
		t.Errorf("the counts are %v, and told was %q", counts, d.told)
	}
}
