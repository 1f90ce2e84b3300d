package access

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockagent/lockagent/internal/daemon/refusal"
)

func (d *desk) expectTold(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(d.told, want) {
		t.Errorf("told %q\nwant %q", d.told, want)
	}
	d.told = nil
}

func TestRefusalsAreToldOnceAMinute(t *testing.T) {
	d := newDesk(t, Limits{}, rule(t, "a", all, "root", ""))
	ann := Peer{UID: 1001}
	for i := range 1000 {
		_ = d.Check(ann, Acquire, fmt.Sprint("name", i)) // other names make no difference
	}
	const forbidden = "lockagent: not allowed by the rules of the daemon: "
	d.expectTold(t, "1001: "+forbidden+`user 1001 has no right to acquire "name0" (0 unsaid)`)

	// Another reason, and another user.
	quota := &refusal.QuotaError{What: "streams", Limit: 1}
	if err := d.Refused(1001, fmt.Errorf("wrapped: %w", quota)); !errors.Is(err, quota) {
		t.Errorf("got %v", err)
	}
	_ = d.Refused(1001, errors.New("something else")) // which is no refusal
	_ = d.Refused(1001, nil)
	_ = d.Check(Peer{UID: 1002}, Operate, "")
	d.expectTold(
		t, fmt.Sprintf("1001: wrapped: %v (0 unsaid)", quota),
		"1002: "+forbidden+"user 1002 has no right to operate (0 unsaid)",
	)

	d.now = d.now.Add(tellEvery - 1)
	_ = d.Check(ann, Acquire, "b")
	d.expectTold(t)
	d.now = d.now.Add(1)
	_ = d.Check(ann, Look, "c")
	d.expectTold(t, "1001: "+forbidden+`user 1001 has no right to look "c" (1000 unsaid)`)
	d.now = d.now.Add(tellEvery)
	_ = d.Check(ann, Look, "c")
	d.expectTold(t, "1001: "+forbidden+`user 1001 has no right to look "c" (0 unsaid)`)

	want := []RefusalCount{{1001, false, "rights", 1003}, {1001, false, "streams", 1}, {1002, false, "rights", 1}}
	if got := d.Refusals(); !slices.Equal(got, want) {
		t.Errorf("the counts are %v, want %v", got, want)
	}
}

func TestRefusalsOfManyAtOnceAreAllCounted(t *testing.T) {
	var told atomic.Int64
	a, err := New(Config{Directory: people, Now: time.Now, Refused: func(uint32, error, uint64) { told.Add(1) }})
	if err != nil {
		t.Fatal(err)
	}
	const goroutines, rounds = 16, 500
	var work sync.WaitGroup
	for range goroutines {
		work.Go(func() {
			for range rounds {
				_ = a.Check(Peer{UID: 7}, Acquire, "a")
			}
		})
	}
	work.Wait()
	if got := a.Refusals(); len(got) != 1 || got[0].Count != goroutines*rounds {
		t.Errorf("the counts are %v, want %d", got, goroutines*rounds)
	}
	if told.Load() < 1 {
		t.Error("nothing was told")
	}
}

func TestAFloodOfUsersTakesBoundedMemory(t *testing.T) {
	d := newDesk(t, Limits{NameLen: 1})
	const flood = 100_000
	for uid := range uint32(flood) {
		_ = d.Check(Peer{UID: uid + 10_000}, Acquire, "a")
	}
	if len(d.told) != mostSeen+1 { // the others together are told of once
		t.Errorf("told %d times, want %d", len(d.told), mostSeen+1)
	}
	counts := d.Refusals()
	if last := counts[len(counts)-1]; len(counts) != mostSeen+1 || !last.Others || last.Count != flood-mostSeen {
		t.Errorf("%d counts, the last of which is %+v", len(counts), last)
	}
	var sum uint64
	for _, c := range counts {
		sum += c.Count
	}
	if sum != flood {
		t.Errorf("%d are counted, want %d", sum, flood)
	}
	d.told = nil
	d.now = d.now.Add(time.Hour)
	_ = d.Check(Peer{UID: 10_000}, Acquire, "a")
	_ = d.Check(Peer{UID: 5}, Acquire, "a")
	const why = `has no right to acquire "a"; without rules the daemon is for its own user and for root`
	d.expectTold(t, "10000: lockagent: not allowed by the rules of the daemon: user 10000 "+why+" (0 unsaid)",
		fmt.Sprintf("5: lockagent: not allowed by the rules of the daemon: user 5 %s (%d unsaid)", why, flood-mostSeen-1))
}
