package natslog

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/internal/queue"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	"github.com/lockagent/lockagent/internal/waittest"
)

// BenchmarkForward forwards a backlog between two servers in this process, over loopback, both with
// file stores. It compares that with publishing the backlog, and with reading it without looking at
// it, in elapsed time and in time of the processor for all parts together. Below one, forwarding is
// faster.
func BenchmarkForward(b *testing.B) {
	batches := func(*jetstream.StreamConfig) {}
	singly := func(cfg *jetstream.StreamConfig) { cfg.AllowAtomicPublish = false }
	b.Run("AgentAtFullRate", func(b *testing.B) { benchmarkForward(b, holds, batches) })
	b.Run("SmallMessages", func(b *testing.B) { benchmarkForward(b, smallMessages, batches) })
	b.Run("SmallMessagesSingly", func(b *testing.B) { benchmarkForward(b, smallMessages, singly) })
}

func benchmarkForward(b *testing.B, publish func(*testing.B, Connection), change func(*jetstream.StreamConfig)) {
	from := Connection{URL: natstest.Start(b, natsserver.Config{Listen: "127.0.0.1:0"}).URL()}
	to := Connection{URL: natstest.Start(b, natsserver.Config{Listen: "127.0.0.1:0"}).URL()}
	for _, c := range []Connection{from, to} {
		streamFor(b, client(b, c), func(cfg *jetstream.StreamConfig) {
			cfg.Compression = jetstream.S2Compression
			change(cfg)
		})
	}
	published := costOf(b, func() { publish(b, from) })
	messages := uint64(0)
	reading := costOf(b, func() {
		for next := read(b, from); next() != nil; {
			messages++
		}
	})

	b.ReportAllocs()
	b.ResetTimer()
	f, err := NewForwarder(ForwardConfig{
		Source: ReaderConfig{Connection: from}, Hub: ReaderConfig{Connection: to}, Logger: testLogger(b),
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	ended := make(chan error, 1)
	forwarded := costOf(b, func() {
		go func() { ended <- f.Run(ctx) }()
		waittest.Until(b, "all is forwarded", func() bool { return f.Stats().Forwarded == messages })
	})
	b.StopTimer()
	cancel()
	<-ended
	for name, other := range map[string]cost{"reading": reading, "publishing": published} {
		b.ReportMetric(float64(forwarded.elapsed)/float64(other.elapsed), "x-"+name)
		b.ReportMetric(float64(forwarded.processor)/float64(other.processor), "processor-x-"+name)
	}
	b.ReportMetric(float64(messages)/float64(b.N), "messages/op")
}

// cost is what something takes.
type cost struct{ elapsed, processor time.Duration }

func costOf(b *testing.B, do func()) cost {
	begin, used := time.Now(), processorTime(b)
	do()
	return cost{time.Since(begin), processorTime(b) - used}
}

// holds publishes what an agent tells of b.N holds, as fast as it can.
func holds(b *testing.B, c Connection) {
	p := newPublisher(b, Config{Connection: c})
	l := newLoad(p, 100)
	for n := range b.N {
		l.pair()
		if n%(DefaultQueueSize/4) == 0 { // nothing is dropped
			flushed(b, p)
		}
	}
	flushed(b, p)
}

// smallMessages publishes b.N messages of the usual size, as fast as a client can.
func smallMessages(b *testing.B, c Connection) {
	js := client(b, c)
	body := make([]byte, 500)
	for n := range b.N {
		id := queue.MessageID{Agent: "a", Epoch: 1, First: uint64(n) + 1, Last: uint64(n) + 1}
		_, err := js.PublishMsgAsync(&nats.Msg{
			Subject: events.DefaultPrefix + ".a.lock.orders.42", Data: body,
			Header: nats.Header{"Content-Type": {events.ContentType}, jetstream.MsgIDHeader: {id.String()}},
		})
		if err != nil {
			b.Fatal(err)
		}
		if n%1000 == 0 { // more under way would be an error
			<-js.PublishAsyncComplete()
		}
	}
	<-js.PublishAsyncComplete()
}
