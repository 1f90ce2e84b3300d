// Command holders tells who holds which lock, and then each change, from the event log.
//
// The log is all that it needs. Nothing asks the locks, their agents or their store: package fold adds the events up.
// Events of different agents may arrive in any order, and more than once, and the outcome is the same.
//
//	go run ./examples/holders -nats nats://127.0.0.1:4222
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"

	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/fold"
	"github.com/lockagent/lockagent/events/natslog"
)

func main() {
	url := flag.String("nats", "nats://127.0.0.1:4222", "`URL` of the NATS server")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *url, os.Stdout); err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}

// run tells who holds what, and what changes from then on, until ctx ends.
func run(ctx context.Context, url string, out io.Writer) error {
	reader, err := natslog.OpenReader(natslog.ReaderConfig{Connection: natslog.Connection{URL: url}})
	if err != nil {
		return err
	}
	defer reader.Close()

	folded := fold.New()
	apply := func(r *events.Record, err error) []fold.Change {
		if err != nil {
			log.Print(err) // not an event, or events were lost: the rest still counts
			return nil
		}
		return folded.Apply(*r) // a record that was applied before changes nothing
	}
	// Replay ends with the events that are there, and Tail goes on.
	err = reader.Replay(ctx, natslog.From{}, events.Filter{}, func(r *events.Record, err error) error {
		apply(r, err)
		return nil
	})
	if err != nil {
		return err
	}
	for l := range folded.Locks() {
		for _, h := range l.Now() {
			fmt.Fprintf(out, "%s: %v, %d waiting\n", l.Lock, h, len(l.Waiters))
		}
	}
	next := natslog.FromPosition(folded.Position())
	return reader.Tail(ctx, next, events.Filter{}, func(r *events.Record, err error) error {
		for _, c := range apply(r, err) {
			switch c.Kind {
			case fold.HoldGranted:
				fmt.Fprintf(out, "+ %s: %v\n", c.Lock.Lock, c.Hold)
			case fold.HoldEnded, fold.HoldSuperseded: // superseded: the log does not have its end
				fmt.Fprintf(out, "- %s: %v, %v\n", c.Lock.Lock, c.Hold, c.Kind)
			}
		}
		return nil
	})
}
