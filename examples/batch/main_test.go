package main

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAWorkerThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		var done journal
		items := []string{"a", "b", "c", "d"}
		worker := func(step func(context.Context, string) error) <-chan error {
			locks, err := channelapi.New(channelapi.Config{Store: store.Share()})
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() {
				err := work(t.Context(), locks, &done, items, step)
				ended <- errors.Join(err, locks.Close())
			}()
			synctest.Wait()
			return ended
		}

		start := time.Now()
		first := worker(func(_ context.Context, item string) error {
			time.Sleep(50 * time.Second)
			if item == "c" {
				time.Sleep(time.Hour) // and does not look at its context
			}
			return nil
		})
		second := worker(func(_ context.Context, item string) error {
			if item != "c" && item != "d" {
				t.Errorf("the second worker works on %q", item)
			}
			return nil
		})
		if err := <-second; err != nil {
			t.Errorf("the second worker: %v", err)
		}
		if took := time.Since(start); took < 100*time.Second+patience-2*time.Second ||
			took > 100*time.Second+patience+2*time.Second {
			t.Errorf("the second worker was done after %v", took)
		}
		if err := <-first; !errors.Is(err, errOldToken) || !errors.Is(err, channelapi.ErrLost) {
			t.Errorf("the first worker: %v, want that its lock was lost and its late write refused", err)
		}
		if !slices.Equal(done.items, items) {
			t.Errorf("done: %q", done.items)
		}
	})
}
