package scenarios

import (
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/waittest"
)

func TestK02LeaseIsChangedWhileItLasts(t *testing.T) {
	inMemory(t, plain, func(w *world) {
		p := w.agent().Permits("pool")
		set(w, p, 1, true)
		const (
			unknown = "00112233445566778899aabbccddee00"
			first   = "00112233445566778899aabbccddee01"
			second  = "00112233445566778899aabbccddee02"
		)
		extend := func(id channelapi.PermitID, d time.Duration, want error) {
			w.Helper()
			wantErr(w, "the extension", p.ExtendID(w.Context(), id, d), want)
		}
		extend(unknown, time.Second, channelapi.ErrNoPermit)
		w.memory.PlantPermit("pool", first, 0)
		extend(first, time.Second, nil)
		w.sleep(1200 * time.Millisecond)
		extend(first, time.Second, channelapi.ErrNoPermit)
		w.memory.PlantPermit("pool", second, time.Second)
		extend(second, 3*time.Second, nil)
		w.sleep(2800 * time.Millisecond)
		wantFreePermits(w, p, 0)
		w.sleep(500 * time.Millisecond)
		wantFreePermits(w, p, 1)
		extend(second, time.Second, channelapi.ErrNoPermit)
	})
}

func TestK07TimeToLiveLeavesNoKey(t *testing.T) {
	onRedis(t, plain, func(w *world) {
		p := w.agent().Permits("pool")
		set(w, p, 1, true)
		take(w, p, 1)
		theirs := []string{"pool", "{pool}:timeout"} // as Redisson does it
		for _, key := range theirs {
			w.redis.Do("PEXPIRE", key, "100")
		}
		waittest.Until(
			w, "the semaphore to be gone", func() bool { return w.redis.Do("EXISTS", theirs[0], theirs[1]) == int64(0) },
		)
		wantFreePermits(w, p, 0)
		for _, key := range w.redis.Do("KEYS", "*pool*").([]any) {
			// Changes and notes are gone after a minute.
			if k := key.(string); !strings.HasPrefix(k, "lockagent_change:") && k != "lockagent_notes:{pool}" {
				w.Errorf("%s is left", k)
			}
		}
	})
}

func TestK09BoundedWaitForALeaseThatEnds(t *testing.T) {
	inMemory(t, plain, func(w *world) {
		mine := w.agent().Permits("pool", channelapi.Lease(2*time.Second))
		theirs := w.agent().Permits("pool", channelapi.Wait(4*time.Second))
		set(w, mine, 1, true)
		late := take(w, mine, 1)
		began := time.Now()
		must(w, take(w, theirs, 1).Err())
		if waited := time.Since(began); waited < told(2*time.Second) || waited > 2*time.Second+scatter {
			w.Errorf("the waiter waited %v for a lease of 2s", waited)
		}
		wantLost(w, "the late release", late.Release(w.Context()), channelapi.LostExpired)
		wantFreePermits(w, mine, 0)
	})
}

func TestK21K23K24AsynchronousCalls(t *testing.T) {
	inMemory(t, plain, func(w *world) {
		p := w.agent().Permits("pool", channelapi.Lease(5*time.Second))
		set(w, p, 10, true)
		began := time.Now()
		four, two := <-p.AcquireAsync(w.Context(), 4), <-p.AcquireAsync(w.Context(), 2)
		must(w, four.Err())
		must(w, two.Err())
		wantFreePermits(w, p, 4)
		must(w, <-four.ReleaseAsync(w.Context()))
		wantFreePermits(w, p, 8)
		must(w, <-two.ReleaseAsync(w.Context()))
		wantFreePermits(w, p, 10)
		if took := time.Since(began); took > 100*time.Millisecond {
			w.Errorf("all that took %v, though nobody was in the way", took)
		}
	})
}

func TestK26HalfOfThePermitsHaveExpired(t *testing.T) {
	inMemory(t, plain, func(w *world) {
		a := w.agent()
		p := a.Permits("pool")
		set(w, p, 10, true)
		brief, kept := take(w, a.Permits("pool", channelapi.Lease(100*time.Millisecond)), 3), take(w, p, 3)
		wantFreePermits(w, p, 4)
		w.sleep(200 * time.Millisecond)
		must(w, kept.Release(w.Context()))
		wantFreePermits(w, p, 10)
		wantLost(w, "the release of the others", brief.Release(w.Context()), channelapi.LostExpired)
		wantFreePermits(w, p, 10)
	})
}

func TestK28WhatIsLeftOfALease(t *testing.T) {
	inMemory(t, plain, func(w *world) {
		a := w.agent()
		p := a.Permits("pool")
		set(w, p, 2, true)
		kept, fixed := take(w, p, 1), take(w, a.Permits("pool", channelapi.Lease(1100*time.Millisecond)), 1)
		w.sleep(100 * time.Millisecond)
		if left := fixed.Remaining(); left <= 0 || left > time.Second {
			w.Errorf("%v are left of a lease of 1.1s after 100ms", left)
		}
		w.sleep(time.Second)
		wantFreePermits(w, p, 1)
		w.sleep(time.Hour)
		if kept.Remaining() <= 0 || fixed.Remaining() != 0 || (channelapi.Grant{}).Remaining() != 0 {
			w.Errorf("%v are left of a lease that is kept, and %v of one that is over", kept.Remaining(), fixed.Remaining())
		}
		wantFreePermits(w, p, 1)
	})
}
