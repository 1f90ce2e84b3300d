package main

import (
	"context"
	"fmt"
	"time"

	"github.com/lockagent/lockagent/bench/contender"
)

// floorWorkers measure the floors of a hand-off, between two processes as well.
type floorWorkers struct {
	waker, hearer *worker

	scripts  []time.Duration // the round trip of a release script
	messages []time.Duration // from PUBLISH until the message is there
	sums     []time.Duration // of the two above
	ones     []time.Duration // from a script that publishes until the message is there
	replies  []time.Duration // the same until the receiver has run a script
}

func (b *bench) startFloors(ctx context.Context, s *server) (*floorWorkers, error) {
	f := new(floorWorkers)
	var err error
	if f.waker, err = startWorker(ctx, task{Role: "floor-wake", Addr: s.Addr()}); err != nil {
		return nil, err
	}
	if f.hearer, err = startWorker(ctx, task{Role: "floor-hear", Addr: s.Addr()}); err != nil {
		f.waker.end()
		return nil, err
	}
	if err := f.hearer.hear(new(string)); err != nil { // that it is subscribed
		f.end()
		return nil, err
	}
	return f, nil
}

func (f *floorWorkers) end() {
	f.waker.end()
	f.hearer.end()
}

// measure measures each floor once.
func (f *floorWorkers) measure() error {
	script, _, err := f.once("release", false)
	if err != nil {
		return err
	}
	way, heard, err := f.once("publish", true)
	if err != nil {
		return err
	}
	one, again, err := f.once("release and publish", true)
	if err != nil {
		return err
	}
	f.scripts = append(f.scripts, time.Duration(script.Ended-script.Began))
	f.messages = append(f.messages, time.Duration(heard.Ended-way.Began))
	f.sums = append(f.sums, f.scripts[len(f.scripts)-1]+f.messages[len(f.messages)-1])
	f.ones = append(f.ones, time.Duration(again.Ended-one.Began))
	f.replies = append(f.replies, time.Duration(again.Again-one.Began))
	return nil
}

// once has the waker do something after a pause, and the hearer hear of it.
func (f *floorWorkers) once(what string, heard bool) (did, got moment, err error) {
	if heard {
		if err := f.hearer.say(order{What: "hear"}); err != nil {
			return did, got, err
		}
	}
	if err := f.waker.ask(order{What: what, Pause: pause()}, &did); err != nil {
		return did, got, err
	}
	if heard {
		if err := f.hearer.hear(&got); err != nil {
			return did, got, err
		}
		if got.Error != "" {
			return did, got, fmt.Errorf("hear: %s", got.Error)
		}
	}
	return did, got, nil
}

const (
	floorName    = "bench/floor"
	floorChannel = "bench/floor"
	wakerToken   = "waker"
	hearerToken  = "hearer"
)

// floorWakeWorker is who releases.
func floorWakeWorker(ctx context.Context, t *task, parent *conversation) error {
	client, err := contender.OpenFloorClient(ctx, t.Addr)
	if err != nil {
		return err
	}
	defer client.Close()
	return obeyHolding(parent, client, func(what string) error {
		switch what {
		case "release":
			return client.Give(ctx, floorName, wakerToken)
		case "publish":
			return client.Publish(ctx, floorChannel)
		default:
			return client.GiveOn(ctx, floorName, wakerToken, floorChannel)
		}
	})
}

// obeyHolding takes the key before the pause of each order, and has given it back
// when the order is answered.
func obeyHolding(parent *conversation, client *contender.FloorClient, do func(what string) error) error {
	ctx := context.Background()
	for {
		var o order
		if parent.hear(&o) != nil {
			return nil // it has ended
		}
		var m moment
		err := client.Take(ctx, floorName, wakerToken)
		if err == nil {
			time.Sleep(o.Pause)
			m.Began = monotonic()
			err = do(o.What)
			m.Ended = monotonic()
		}
		if err == nil && o.What == "publish" {
			err = client.Give(ctx, floorName, wakerToken)
		}
		if err != nil {
			m.Error = err.Error()
		}
		if err := parent.say(m); err != nil {
			return err
		}
	}
}

// floorHearWorker is who is woken.
func floorHearWorker(ctx context.Context, t *task, parent *conversation) error {
	client, err := contender.OpenFloorClient(ctx, t.Addr)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	heard := make(chan int64, 1)
	ready := make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- client.Subscribe(ctx, floorChannel, func() { close(ready) }, func() { heard <- monotonic() })
	}()
	select {
	case <-ready:
	case err := <-ended:
		return err
	}
	if err := parent.say("subscribed"); err != nil {
		return err
	}
	return obey(parent, func(order) (m moment, err error) {
		m.Ended = <-heard
		// The key may be held still, when only a message was published: then the
		// script says so, which costs as much.
		taken := client.Take(ctx, floorName, hearerToken) == nil
		m.Again = monotonic()
		if taken {
			err = client.Give(ctx, floorName, hearerToken)
		}
		return m, err
	})
}
