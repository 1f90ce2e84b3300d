// Command fencedworker stops a worker whose lock is lost, and has its late write
// refused.
//
// No lock with a lease can keep a program from doing something late: it may have
// been suspended, or what it sent may have been under way for long. Two things help,
// and this program shows both. A worker works under the context of its grant, which
// ends with the lock. And it sends the token of its grant along with whatever it
// does: tokens only grow, so that the resource can refuse who comes with an old one.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"sync"
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
	defer func() { err = errors.Join(err, locks.Close()) }()
	var book ledger

	// The first worker asks for a lease of one second, which is not enough: it gets
	// one entry to write down, and waits for the next in vain.
	first, err := locks.Lock("ledger", channelapi.Lease(time.Second)).Acquire(ctx)
	if err != nil {
		return err
	}
	entries := make(chan string, 1)
	entries <- "opening balance"
	err = work(ctx, first, &book, entries)
	lost, ok := errors.AsType[*lockagent.LostError](err)
	if !ok {
		return err
	}
	fmt.Fprintf(w, "the first worker stopped, because its hold was lost: %s\n", lost.Reason)

	// The second gets the lock when the store agrees that the lease is over. It may
	// keep it for as long as it likes.
	second, err := locks.Lock("ledger").Acquire(ctx)
	if err != nil {
		return err
	}
	entries <- "closing balance"
	close(entries)
	if err := work(ctx, second, &book, entries); err != nil {
		return err
	}

	// Now something arrives that the first worker had sent while it held the lock.
	if err := book.write(first.Token(), "one more payment"); errors.Is(err, errOldToken) {
		fmt.Fprintf(w, "its late write was refused: %v\n", err)
	}
	fmt.Fprintf(w, "in the ledger: %s\n", &book)

	// Whoever releases learns how the hold ended, too.
	if err := first.Release(ctx); errors.Is(err, lockagent.ErrLost) {
		fmt.Fprintln(w, "the first worker had nothing to release")
	}
	return second.Release(ctx)
}

// work writes entries into the ledger until there are no more, or the lock is lost.
func work(ctx context.Context, grant lockagent.Grant, book *ledger, entries <-chan string) error {
	ctx = grant.Context(ctx) // pass this to whatever the work calls
	for {
		select {
		case entry, more := <-entries:
			if !more {
				return nil
			}
			if err := book.write(grant.Token(), entry); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

var errOldToken = errors.New("somebody wrote with a newer token before")

// ledger is a resource that looks after itself. A database does the same with a
// column for the token and a condition in the UPDATE.
type ledger struct {
	mu      sync.Mutex
	newest  lockagent.Token // guarded by mu
	entries []string        // guarded by mu
}

func (l *ledger) write(token lockagent.Token, entry string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if token < l.newest {
		return errOldToken
	}
	l.newest = token
	l.entries = append(l.entries, entry)
	return nil
}

func (l *ledger) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.entries, ", ")
}

// openStore opens the store in Redis, or one in memory if there is no URL.
func openStore(ctx context.Context, redis string) (lockagent.Store, error) {
	if redis == "" {
		return memstore.New(), nil
	}
	return redisstore.Open(ctx, redis)
}
