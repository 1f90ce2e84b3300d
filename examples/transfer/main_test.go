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

func newBank(t *testing.T, store *memstore.Store, balances map[string]*int) *bank {
	locks, err := channelapi.New(channelapi.Config{Store: store.Share()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := locks.Close(); err != nil {
			t.Error(err)
		}
	})
	return &bank{locks: locks, balances: balances}
}

// Two banks transfer in opposite directions, and the total stays what it is.
func TestTransfers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		store := memstore.New()
		alice, bob := 100, 100
		balances := map[string]*int{"alice": &alice, "bob": &bob}
		var all sync.WaitGroup
		for _, b := range []*bank{newBank(t, store, balances), newBank(t, store, balances)} {
			for _, way := range [][2]string{{"alice", "bob"}, {"bob", "alice"}} {
				all.Go(func() {
					for amount := range 100 {
						if err := b.transfer(ctx, way[0], way[1], amount); err != nil && !errors.Is(err, errNotEnough) {
							t.Errorf("%s to %s: %v", way[0], way[1], err)
						}
					}
				})
			}
		}
		all.Wait()
		if alice+bob != 200 || alice < 0 || bob < 0 {
			t.Errorf("%d and %d, want 200 together", alice, bob)
		}
	})
}

// Who holds one account and then wants to transfer to another may meet somebody who does
// the same the other way round. That is refused, not waited for.
func TestAccountsInTheWrongOrder(t *testing.T) {
	b := newBank(t, memstore.New(), nil)
	err := b.session(t.Context(), func(s *channelapi.Session) error {
		return account(s, "bob").Do(t.Context(), func(ctx context.Context, _ channelapi.Grant) error {
			return channelapi.DoAll(ctx, nil, account(s, "bob"), account(s, "alice"))
		})
	})
	if !errors.Is(err, channelapi.ErrBadOption) {
		t.Errorf("%v, want %v", err, channelapi.ErrBadOption)
	}
}
