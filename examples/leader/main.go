// Command leader runs a scheduler on one of several hosts.
//
// Start it twice with -redis redis://localhost:6379, and stop the one that leads. With -yield the two take turns: the
// leader gives way after a job if another host waits.
//
// The scheduler needs up to three seconds to stop. Config.Margin gives it this time: a leader that has lost its
// connection to the store is told that its lead is over, and nobody else can lead in the three seconds that follow. A
// warning comes some time before. From then on the leader begins no job.
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

const stopping = 3 * time.Second

func main() {
	redis := flag.String(
		"redis", "", "URL of the Redis that has the lock, such as redis://localhost:6379; if empty, it is in memory",
	)
	yield := flag.Bool("yield", false, "give way when another host waits")
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
	locks, err := open(store, "leader-example")
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	job := func(token channelapi.Token) { log.Print("leading, with token ", token) }
	schedule := func(ctx context.Context, g channelapi.Grant) { schedule(ctx, g, job, *yield) }
	err = lead(ctx, locks, schedule, func() { log.Print("standing by") })
	if !errors.Is(err, context.Canceled) {
		log.Print(err)
	}
}

func open(store channelapi.Store, label string) (*channelapi.Locks, error) {
	return channelapi.New(channelapi.Config{Store: store, Label: label, Margin: stopping + 2*time.Second})
}

// lead has the host lead whenever it is its turn, until ctx ends.
func lead(
	ctx context.Context, locks *channelapi.Locks, schedule func(context.Context, channelapi.Grant), standBy func(),
) error {
	tick := time.NewTicker(10 * time.Second)
	defer tick.Stop()
	turns := locks.Lock("scheduler").Turns(ctx) // once, before the loop
	for {
		select {
		case g := <-turns:
			if err := g.Err(); err != nil {
				return err
			}
			schedule(g.Context(ctx), g)
			if err := g.Release(context.WithoutCancel(ctx)); err != nil {
				log.Print("leads no more: ", err)
			}
		case <-tick.C:
			standBy()
		}
	}
}

// schedule starts a job every five seconds with the token of the leader, until ctx ends. If the leader yields, schedule
// also ends when somebody else wants to lead.
func schedule(ctx context.Context, g channelapi.Grant, job func(channelapi.Token), yields bool) {
	var wanted <-chan struct{} // nil: never
	if yields {
		wanted = g.Wanted()
	}
	for {
		select {
		case <-g.Uncertain(): // ask anew each time: another channel tells of the next danger
			log.Print("in danger")
		default:
			job(g.Token())
		}
		select {
		case <-time.After(5 * time.Second):
		case <-ctx.Done():
			log.Print("stopping: ", context.Cause(ctx))
			return
		}
		select {
		case <-wanted:
			log.Print("giving way")
			return
		default:
		}
	}
}
