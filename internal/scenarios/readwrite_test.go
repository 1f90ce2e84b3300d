package scenarios

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/waittest"
)

// sides are what a session may do with the two sides of a read/write lock.
type sides struct {
	read, write *channelapi.SessionLock
}

func (a *agent) sides(owner string) sides {
	a.lock(owner) // opens the session
	s := a.sessions[owner]
	return sides{s.ReadLock(name), s.WriteLock(name)}
}

// wantFree fails unless a try succeeds or not, as wanted. A lock that was granted is released.
func wantFree(w *world, what string, l *channelapi.SessionLock, want bool) {
	w.Helper()
	g, err := l.TryAcquire(w.Context())
	if (err == nil) != want {
		w.Errorf("%s: a try gave %v, want success %t", what, err, want)
	}
	if err == nil {
		must(w, g.Release(w.Context()))
	}
}

func grant(w *world, l *channelapi.SessionLock) channelapi.Grant {
	w.Helper()
	g, err := l.Acquire(waittest.Context(w))
	must(w, err)
	return g
}

// Each agent of the two has a reader and a writer.
func TestE02E10E13WriterReads(t *testing.T) {
	inMemory(t, write, func(w *world) {
		both := w.agents(2)
		alice, bob, carol := both[0].sides("alice"), both[0].sides("bob"), both[1].sides("carol")
		first, again := grant(w, alice.write), grant(w, alice.write)
		for _, other := range []sides{bob, carol} {
			wantFree(w, "another reads while somebody writes", other.read, false)
			wantFree(w, "another writes while somebody writes", other.write, false)
		}
		must(w, again.Release(w.Context()))
		reading := grant(w, alice.read)
		must(w, reading.Release(w.Context()))
		for _, other := range []sides{bob, carol} {
			wantFree(w, "the writer has read: another reads", other.read, false)
		}
		reading = grant(w, alice.read)
		must(w, first.Release(w.Context()))
		w.sleep(time.Minute)
		for _, other := range []sides{bob, carol} {
			wantFree(w, "the writer reads on: another reads", other.read, true)
			wantFree(w, "the writer reads on: another writes", other.write, false)
		}
		must(w, reading.Release(w.Context()))
		for _, other := range []sides{bob, carol} {
			wantFree(w, "all is free: another writes", other.write, true)
		}
	})
}

func TestE14WriterWaitsForAllReaders(t *testing.T) {
	inMemory(t, write, func(w *world) {
		both := w.agents(2)
		alice, bob, carol := both[0].sides("alice"), both[1].sides("bob"), both[1].sides("carol")
		one, two := grant(w, alice.read), grant(w, bob.read)
		writing := carol.write.AcquireAsync(w.Context())
		for _, g := range []channelapi.Grant{one, two} {
			w.sleep(time.Second)
			if len(writing) > 0 {
				w.Fatal("the writer got in beside a reader")
			}
			must(w, g.Release(w.Context()))
		}
		g := <-writing
		must(w, g.Err())
		must(w, g.Release(w.Context()))
	})
}

func TestE16BothHoldsOfAWriterAreRenewed(t *testing.T) {
	inMemory(t, write, func(w *world) {
		both := w.agents(2)
		alice, bob := both[0].sides("alice"), both[1].sides("bob")
		writing, reading := grant(w, alice.write), grant(w, alice.read)
		w.sleep(2 * time.Minute)
		if !writing.Held() || !reading.Held() {
			w.Errorf("writing %t, reading %t", writing.Held(), reading.Held())
		}
		must(w, writing.Release(w.Context()))
		w.sleep(2 * time.Minute)
		if !reading.Held() {
			w.Errorf("the reader lost the lock: %v", reading.Cause())
		}
		wantFree(w, "somebody reads: another writes", bob.write, false)
		must(w, reading.Release(w.Context()))
	})
}

func TestE03ReadersAreRenewed(t *testing.T) {
	inMemory(t, read, func(w *world) {
		var grants []channelapi.Grant
		for _, a := range w.agents(5) {
			for _, owner := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"} {
				grants = append(grants, grant(w, a.sides(owner).read))
			}
		}
		w.sleep(time.Minute)
		for i, g := range grants {
			if !g.Held() {
				w.Errorf("reader %d lost the lock: %v", i, g.Cause())
			}
			must(w, g.Release(w.Context()))
		}
		wantFree(w, "all have read: one writes", w.agent().sides("writer").write, true)
	})
}

func TestE05E09ShortReentryShortensNothing(t *testing.T) {
	inMemory(t, write, func(w *world) {
		a, b := w.agent(), w.agent()
		a.lock("alice")
		s, bob := a.sessions["alice"], b.sides("bob")
		long := grant(w, s.WriteLock(name, channelapi.Lease(10*time.Second)))
		grant(w, s.WriteLock(name, channelapi.Lease(time.Second)))
		w.sleep(5 * time.Second)
		if !long.Held() {
			w.Errorf("lost: %v", long.Cause())
		}
		wantFree(w, "somebody writes: another writes", bob.write, false)
		w.sleep(6 * time.Second)
		wantFree(w, "both leases are over: another writes", bob.write, true)

		first := grant(w, s.ReadLock(name, channelapi.Lease(4*time.Second)))
		w.sleep(3 * time.Second)
		again := grant(w, s.ReadLock(name, channelapi.Lease(4*time.Second)))
		must(w, again.Release(w.Context()))
		w.sleep(2 * time.Second)
		if !first.Held() {
			w.Errorf("lost, although a re-entry has begun the lease anew: %v", first.Cause())
		}
		w.sleep(3 * time.Second)
		wantFree(w, "the lease is over: another writes", bob.write, true)
	})
}

func TestE07E17LeasesOfReadersAndWriters(t *testing.T) {
	inMemory(t, write, func(w *world) {
		a, b := w.agent(), w.agent()
		a.lock("alice")
		grant(w, a.sessions["alice"].WriteLock(name, channelapi.Lease(10*time.Second)))
		began := time.Now()
		var reading [2]<-chan channelapi.Grant
		for i, owner := range []string{"bob", "carol"} {
			reading[i] = b.sides(owner).read.AcquireAsync(w.Context())
		}
		for _, c := range reading {
			g := <-c
			must(w, g.Err())
			if waited := time.Since(began); waited < 9*time.Second || waited > 11*time.Second {
				w.Errorf("the reader waited %v for a lease of 10s", waited)
			}
			must(w, g.Release(w.Context()))
		}

		short := grant(w, a.sessions["alice"].ReadLock(name, channelapi.Lease(2*time.Second)))
		other := grant(w, b.sides("bob").read)
		w.sleep(5 * time.Second)
		if short.Held() || !other.Held() {
			w.Errorf("the reader with a short lease holds %t, the other %t", short.Held(), other.Held())
		}
		wantLost(w, "the late release", short.Release(w.Context()), channelapi.LostExpired)
		must(w, other.Release(w.Context()))
	})
}
