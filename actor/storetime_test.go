package actor

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
)

// pulses is a recorder that keeps the signs of life.
type pulses struct {
	witness
	mu   sync.Mutex
	told []lockagent.StoreTime // guarded by mu

	lease time.Duration // guarded by mu; that the agent keeps
}

func (l *pulses) Record(ctx context.Context, e lockagent.Event) {
	if e.Kind == lockagent.EventAlive {
		l.mu.Lock()
		l.told, l.lease = append(l.told, e.StoreTime), e.Lease
		l.mu.Unlock()
	}
	l.witness.Record(ctx, e)
}

func (l *pulses) tells(t *testing.T, want ...lockagent.StoreTime) {
	t.Helper()
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Equal(l.told, want) {
		t.Errorf("told %d, want %d", l.told, want)
	}
}

// times is a store that tells the time as a test wants.
type times struct {
	whole
	time func(done func(lockagent.StoreTime, error))
}

func (s *times) Time(_ context.Context, done func(lockagent.StoreTime, error)) { s.time(done) }

// An agent that does nothing tells the store's time when it starts, and from time to time.
func TestIdleAgentTellsTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin, w := lockagent.StoreTime(time.Now().UnixMicro()), &pulses{}
		a := start(t, Config{Store: memstore.New(), Recorder: w})
		w.tells(t, begin)
		w.mu.Lock()
		if w.lease != DefaultLease {
			t.Errorf("it keeps leases of %v, want %v", w.lease, DefaultLease)
		}
		w.mu.Unlock()
		time.Sleep(timeEvery)
		w.tells(t, begin, begin.Add(timeEvery))
		closed(t, a)
		time.Sleep(2 * timeEvery)
		w.tells(t, begin, begin.Add(timeEvery))
	})
}

// An agent whose store is away at the start asks again until it is back.
func TestStoreTimeAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin, store, w := lockagent.StoreTime(time.Now().UnixMicro()), memstore.New(), &pulses{}
		store.SetOutage(errors.New("no route"))
		var asked atomic.Int32
		s := &times{store, func(done func(lockagent.StoreTime, error)) {
			asked.Add(1)
			store.Time(background, done)
		}}
		start(t, Config{Store: s, Recorder: w})
		time.Sleep(time.Hour)
		w.tells(t)
		if n := asked.Load(); n < 100 || n > 200 {
			t.Errorf("asked %d times in an hour", n)
		}
		store.SetOutage(nil)
		time.Sleep(maxSleep)
		synctest.Wait()
		if len(w.told) != 1 || w.told[0] < begin.Add(time.Hour) {
			t.Errorf("told %d", w.told)
		}
	})
}

// Nobody asks for the time without a log.
func TestNoRecorderNeedsNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start(t, Config{Store: &times{memstore.New(), func(func(lockagent.StoreTime, error)) { t.Error("asked") }}})
		time.Sleep(2 * timeEvery)
	})
}

// A store that misbehaves when it is asked for the time.
func TestOddAnswersAboutTheTime(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(n int, done func(lockagent.StoreTime, error)) // of the n-th question
		asked  int                                                // in a second
		want   []lockagent.StoreTime
	}{
		"panics": {func(n int, done func(lockagent.StoreTime, error)) {
			if n == 1 {
				panic("boom")
			}
			done(7, nil)
		}, 2, []lockagent.StoreTime{7}},
		"answers and panics": {func(_ int, done func(lockagent.StoreTime, error)) {
			done(7, nil)
			panic("boom")
		}, 1, []lockagent.StoreTime{7}},
		"answers twice": {func(_ int, done func(lockagent.StoreTime, error)) {
			done(7, nil)
			done(8, nil)
		}, 1, []lockagent.StoreTime{7}},
		"is closed": {func(_ int, done func(lockagent.StoreTime, error)) { done(0, lockagent.ErrClosed) }, 1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &pulses{}
				var asked atomic.Int32
				s := &times{memstore.New(), func(done func(lockagent.StoreTime, error)) { c.answer(int(asked.Add(1)), done) }}
				start(t, Config{Store: s, Recorder: w, Logger: quiet})
				time.Sleep(time.Second)
				w.tells(t, c.want...)
				if n := asked.Load(); int(n) != c.asked {
					t.Errorf("asked %d times, want %d", n, c.asked)
				}
			})
		})
	}
}

// An answer that comes when the agent has stopped is not told: the stop is the last event.
func TestLateStoreTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &pulses{}
		var late func(lockagent.StoreTime, error)
		s := &times{memstore.New(), func(done func(lockagent.StoreTime, error)) { late = done }}
		a := start(t, Config{Store: s, Recorder: w})
		closed(t, a)
		late(7, nil)
		w.tells(t)
	})
}
