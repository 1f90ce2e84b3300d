// Command holders tells who holds which lock, and then each change, from the event log.
//
// The log is all that it needs. Nothing asks the locks, their agents or their store. What holds
// there are is the fold of all events, from the oldest to any point:
//
//   - [events.Reader] reads the log. Replay ends with the events that are there, Tail goes on.
//   - [events.Fold] is what the events up to now add up to. Events of different agents may arrive in
//     any order, and more than once: the outcome is the same. Apply returns what an event has changed.
//   - A record has a Position in the log. Whoever has applied all up to one reads on behind it.
//   - A record has a Time, by the clock of its agent. When the stream took it says little: a forwarder
//     brings what happened during an outage when that is over.
//
// Start it with a NATS server that has a log:
//
//	go run ./examples/holders -nats nats://127.0.0.1:4222
//	go run ./examples/holders -at 2026-11-21T14:03:07Z     # begin with who held what then
package main

import (
	"cmp"
	"context"
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
	"github.com/lockagent/lockagent/events/audit"
	"github.com/lockagent/lockagent/events/natslog"
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
	reader, err := natslog.OpenReader(natslog.ReaderConfig{Connection: natslog.Connection{URL: url}})
	if err != nil {
		return err
	}
	defer reader.Close()

	fold := audit.NewFold()
	next, err := rebuild(ctx, reader, fold, point)
	if err != nil {
		return err
	}
	show(out, fold, point)

	return reader.Tail(ctx, natslog.FromPosition(next), events.Filter{}, func(r *events.Record, err error) error {
		if err != nil {
			log.Print(err) // not an event, or events were lost: the rest still counts
			return nil
		}
		for _, c := range fold.Apply(*r) { // a record that was applied before changes nothing
			switch h := c.Hold; c.Kind {
			case audit.HoldGranted:
				fmt.Fprintf(out, "+ %s: %s holds it, token %d\n", h.Lock, h.Owner, h.Token)
			case audit.HoldEnded:
				fmt.Fprintf(out, "- %s: %s held it for %v, %s\n", h.Lock, h.Owner, h.Held, h.Ended)
			case audit.HoldSuperseded: // the log does not have its end
				fmt.Fprintf(out, "- %s: %s does not hold it any more\n", h.Lock, h.Owner)
			}
		}
		return nil
	})
}

// rebuild applies all records up to a point in time. It returns the position of the first record that it
// has not applied. Behind that are records of other agents that it has.
func rebuild(ctx context.Context, reader *natslog.Reader, fold *audit.Fold, point time.Time) (next uint64, err error) {
	later := make(map[lockagent.AgentID]bool) // the records of an agent are applied in their order
	last := uint64(0)
	err = reader.Replay(ctx, natslog.From{}, events.Filter{}, func(r *events.Record, err error) error {
		last = r.Position
		switch {
		case err != nil:
		case later[r.Agent] || r.Time.After(point):
			later[r.Agent], next = true, cmp.Or(next, r.Position)
		default:
			fold.Apply(*r)
		}
		return nil
	})
	return cmp.Or(next, last+1), err
}

func show(out io.Writer, fold *audit.Fold, point time.Time) {
	locks := slices.SortedFunc(fold.Locks(), func(a, b audit.LockState) int { return cmp.Compare(a.Lock, b.Lock) })
	held := 0
	for _, l := range locks {
		for _, h := range l.Now() {
			held++
			fmt.Fprintf(out, "%s: %s, token %d, since %s, %d waiting\n", l.Lock, h.Owner, h.Token, h.From.Local().Format(time.DateTime), len(l.Waiters))
		}
		for _, h := range l.Left {
			if end := time.UnixMicro(int64(h.LeaseEnd())); end.After(point) {
				fmt.Fprintf(out, "%s: nobody, but the lease of %s stays until %s\n", l.Lock, h.Owner, end.Local().Format(time.DateTime))
			}
		}
	}
	fmt.Fprintf(out, "%d held\n", held)
}
