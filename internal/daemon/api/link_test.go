package api

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/lockagent/lockagent/internal/daemon/claims"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The store is silent. A client that asks for ever more extensions waits with its commands, and the daemon does not grow.
func TestExtensionsUnderWayAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, answers := newLink(0), make(chan struct{})
		k.linked[1] = &linked{ref: 1, stream: new(claims.Stream)}
		waits := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			return k.await(ctx)
		}
		silent := func(*claims.Stream) (claims.Deadline, error) {
			<-answers
			return 1, nil
		}
		asked := 0
		for ; asked < 2*maxUntold && waits() == nil; asked++ {
			k.extend(t.Context(), 1, uint64(asked), silent)
		}
		if asked != maxUntold {
			t.Errorf("%d extensions are under way, and the bound is %d", asked, maxUntold)
		}
		if err := waits(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want a command that waits", err)
		}
		close(answers)
		synctest.Wait()
		told := 0
		for told < asked {
			events, err := k.next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			told += len(events)
		}
		if err := waits(); err != nil {
			t.Errorf("all has been told, and a command waits: %v", err)
		}
	})
}

// The end of a claim is found after the client has released it, and has another one with its number. That one stays.
func TestTheEndOfAClaimWhoseNumberIsAnothers(t *testing.T) {
	k, before, now := newLink(0), &linked{ref: 1}, &linked{ref: 1}
	k.linked[1] = now
	if k.drop(before); k.linked[1] != now {
		t.Error("the other claim is gone")
	}
	if k.drop(now); len(k.linked) != 0 {
		t.Error("a claim that is over is there")
	}
}
