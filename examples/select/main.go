// Command select waits for whichever of two locks is free first, or for a signal to quit, in
// one select.
//
// Two printers are shared by many programs. A lock for each of them sees to it that one
// document is printed at a time.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/memstore"
)

func main() {
	store := memstore.New() // for one process; redisstore.Open for many
	defer store.Close()
	locks, err := channelapi.New(channelapi.Config{Store: store})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	ctx := context.Background()

	// Somebody else is printing on both, but will be done with one of them in a moment.
	others, err := channelapi.All(ctx, locks.Lock("printers/laser"), locks.Lock("printers/inkjet"))
	if err != nil {
		log.Fatal(err)
	}
	time.AfterFunc(time.Second, func() { others[1].ReleaseAsync(ctx) })
	quit := make(chan os.Signal, 1)
	signal.Notify(quit, os.Interrupt)
	printer, err := printDocument(ctx, locks, quit)
	log.Printf("printed on %q: %v", printer, err)
}

// printDocument prints on the first printer that it gets, unless it is told to quit.
func printDocument[T any](
	ctx context.Context, locks *channelapi.Locks, quit <-chan T,
) (printer channelapi.Name, err error) {
	// The requests have a context of their own. When it ends, those that wait are
	// withdrawn, and a lock that is granted at this very moment goes back. A grant that was
	// received stays.
	wait, cancel := context.WithCancel(ctx)
	defer cancel()

	var grant channelapi.Grant
	select {
	case grant = <-locks.Lock("printers/laser").AcquireAsync(wait):
	case grant = <-locks.Lock("printers/inkjet").AcquireAsync(wait):
	case <-quit:
		return "", nil
	}
	cancel()                            // the other printer is not needed
	if err := grant.Err(); err != nil { // what came need not be the lock
		return "", err
	}
	return grant.Name(), grant.Release(context.WithoutCancel(ctx))
}
