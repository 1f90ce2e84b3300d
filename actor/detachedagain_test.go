package actor

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
	"github.com/lockagent/lockagent/memstore"
)

// One agent is detached and resumed again and again, while another one wants the same locks and
// the store does to both what its contract permits. An owner whose process is gone goes on
// for as long as it knew that it had. It never meets another holder.
func TestDetachedAgain(t *testing.T) { detachedAgain(t, 1) }

func detachedAgain(t *testing.T, seeds uint64) {
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { beDetached(t, newChance(seed)) })
		})
	}
}

func beDetached(t *testing.T, c *chance) {
	const locks, lease, most = 3, 3 * time.Second, time.Second
	store := memstore.New()
	b := newBelievers(t)
	config := func() Config {
		s := newTap(narrated{store.Share(), b})
		s.handle(c.misbehave(most))
		return Config{
			Store: s, Recorder: b, Lease: lease, Claim: 20 * time.Second, Logger: quiet, Journal: newChronicle(),
		}
	}
	var workers sync.WaitGroup
	// work holds a lock now and then until the agent is closed.
	work := func(a *Agent, owner string, most time.Duration) {
		for i := 0; ; i++ {
			name := lockagent.Name(fmt.Sprint("door", c.below(locks)))
			req := who(fmt.Sprint(owner, i))
			if c.below(3) == 0 {
				req.Lease = lease + c.upTo(lease)
			}
			g := <-a.Acquire(background, name, req)
			if errors.Is(g.Err(), lockagent.ErrClosed) {
				return
			}
			if g.Err() != nil {
				continue
			}
			b.believe(name, g.Owner(), g.Token(), g.Held, false)
			time.Sleep(c.upTo(most))
			b.over(g)
			_ = <-g.ReleaseAsync(background) // it may have been lost meanwhile
		}
	}
	other, err := New(config())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		workers.Go(func() { work(other, fmt.Sprint("other", i, "-"), most) })
	}
	a, err := New(config())
	if err != nil {
		t.Fatal(err)
	}
	resumed, went := 0, 0
	for generation := range 25 {
		var inside sync.WaitGroup
		for i := range 4 {
			inside.Go(func() { work(a, fmt.Sprint("a", generation, "-", i, "-"), 4*lease) })
		}
		time.Sleep(c.upTo(4 * lease))
		n := detached(t, a)
		for _, l := range n.Locks { // these owners go on without the process
			deadlines := make(map[uint64]lockstate.Instant)
			for _, t := range l.Tenures {
				deadlines[t.Number] = t.Deadline
			}
			for _, r := range l.Requests {
				if r.Tenure == 0 {
					continue
				}
				left := deadlines[r.Tenure].Sub(n.Taken.At)
				if r.Fixed != 0 {
					left = min(left, r.Fixed.Sub(n.Taken.At))
				}
				until := n.Taken.Wall.Add(left)
				b.believe(l.Name, r.Owner, r.Token, func() bool { return time.Now().Before(until) }, true)
			}
		}
		old := a
		workers.Go(func() { inside.Wait(); _ = old.Close() })
		time.Sleep(c.upTo(lease))
		if a, err = Resume(config(), n); err != nil {
			t.Fatal(err)
		}
		for _, r := range a.Resumed() {
			if r.Waits {
				workers.Go(func() {
					if g, ok := <-r.Grant; ok && g.Err() == nil {
						_ = <-g.ReleaseAsync(background) // it may have been lost meanwhile
					}
				})
				continue
			}
			went++
			if g, ok := <-r.Grant; ok && c.below(4) > 0 {
				resumed++
				b.believe(r.Name, r.Owner, r.Token, g.Held, true)
				workers.Go(func() {
					time.Sleep(c.upTo(2 * lease))
					b.over(g)
					_ = <-g.ReleaseAsync(background) // it may have been lost meanwhile
				})
			}
		}
	}
	time.Sleep(3 * lease) // closing gives back what nobody claimed, whose owners must not believe in it any more
	closed := a.Close()   // the store may have failed it
	_ = other.Close()
	workers.Wait()
	if resumed == 0 {
		t.Error("no hold went on")
	}
	t.Logf("%d of %d holds resumed, close: %v", resumed, went, closed)
}
