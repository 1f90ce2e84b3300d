package quorum_test

import (
	"context"
	"fmt"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/memstore"
	"github.com/lockagent/lockagent/quorum"
)

// Three servers, of which one is down. With Redis, the nodes come from redisstore.Open.
func Example() {
	down := memstore.New()
	down.SetOutage(fmt.Errorf("down"))
	store, err := quorum.Open(memstore.New(), memstore.New(), down)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	locks, err := channelapi.New(channelapi.Config{Store: store})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close()

	err = locks.Lock("orders/42").Do(context.Background(), func(_ context.Context, g channelapi.Grant) error {
		fmt.Println("held:", g.Held())
		return nil
	})
	fmt.Println("done:", err)
	// Output:
	// held: true
	// done: <nil>
}
