package main

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"
)

// relayWorkers measure what it takes at least to wake a process by way of another one. A byte goes from the giver to
// the relay. The relay passes it to the taker.
type relayWorkers struct {
	dir                 string
	relay, giver, taker *worker

	ways  []time.Duration
	quick []time.Duration // between processes that are awake
}

// The ends of a relay, by what they say first.
const (
	relayGiver = "g"
	relayTaker = "t"
)

func startRelay(ctx context.Context) (r *relayWorkers, err error) {
	r = new(relayWorkers)
	if r.dir, err = os.MkdirTemp("", "bench"); err != nil {
		return nil, err
	}
	path := filepath.Join(r.dir, "relay.sock")
	for _, w := range []struct {
		worker **worker
		task   task
	}{
		{&r.relay, task{Role: "relay", Addr: path}},
		{&r.giver, task{Role: "relay-end", Addr: path, Name: relayGiver}},
		{&r.taker, task{Role: "relay-end", Addr: path, Name: relayTaker}},
	} {
		if *w.worker, err = startWorker(ctx, w.task); err == nil {
			err = (*w.worker).hear(new(string)) // that it is ready
		}
		if err != nil {
			r.end()
			return nil, err
		}
	}
	return r, nil
}

func (r *relayWorkers) end() {
	for _, w := range []*worker{r.taker, r.giver, r.relay} {
		if w != nil {
			w.end()
		}
	}
	_ = os.RemoveAll(r.dir)
}

// measure measures a byte after a pause, and one between processes that are awake.
func (r *relayWorkers) measure() error {
	way, err := r.once(pause())
	quick := way
	for i := 0; i < quickOnes && err == nil; i++ {
		quick, err = r.once(quickly)
	}
	if err != nil {
		return err
	}
	r.ways, r.quick = append(r.ways, way), append(r.quick, quick)
	return nil
}

func (r *relayWorkers) once(pause time.Duration) (time.Duration, error) {
	var gave, took moment
	if err := r.taker.say(order{What: "take"}); err != nil {
		return 0, err
	}
	if err := r.giver.ask(order{What: "give", Pause: pause}, &gave); err != nil {
		return 0, err
	}
	if err := r.taker.hear(&took); err != nil {
		return 0, err
	}
	if took.Error != "" {
		return 0, errors.New(took.Error)
	}
	return time.Duration(took.Ended - gave.Began), nil
}

// relayWorker passes on what the giver gives.
func relayWorker(_ context.Context, t *task, parent *conversation) error {
	l, err := net.Listen("unix", t.Addr)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	if err := parent.say("ready"); err != nil {
		return err
	}
	ends := make(map[string]net.Conn)
	for len(ends) < 2 {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		var name [1]byte
		if _, err := io.ReadFull(conn, name[:]); err != nil {
			return err
		}
		ends[string(name[:])] = conn
	}
	var one [1]byte
	for {
		if _, err := io.ReadFull(ends[relayGiver], one[:]); err != nil {
			return nil //nolint:nilerr // it has ended
		}
		if _, err := ends[relayTaker].Write(one[:]); err != nil {
			return err
		}
	}
}

// relayEndWorker is the giver or the taker.
func relayEndWorker(_ context.Context, t *task, parent *conversation) error {
	conn, err := net.Dial("unix", t.Addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	one := []byte(t.Name)
	if _, err := conn.Write(one); err != nil {
		return err
	}
	if err := parent.say("ready"); err != nil {
		return err
	}
	return obey(parent, func(o order) (m moment, err error) {
		m.Began = monotonic()
		if o.What == "give" {
			_, err = conn.Write(one)
		} else {
			_, err = io.ReadFull(conn, one)
		}
		m.Ended = monotonic()
		return m, err
	})
}
