// Command overtime alerts when a lock is held for longer than a limit, and again when it is free.
//
// It needs nothing but the event log, and disturbs nobody. It reads the log from its beginning, and then follows it,
// with a timer for each hold.
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
	"github.com/lockagent/lockagent/events/fold"
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
	defer w.stop()
	return reader.Tail(ctx, natslog.From{}, events.Filter{}, func(r *events.Record, err error) error {
		if err == nil { // what is no event says nothing of a hold
			w.apply(*r)
		}
		return nil
	})
}

// watch has a timer for each hold that goes on.
type watch struct {
	limit  time.Duration
	alert  func(text string) // also called by the timers
	fold   *fold.Fold
	timers map[hold]*time.Timer
}

// hold identifies a hold: the record that granted it.
type hold struct {
	agent      lockagent.AgentID
	epoch, seq uint64
}

func newWatch(limit time.Duration, alert func(text string)) *watch {
	return &watch{limit: limit, alert: alert, fold: fold.New(), timers: make(map[hold]*time.Timer)}
}

// begin alerts when a hold has passed the limit. If that is long ago, the end of the hold may be the next record.
func (w *watch) begin(h fold.Hold) {
	left := max(time.Until(h.From.Add(w.limit)), w.limit/10)
	w.timers[hold{h.Agent, h.Epoch, h.Seq}] = time.AfterFunc(left, func() {
		w.alert(fmt.Sprintf("%s is held for more than %v: %v", h.Lock, w.limit, h))
	})
}

// apply applies a record, and tells of the end of what was told of. A hold of which the log has no end is superseded
// when the lock is granted to another agent.
func (w *watch) apply(r events.Record) {
	for _, c := range w.fold.Apply(r) {
		switch c.Kind {
		case fold.HoldGranted:
			w.begin(*c.Hold)
		case fold.HoldEnded, fold.HoldSuperseded:
			w.over(c.Hold, c.Kind)
		}
	}
}

// over ends the timer of a hold, or tells how the hold went on if the timer has told of it.
func (w *watch) over(h *fold.Hold, how fold.ChangeKind) {
	id := hold{h.Agent, h.Epoch, h.Seq}
	if timer := w.timers[id]; timer != nil && !timer.Stop() {
		w.alert(fmt.Sprintf("%s: the hold is %v: %v", h.Lock, how, h))
	}
	delete(w.timers, id)
}

func (w *watch) stop() {
	for _, timer := range w.timers {
		timer.Stop()
	}
}
