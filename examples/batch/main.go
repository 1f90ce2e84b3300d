// Command batch works through a batch of items, one worker at a time.
//
// A kept lease would be renewed even for a worker that hangs, as long as its process lives. So
// the lease here is fixed, and the worker extends it with each item. A worker that makes no
// progress for a minute loses the lock, and another worker goes on with the batch. A late write
// of the first worker is refused, because its token is older.
package main

import (
	"context"
	"errors"
	"log"
	"sync"
	"time"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/memstore"
)

const patience = time.Minute // with one item

func main() {
	store := memstore.New() // for one process; redisstore.Open for many
	defer store.Close()
	locks, err := channelapi.New(channelapi.Config{Store: store})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	done := &journal{}
	items := []string{"one", "two", "three"}
	err = work(context.Background(), locks, done, items, func(_ context.Context, item string) error {
		log.Print("working on ", item)
		return nil
	})
	log.Print(len(done.items), " items are done: ", err)
}

// work works through those of the items that are not done.
func work(
	ctx context.Context, locks *channelapi.Locks, done *journal, items []string, step func(context.Context, string) error,
) error {
	lock := locks.Lock("batch", channelapi.Lease(patience))
	return lock.Do(ctx, func(ctx context.Context, g channelapi.Grant) error {
		for _, item := range items[done.len():] {
			if err := step(ctx, item); err != nil {
				return err
			}
			if err := done.add(item, g.Token()); err != nil {
				return err
			}
			if err := g.Extend(ctx, patience); err != nil {
				return err
			}
		}
		return nil
	})
}

var errOldToken = errors.New("somebody has written with a newer token")

// journal has what is done. It is kept by who works with the newest token, as a table
// would be that has a column for it.
type journal struct {
	mu    sync.Mutex
	items []string         // guarded by mu
	token channelapi.Token // guarded by mu
}

func (j *journal) add(item string, token channelapi.Token) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if token < j.token {
		return errOldToken
	}
	j.items, j.token = append(j.items, item), token
	return nil
}

func (j *journal) len() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.items)
}
