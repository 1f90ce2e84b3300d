package natslog_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/audit"
	"github.com/lockagent/lockagent/events/fold"
	"github.com/lockagent/lockagent/events/natslog"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/memstore"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A program has its event log written, and then reads it.
func Example() {
	server, err := natsserver.Start(natsserver.Config{Temporary: true, Listen: "127.0.0.1:0"}) // in place of your NATS
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = server.Stop() }()

	if err := work(server.URL()); err != nil {
		log.Fatal(err)
	}

	reader, err := natslog.OpenReader(natslog.ReaderConfig{Connection: natslog.Connection{URL: server.URL()}})
	if err != nil {
		log.Fatal(err)
	}
	defer reader.Close()
	auditor := audit.New()
	folded := fold.New()
	err = reader.Replay(context.Background(), natslog.From{}, events.Filter{}, func(r *events.Record, err error) error {
		if err == nil {
			for _, c := range folded.Apply(*r) {
				if c.Kind == fold.HoldEnded {
					fmt.Println(c.Hold.Lock, c.Hold.Ended)
				}
			}
		}
		return auditor.Visit(r, err)
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(auditor.Report().Verdict)
	// Output:
	// orders/42 released
	// proven
}

// A program acts on each hold once. The server remembers how far it has come, so it goes on from there when
// it starts again.
func ExampleConnect() {
	server, err := natsserver.Start(natsserver.Config{Temporary: true, Listen: "127.0.0.1:0"}) // in place of your NATS
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = server.Stop() }()
	if err := work(server.URL()); err != nil {
		log.Fatal(err)
	}

	ctx := context.Background()
	to := natslog.Connection{URL: server.URL()} // and credentials, as for a publisher or a reader
	nc, err := natslog.Connect(to, nats.Name("billing"))
	if err != nil {
		log.Fatal(err)
	}
	defer nc.Close()
	js, err := to.JetStream(nc)
	if err != nil {
		log.Fatal(err)
	}
	consumer, err := js.CreateOrUpdateConsumer(ctx, natslog.DefaultStream, jetstream.ConsumerConfig{
		Durable:       "billing",
		FilterSubject: events.DefaultPrefix + ".*.*.orders.>",
	})
	if err != nil {
		log.Fatal(err)
	}
	message, err := consumer.Next()
	if err != nil {
		log.Fatal(err)
	}
	err = events.DecodeMessage(message.Headers().Get("Content-Type"), message.Data(), func(r events.Record) error {
		fmt.Println(r.Lock) // r.Kind is "held", or "granted" if the hold had not ended when the record was written
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := message.DoubleAck(ctx); err != nil { // all of it is done
		log.Fatal(err)
	}
	// Output: orders/42
}

// work is a program whose locks have an event log.
func work(url string) (err error) {
	ctx := context.Background()
	id := channelapi.NewAgentID()
	publisher, err := natslog.NewPublisher(natslog.Config{Connection: natslog.Connection{URL: url}, Agent: id})
	if err != nil {
		return err
	}
	store := memstore.New()                                                                    // or redisstore.Open
	locks, err := channelapi.New(channelapi.Config{ID: id, Store: store, Recorder: publisher}) // one identity for both
	if err != nil {
		return err
	}
	defer func() {
		// The locks come first: until they are closed there are events. A server that is away does
		// not keep the program for longer than this.
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		err = errors.Join(err, locks.Close(), publisher.Close(ctx), store.Close())
	}()
	return locks.Lock("orders/42").Do(ctx, func(context.Context, channelapi.Grant) error { return nil })
}
