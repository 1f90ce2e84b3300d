package channelapi_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/memstore"
)

func TestReadersShareALock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		here, there := openOver(t, store), openOver(t, store.Share())
		first := hold(t, here.ReadLock("report"))
		second := hold(t, here.ReadLock("report"))
		third := hold(t, there.ReadLock("report"))
		write := there.WriteLock("report").AcquireAsync(t.Context())
		synctest.Wait()
		pending(t, write)
		unlock(t, third)
		time.Sleep(time.Second) // until readers do not join any more
		pending(t, write)
		late := here.ReadLock("report").AcquireAsync(t.Context())
		unlock(t, first)
		pending(t, late)
		unlock(t, second)
		g := <-write
		if err := g.Err(); err != nil {
			t.Fatal(err)
		}
		if _, err := here.ReadLock("report").TryAcquire(t.Context()); err == nil {
			t.Error("read beside a writer")
		}
		unlock(t, g)
		unlock(t, <-late)
	})
}

func TestSessionReadsAndWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		locks, there := openOver(t, store), openOver(t, store.Share())
		s := openSession(t, locks, "ann")
		read, write := s.ReadLock("report"), s.WriteLock("report")

		reading := hold(t, read)
		_, err := write.Acquire(t.Context())
		wantErr(t, "upgrade", err, channelapi.ErrUpgrade)
		_, err = write.TryAcquire(t.Context())
		wantErr(t, "try to upgrade", err, channelapi.ErrUpgrade)
		wantErr(t, "release of what is not held", write.Release(t.Context()), channelapi.ErrNotHeld)
		if !reading.Held() || !s.Holds("report") {
			t.Error("the read lock is gone")
		}
		wantErr(t, "release", read.Release(t.Context()), nil)
		if s.Holds("report") {
			t.Error("the session still holds the lock")
		}

		hold(t, write)
		again, inner := hold(t, read), hold(t, read)
		if _, err := there.ReadLock("report").TryAcquire(t.Context()); err == nil {
			t.Error("read beside a writer")
		}
		wantErr(t, "release of the inner one", read.Release(t.Context()), nil)
		if inner.Held() || !again.Held() {
			t.Error("not the youngest grant was released")
		}
		other := there.ReadLock("report").AcquireAsync(t.Context())
		synctest.Wait()
		pending(t, other)
		wantErr(t, "downgrade", write.Release(t.Context()), nil)
		if !again.Held() {
			t.Error("the downgrade ended the read lock")
		}
		beside := <-other // in the lease of another agent, long before the first reader has gone
		if beside.Err() != nil || !again.Held() {
			t.Errorf("after the downgrade: %v, held %t", beside.Err(), again.Held())
		}
		time.Sleep(time.Minute) // both are renewed
		if !beside.Held() || !again.Held() {
			t.Error("lost")
		}
		unlock(t, beside)
		wantErr(t, "release", read.Release(t.Context()), nil)
		wantErr(t, "release again", read.Release(t.Context()), lockagent.ErrNotHeld)
		unlock(t, hold(t, there.WriteLock("report")))
	})
}
