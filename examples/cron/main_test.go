package main

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Five hosts whose clocks differ, each of which is started anew after each run.
func TestOncePerPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const periods = 100
		store := memstore.New()
		var mu sync.Mutex
		runs, failures := 0, 0 // guarded by mu
		job := func(context.Context, channelapi.Token) error {
			mu.Lock()
			defer mu.Unlock()
			if runs%10 == 0 && failures <= runs/10 {
				failures++
				return errors.New("failed")
			}
			runs++
			return nil
		}
		ended := make(chan struct{})
		for host := range hosts {
			clock := time.Duration(host-hosts/2) * 900 * time.Millisecond // is so much ahead
			timer := time.Duration(host-hosts/2) * time.Millisecond       // is so late
			go func() {
				defer func() { ended <- struct{}{} }()
				for range periods {
					now := time.Now().Add(clock)
					next := now.Truncate(period).Add(period)
					time.Sleep(next.Sub(now))
					locks, err := channelapi.New(channelapi.Config{Store: store.Share()})
					if err != nil {
						t.Error(err)
						return
					}
					if _, err := once(t.Context(), locks, "report", next.Add(timer), job); err != nil && err.Error() != "failed" {
						t.Error(err)
					}
					if err := locks.Close(); err != nil {
						t.Error(err)
					}
				}
			}()
		}
		for range hosts {
			<-ended
		}
		// The clocks that are ahead begin with a period that the others do not have.
		if runs < periods || runs > periods+1 || failures != (runs+9)/10 {
			t.Errorf("%d runs and %d failures in %d periods", runs, failures, periods)
		}
	})
}
