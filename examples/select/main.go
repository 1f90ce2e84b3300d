// Command select waits for whichever of two locks is free first, or for a signal to
// quit, in one select.
//
// Two printers are shared by many programs, on many hosts if the locks are in Redis.
// A lock for each of them sees to it that one document is printed at a time.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"time"

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
	defer func() { err = errors.Join(err, locks.Close()) }() // gives back what is still held

	// Somebody else is printing on both.
	laser, err := locks.Lock("printers/laser").Acquire(ctx)
	if err != nil {
		return err
	}
	defer laser.ReleaseAsync(ctx)
	inkjet, err := locks.Lock("printers/inkjet").Acquire(ctx)
	if err != nil {
		return err
	}

	// The inkjet will be free in a moment.
	closing := make(chan struct{})
	time.AfterFunc(100*time.Millisecond, func() { inkjet.ReleaseAsync(ctx) })
	if err := printDocument(ctx, w, locks, "letter", closing); err != nil {
		return err
	}

	// And now it is taken again, but soon everybody goes home.
	inkjet, err = locks.Lock("printers/inkjet").Acquire(ctx)
	if err != nil {
		return err
	}
	defer inkjet.ReleaseAsync(ctx)
	time.AfterFunc(100*time.Millisecond, func() { close(closing) })
	return printDocument(ctx, w, locks, "novel", closing)
}

// printDocument prints on the first printer that it gets.
func printDocument(ctx context.Context, w io.Writer, locks *channelapi.Locks, document string, closing <-chan struct{}) error {
	// All requests are made under a context of their own. When it ends, those that
	// still wait are withdrawn, and a lock that is granted at that very moment goes
	// back. A grant that was received stays.
	wait, cancel := context.WithCancel(ctx)
	defer cancel()

	var grant lockagent.Grant
	select {
	case grant = <-locks.Lock("printers/laser").AcquireAsync(wait):
	case grant = <-locks.Lock("printers/inkjet").AcquireAsync(wait):
	case <-closing:
		fmt.Fprintf(w, "%s: not printed, we are closing\n", document)
		return nil
	}
	cancel() // the other printer is not needed

	if err := grant.Err(); err != nil { // what came need not be the lock
		return err
	}
	fmt.Fprintf(w, "%s: printing, with the lock %s\n", document, grant.Name())
	return grant.Release(ctx)
}

// openStore opens the store in Redis, or one in memory if there is no URL.
func openStore(ctx context.Context, redis string) (lockagent.Store, error) {
	if redis == "" {
		return memstore.New(), nil
	}
	return redisstore.Open(ctx, redis)
}
