// Command overtime alerts when a lock is held for longer than a limit, and again when it is free.
//
// It needs nothing but the event log, and disturbs nobody. First it reads the log up to now, to
// learn which holds go on. Then it follows the log, and looks at the clock.
//
//	go run ./examples/overtime -nats nats://127.0.0.1:4222 -limit 10s
//
// How long a hold goes on is measured with two clocks: it began by the clock of its agent, and this
// program has another one. So a limit should be longer than these clocks differ.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/audit"
	"github.com/lockagent/lockagent/events/natslog"
)

func main() {
	url := flag.String("nats", "nats://127.0.0.1:4222", "`URL` of the NATS server")
	limit := flag.Duration("limit", 10*time.Second, "alert on holds that take longer")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *url, *limit, func(text string) { log.Print(text) }); err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}

// run alerts until ctx ends.
func run(ctx context.Context, url string, limit time.Duration, alert func(text string)) error {
	reader, err := natslog.OpenReader(natslog.ReaderConfig{Connection: natslog.Connection{URL: url}})
	if err != nil {
		return err
	}
	defer reader.Close()

	w := newWatch(limit, alert)
	position := uint64(0)
	err = reader.Replay(ctx, natslog.From{}, events.Filter{}, func(r *events.Record, err error) error {
		position = r.Position
		if err == nil {
			w.fold.Apply(*r) // nothing was told yet that could end
		}
		return nil
	})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	records, ended := make(chan events.Record), make(chan error, 1)
	go func() {
		ended <- reader.Tail(ctx, natslog.FromPosition(position+1), events.Filter{}, func(r *events.Record, err error) error {
			if err != nil {
				return nil // what is no event says nothing of a hold
			}
			select {
			case records <- *r:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
		stop()
	}()
	w.follow(ctx, records)
	stop()
	return <-ended
}

// watch knows the holds that go on, and those of which it has told.
type watch struct {
	limit time.Duration
	alert func(text string)
	fold  *audit.Fold
	told  map[hold]bool
}

// hold identifies a hold: the record that granted it.
type hold struct {
	agent      lockagent.AgentID
	epoch, seq uint64
}

func newWatch(limit time.Duration, alert func(text string)) *watch {
	return &watch{limit: limit, alert: alert, fold: audit.NewFold(), told: make(map[hold]bool)}
}

// follow applies the records that come, and looks at the clock often enough for the limit.
func (w *watch) follow(ctx context.Context, records <-chan events.Record) {
	tick := time.NewTicker(max(w.limit/10, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case r := <-records:
			w.apply(r)
		case <-tick.C:
			w.check(time.Now())
		case <-ctx.Done():
			return
		}
	}
}

// check alerts on the holds that have passed the limit.
func (w *watch) check(now time.Time) {
	for l := range w.fold.Locks() {
		for _, h := range l.Now() {
			id := hold{h.Agent, h.Epoch, h.Seq}
			if !w.told[id] && now.Sub(h.From) > w.limit {
				w.told[id] = true
				w.alert(fmt.Sprintf("%s: %s of agent %s on %s holds it for more than %v; %d wait", h.Lock, h.Owner, h.Agent, h.Process.Host, w.limit, len(l.Waiters)))
			}
		}
	}
}

// apply applies a record, and tells of the end of what was told of. A hold of which the log has no end is over when
// the lock is granted to another agent.
func (w *watch) apply(r events.Record) {
	for _, c := range w.fold.Apply(r) {
		h := c.Hold
		if h == nil || !w.told[hold{h.Agent, h.Epoch, h.Seq}] {
			continue
		}
		switch c.Kind {
		case audit.HoldEnded:
			w.alert(fmt.Sprintf("%s: %s held it for %v, until it was %s", h.Lock, h.Owner, h.Held.Round(time.Millisecond), h.Ended))
		case audit.HoldSuperseded:
			w.alert(fmt.Sprintf("%s: %s does not hold it any more; the log does not say since when", h.Lock, h.Owner))
		default:
			continue
		}
		delete(w.told, hold{h.Agent, h.Epoch, h.Seq})
	}
}
