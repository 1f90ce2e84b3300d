// Command session takes a lock in a function that calls another one that takes it
// too.
//
// Who holds a lock is never a goroutine or a thread here: each request is an owner
// of its own, unless it is made through a session. A session may hold a lock as
// often as it likes, and has to release it as often.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/memstore"
	"github.com/lockagent/lockagent/redisstore"
)

func main() {
	redis := flag.String("redis", "", "URL of the Redis that has the locks, such as redis://localhost:6379; if empty, they are in memory")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, *redis); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, w io.Writer, redis string) (err error) {
	store, err := openStore(ctx, redis)
	if err != nil {
		return err
	}
	defer store.Close()
	locks, err := channelapi.New(channelapi.Config{Store: store})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, locks.Close()) }()

	session, err := locks.Session("importer")
	if err != nil {
		return err
	}
	c := &catalogue{w: w, lock: session.Lock("catalogue")}
	if err := c.addAll(ctx, "hammer", "nail"); err != nil {
		return err
	}

	// Whoever is not of the session has to wait while the importer holds the lock,
	// even in the same goroutine.
	grant, err := c.lock.Acquire(ctx)
	if err != nil {
		return err
	}
	_, err = locks.Lock("catalogue").TryAcquire(ctx)
	if held, ok := errors.AsType[*lockagent.HeldError](err); ok {
		fmt.Fprintf(w, "somebody else has to wait for the %s\n", held.Holder)
	}
	if err := grant.Release(ctx); err != nil {
		return err
	}

	// What a session still holds when it is closed goes back.
	return session.Close(ctx)
}

// catalogue is something that only the holder of a lock may change.
type catalogue struct {
	w    io.Writer
	lock *channelapi.SessionLock
}

// addAll adds several items, and lets nobody in between.
func (c *catalogue) addAll(ctx context.Context, items ...string) error {
	grant, err := c.lock.Acquire(ctx)
	if err != nil {
		return err
	}
	defer grant.ReleaseAsync(ctx)
	for _, item := range items {
		if err := c.add(ctx, item); err != nil {
			return err
		}
	}
	return nil
}

// add adds one item. It takes the lock for itself, because it is also called by
// those who do not hold it.
func (c *catalogue) add(ctx context.Context, item string) error {
	grant, err := c.lock.Acquire(ctx)
	if err != nil {
		return err
	}
	defer grant.ReleaseAsync(ctx)
	fmt.Fprintf(c.w, "adding a %s, under %d grants\n", item, grant.HoldCount())
	return nil
}

// openStore opens the store in Redis, or one in memory if there is no URL.
func openStore(ctx context.Context, redis string) (lockagent.Store, error) {
	if redis == "" {
		return memstore.New(), nil
	}
	return redisstore.Open(ctx, redis)
}
