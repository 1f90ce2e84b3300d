package channelapi_test

import (
	"errors"
	"testing"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/memstore"
)

// One name in two stores is two locks. In one store it is one lock, also for two agents.
func TestAllOverTwoStores(t *testing.T) {
	store := memstore.New()
	one, two, elsewhere := openOver(t, store), openOver(t, store), open(t)
	if _, err := channelapi.All(
		waittest.Context(t), one.Lock("a"), two.Lock("a"),
	); !errors.Is(err, channelapi.ErrBadOption) {
		t.Errorf("one store: %v", err)
	}
	for _, locks := range [][]channelapi.AnyLock{
		{one.Lock("a"), elsewhere.Lock("a")},
		{elsewhere.Lock("a"), one.Lock("a")},
	} {
		grants, err := channelapi.All(waittest.Context(t), locks...)
		if err != nil || len(grants) != 2 {
			t.Fatalf("two stores: %d grants, %v", len(grants), err)
		}
		for _, g := range grants {
			unlock(t, g)
		}
	}
}
