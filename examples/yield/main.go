// Command yield runs a leader on one of several hosts, which gives way when another one waits.
//
// Start it twice with -redis redis://localhost:6379. As long as one host is alone, it leads, and the lock goes nowhere.
// When the second one waits, the first finishes its round, and the two take turns.
//
// A round that has begun is not cut short. So the leader also begins none while its hold is in danger.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/memstore"
	"github.com/lockagent/lockagent/redisstore"
)

func main() {
	redis := flag.String("redis", "", "URL of the Redis that has the lock; if empty, it is in memory")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	var store channelapi.Store = memstore.New()
	if *redis != "" {
		var err error
		if store, err = redisstore.Open(ctx, *redis); err != nil {
			log.Fatal(err)
		}
	}
	defer store.Close()
	locks, err := channelapi.New(channelapi.Config{Store: store, Label: "yield-example"})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	if err := lead(ctx, locks.Lock("leader"), round); !errors.Is(err, context.Canceled) {
		log.Print(err)
	}
}

// lead has the host lead whenever it is its turn, until ctx ends.
func lead(ctx context.Context, lock *channelapi.Lock, round func(context.Context, channelapi.Grant)) error {
	for g := range lock.Turns(ctx) {
		if err := g.Err(); err != nil {
			return err
		}
		term(g.Context(ctx), g, round)
		if err := g.Release(context.WithoutCancel(ctx)); err != nil {
			log.Print("leads no more: ", err)
		}
	}
	return context.Cause(ctx)
}

// term leads one round after the other, until somebody else wants to lead, or ctx ends.
func term(ctx context.Context, g channelapi.Grant, round func(context.Context, channelapi.Grant)) {
	for {
		select {
		case <-g.Uncertain(): // ask anew each time: another channel tells of the next danger
			if !pause(ctx, time.Second) {
				return
			}
			continue
		default:
		}
		round(ctx, g)
		select {
		case <-g.Wanted():
			log.Print("gives way, with token ", g.Token())
			return
		case <-ctx.Done():
			return
		default:
		}
	}
}

// pause waits, and reports false if ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// round is work that is not cut short.
func round(ctx context.Context, g channelapi.Grant) {
	log.Print("leads, with token ", g.Token())
	pause(ctx, 5*time.Second)
}
