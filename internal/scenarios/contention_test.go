package scenarios

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lockagent/lockagent/channelapi"
)

// triesNeverStopTheRenewal has many try to get what others hold for longer than a lease.
func triesNeverStopTheRenewal(w *world) {
	a := w.agent()
	var wg sync.WaitGroup
	for i := range 16 {
		l := a.lock(string(rune('a'+i)), channelapi.Try())
		wg.Go(func() {
			r := rand.New(rand.NewPCG(22, uint64(i)))
			for round := range 200 {
				hurry := round < 150
				h, err := l.acquire(w.Context())
				if err != nil {
					wantErr(w, "the try", err, channelapi.ErrHeld)
					if !hurry {
						w.sleep(time.Duration(1 + r.IntN(int(10*time.Second))))
					}
					continue
				}
				if !hurry && r.IntN(4) == 0 {
					w.sleep(45 * time.Second) // beyond the lease
				}
				if !h.valid() {
					w.Errorf("not held before the release: %v", h[0].Cause())
				}
				if err := h.release(w); err != nil {
					w.Errorf("release: %v", err)
				}
			}
		})
	}
	wg.Wait()
	a.lock("others").wantLocked(w, false)
}

func oneAgentCounts(w *world) {
	a := w.agent()
	var locks []lock
	for i := range 15 {
		locks = append(locks, a.lock(string(rune('a'+i))))
	}
	count(w, locks, 1, 0)
}

func manyAgentsCountOften(w *world) { manyAgentsCount(w, 16, 25, 10*time.Millisecond) }

func manyAgentsCountOnce(w *world) { manyAgentsCount(w, 100, 1, 0) }

func manyAgentsCount(w *world, agents, loops int, work time.Duration) {
	var locks []lock
	for _, a := range w.agents(agents) {
		locks = append(locks, a.lock("alice"))
	}
	count(w, locks, loops, work)
}

// count has the owners increment one number under the lock.
func count(w *world, locks []lock, loops int, work time.Duration) {
	w.Helper()
	n := 0
	var last held
	var wg sync.WaitGroup
	for _, l := range locks {
		wg.Go(func() {
			for range loops {
				l.guarded(w, func(h held) {
					before := n
					w.sleep(work)
					n = before + 1
					h.wantAfter(w, last)
					last = h
				})
			}
		})
	}
	wg.Wait()
	if n != len(locks)*loops {
		w.Errorf("counted %d, want %d", n, len(locks)*loops)
	}
}
