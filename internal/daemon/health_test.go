//go:build linux

package daemon

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
)

// slowStore takes its time to answer.
type slowStore struct {
	lockagent.History
	takes time.Duration
	calls int
}

func (s *slowStore) Time(ctx context.Context, done func(lockagent.StoreTime, error)) {
	s.calls++
	go func() {
		select {
		case <-time.After(s.takes):
			done(1, nil)
		case <-ctx.Done():
			done(0, context.Cause(ctx))
		}
	}()
}

// Somebody asks for the health of the store and goes away. Nobody else takes the store for gone by that, and nobody
// waits for longer than it likes.
func TestHealthForOneWhoGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{takes: time.Second}
		h := &health{history: store}
		away := errors.New("away")
		gone, leave := context.WithCancelCause(t.Context())
		leave(away)
		if err := h.check(gone); !errors.Is(err, away) || !errors.Is(err, context.Canceled) {
			t.Errorf("the one who has gone: %v", err)
		}
		others := make(chan error, 2)
		for range cap(others) {
			go func() { others <- h.check(t.Context()) }()
		}
		synctest.Wait()
		begin := time.Now()
		hasty, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := h.check(hasty); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != time.Millisecond {
			t.Errorf("one who waits for 1 ms: %v after %v", err, time.Since(begin))
		}
		for range cap(others) {
			if err := <-others; err != nil {
				t.Error(err)
			}
		}
		if store.calls != 1 {
			t.Errorf("the store was asked %d times", store.calls)
		}
		store.takes = time.Hour
		time.Sleep(healthFresh)
		if err := h.check(t.Context()); !errors.Is(err, lockagent.ErrStoreUnavailable) {
			t.Errorf("a silent store: %v", err)
		}
		synctest.Wait()
	})
}
