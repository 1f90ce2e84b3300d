package transport

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// Each attempt to connect asks a function that hangs, and gives up. The functions do not pile up.
func TestFunctionsThatHangDoNotPileUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &dialer{asked: make(chan struct{}, 2)}
		began, goOn := make(chan struct{}, 10), make(chan struct{})
		ask := func() (int, error) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return consult(ctx, d, "the function", func() (int, error) {
				began <- struct{}{}
				<-goOn
				return 7, nil
			})
		}
		for range 5 {
			if got, err := ask(); err == nil {
				t.Errorf("a function that hangs answered %d", got)
			}
		}
		if len(began) != 2 {
			t.Errorf("%d functions run, want 2", len(began))
		}
		close(goOn)
		synctest.Wait()
		if got, err := ask(); got != 7 || err != nil {
			t.Errorf("the next one answered %d, %v", got, err)
		}
	})
}
