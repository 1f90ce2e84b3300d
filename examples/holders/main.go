// Command holders tells who holds which lock, and then each change, from the event log.
//
// The log is all that it needs. Nothing asks the locks, their agents or their store. What holds
// there are is the fold of all events, from the oldest to any point:
//
//   - [events.Reader] reads the log. Replay ends with the events that are there, Tail goes on.
//   - [events.Fold] is what the events up to now add up to. Events of different agents may arrive in
//     any order, and more than once: the outcome is the same.
//   - A record has a Position in the log. Whoever has applied all up to one reads on behind it.
//
// Start it with a NATS server that has a log:
//
//	go run ./examples/holders -nats nats://127.0.0.1:4222
//	go run ./examples/holders -at 2026-11-21T14:03:07Z     # begin with who held what then
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"slices"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
)

func main() {
	url := flag.String("nats", "nats://127.0.0.1:4222", "`URL` of the NATS server")
	at := flag.String("at", "", "begin with who held what at this `time`, as in 2026-11-21T14:03:07Z; by default now")
	flag.Parse()
	point := time.Now()
	if *at != "" {
		var err error
		if point, err = time.Parse(time.RFC3339, *at); err != nil {
			log.Fatal(err)
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *url, point, os.Stdout); err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}

// run tells who held what at a point in time, and what has changed since, until ctx ends.
func run(ctx context.Context, url string, point time.Time, out io.Writer) error {
	reader, err := events.OpenReader(events.ReaderConfig{Connection: events.Connection{URL: url}})
	if err != nil {
		return err
	}
	defer reader.Close()

	follow := false // tell of changes
	fold := events.NewFold(events.FoldConfig{Ended: func(h *events.Hold) {
		if follow {
			fmt.Fprintf(out, "- %s: %s held it for %v, %s\n", h.Lock, h.Owner, h.Held, h.Ended)
		}
	}})
	next, err := rebuild(ctx, reader, fold, point)
	if err != nil {
		return err
	}
	show(out, fold)

	follow = true
	return reader.Tail(ctx, events.FromPosition(next), events.Filter{}, func(r events.Record, err error) error {
		if err != nil {
			log.Print(err) // not an event, or events were lost: the rest still counts
			return nil
		}
		fold.Apply(r)
		if r.Kind == lockagent.EventGranted {
			fmt.Fprintf(out, "+ %s: %s holds it, token %d\n", r.Lock, r.Owner, r.Token)
		}
		return nil
	})
}

// errLater ends a replay at a record that came later than the point.
var errLater = errors.New("later")

// rebuild applies all records up to a point in time. It returns the position of the next record.
func rebuild(ctx context.Context, reader *events.Reader, fold *events.Fold, point time.Time) (next uint64, err error) {
	err = reader.Replay(ctx, events.From{}, events.Filter{}, func(r events.Record, err error) error {
		if r.Stored.After(point) {
			next = r.Position
			return errLater
		}
		next = r.Position + 1
		if err == nil {
			fold.Apply(r)
		}
		return nil
	})
	if errors.Is(err, errLater) {
		return next, nil
	}
	return next, err
}

func show(out io.Writer, fold *events.Fold) {
	locks := slices.SortedFunc(fold.Locks(), func(a, b events.LockState) int { return cmp.Compare(a.Lock, b.Lock) })
	held := 0
	for _, l := range locks {
		for _, h := range l.Now() {
			held++
			fmt.Fprintf(out, "%s: %s, token %d, since %s, %d waiting\n", l.Lock, h.Owner, h.Token, h.From.Local().Format(time.DateTime), len(l.Waiters))
		}
	}
	fmt.Fprintf(out, "%d held\n", held)
}
