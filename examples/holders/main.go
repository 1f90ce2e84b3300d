// Command holders tells who holds which lock, and then each change, from the event log.
//
// The log is all that it needs. Nothing asks the locks, their agents or their store. What holds
// there are is the fold of all events, from the oldest to any point:
//
//   - [natslog.Reader] reads the log. Replay ends with the events that are there, Tail goes on.
//   - [fold.Fold] is what the events up to now add up to. Events of different agents may arrive in
//     any order, and more than once: the outcome is the same. Apply returns what an event has changed.
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
	"github.com/lockagent/lockagent/events/fold"
	"github.com/lockagent/lockagent/events/natslog"
)

func main() {
	url := flag.String("nats", "nats://127.0.0.1:4222", "`URL` of the NATS server")
	var point time.Time
	flag.TextVar(&point, "at", time.Now(), "begin with who held what at this `time`")
	flag.Parse()
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

	folded := fold.New()
	next, err := rebuild(ctx, reader, folded, point)
	if err != nil {
		return err
	}
	show(out, folded, point)

	return reader.Tail(ctx, natslog.FromPosition(next), events.Filter{}, func(r *events.Record, err error) error {
		if err != nil {
			log.Print(err) // not an event, or events were lost: the rest still counts
			return nil
		}
		for _, c := range folded.Apply(*r) { // a record that was applied before changes nothing
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

// rebuild applies all records up to a point in time. It returns the position to read on from. Some records behind that
// are applied already.
func rebuild(ctx context.Context, reader *natslog.Reader, folded *fold.Fold, point time.Time) (next uint64, err error) {
	later := make(map[lockagent.AgentID]bool) // the records of an agent are applied in their order
	err = reader.Replay(ctx, natslog.From{}, events.Filter{}, func(r *events.Record, err error) error {
		later[r.Agent] = later[r.Agent] || r.Time.After(point)
		switch {
		case err != nil:
		case !later[r.Agent]:
			folded.Apply(*r)
		case next == 0:
			next = r.Position
		}
		return nil
	})
	return cmp.Or(next, folded.Position()), err
}

// show tells who held what at a point in time.
func show(out io.Writer, folded *fold.Fold, point time.Time) {
	locks := slices.SortedFunc(folded.Locks(), func(a, b fold.LockState) int { return cmp.Compare(a.Lock, b.Lock) })
	held := 0
	for _, l := range locks {
		for _, h := range l.Now() {
			held++
			fmt.Fprintf(out, "%s: %v, %d waiting\n", l.Lock, h, len(l.Waiters))
		}
		for _, h := range l.Left {
			if end := time.UnixMicro(int64(h.LeaseEnd())); end.After(point) {
				fmt.Fprintf(out, "%s: nobody, but the lease of %s stays until %v\n", l.Lock, h.Owner, end)
			}
		}
	}
	fmt.Fprintf(out, "%d held\n", held)
}
