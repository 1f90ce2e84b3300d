package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// terms has the rounds of each term, in the order of the terms.
type terms struct {
	hosts  []string
	tokens []channelapi.Token
	rounds []int
}

// start has a host lead. Each round takes a second.
func (x *terms) start(t *testing.T, ctx context.Context, host string, store *memstore.Store) (ended <-chan error) {
	locks, err := channelapi.New(channelapi.Config{Store: store, Label: host})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = locks.Close() })
	ends := make(chan error, 1)
	go func() {
		ends <- lead(ctx, locks.Lock("leader"), func(ctx context.Context, g channelapi.Grant) {
			if n := len(x.tokens); n == 0 || x.tokens[n-1] != g.Token() {
				x.hosts, x.tokens, x.rounds = append(x.hosts, host), append(x.tokens, g.Token()), append(x.rounds, 0)
			}
			x.rounds[len(x.rounds)-1]++
			pause(ctx, time.Second)
		})
	}()
	return ends
}

// A host that is alone leads for one long term. Two take turns of one round each.
func TestTheLeaderGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		store, x := memstore.New(), &terms{}
		first := x.start(t, ctx, "one", store)
		time.Sleep(time.Hour + time.Second/2)
		synctest.Wait()
		if len(x.rounds) != 1 || x.rounds[0] != 3601 {
			t.Fatalf("a host that is alone led terms of %d rounds", x.rounds)
		}
		second := x.start(t, ctx, "two", store.Share())
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got := len(x.hosts); got < 10 {
			t.Errorf("in ten rounds the terms were those of %q", x.hosts)
		}
		for i, n := range x.rounds[1:] {
			if n != 1 || x.hosts[i] == x.hosts[i+1] {
				t.Errorf("term %d of %s has %d rounds after one of %s", i+1, x.hosts[i+1], n, x.hosts[i])
			}
		}
		cancel()
		for _, ended := range []<-chan error{first, second} {
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
	})
}

// A leader begins no round while its renewals fail, and goes on when they succeed again.
func TestTheLeaderPausesInDanger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		store, x := memstore.New(), &terms{}
		ended := x.start(t, ctx, "one", store)
		time.Sleep(time.Second / 2)
		store.SetOutage(errors.New("no route to host"))
		time.Sleep(20 * time.Second)
		synctest.Wait()
		before := x.rounds[0]
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if x.rounds[0] != before {
			t.Errorf("%d rounds began in danger", x.rounds[0]-before)
		}
		store.SetOutage(nil)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if x.rounds[0] == before || len(x.tokens) != 1 {
			t.Errorf("%d rounds, with the tokens %d", x.rounds, x.tokens)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
