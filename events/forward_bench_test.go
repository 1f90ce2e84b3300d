package events

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
)

// BenchmarkForward forwards a backlog of messages of the usual size between two servers in this
// process, over loopback, both with file stores.
func BenchmarkForward(b *testing.B) {
	for name, atomic := range map[string]bool{"Batches": true, "Singly": false} {
		b.Run(name, func(b *testing.B) { benchmarkForward(b, atomic) })
	}
}

func benchmarkForward(b *testing.B, atomic bool) {
	from := Connection{URL: natstest.Start(b, natsserver.Config{Listen: "127.0.0.1:0"}).URL()}
	to := Connection{URL: natstest.Start(b, natsserver.Config{Listen: "127.0.0.1:0"}).URL()}
	source, hub := client(b, from), client(b, to)
	streamFor(b, source, nil)
	streamFor(b, hub, func(cfg *jetstream.StreamConfig) {
		cfg.AllowAtomicPublish = atomic
		cfg.Compression = jetstream.S2Compression
	})
	body := make([]byte, 500)
	for n := range b.N {
		id := messageID{"a", 1, uint64(n) + 1, uint64(n) + 1}
		_, err := source.PublishMsgAsync(&nats.Msg{
			Subject: DefaultPrefix + ".a.lock.orders.42", Data: body,
			Header: nats.Header{"Content-Type": {ContentType}, jetstream.MsgIDHeader: {id.String()}},
		})
		if err != nil {
			b.Fatal(err)
		}
		if n%1000 == 0 {
			<-source.PublishAsyncComplete()
		}
	}
	<-source.PublishAsyncComplete()
	b.ReportAllocs()
	b.ResetTimer()
	f, err := NewForwarder(ForwardConfig{Source: ReaderConfig{Connection: from}, Hub: ReaderConfig{Connection: to}, Logger: testLogger(b)})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	eventually(b, "all is forwarded", func() bool { n, _ := stored(hub); return n == uint64(b.N) })
	b.StopTimer()
	cancel()
	<-ended
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
}
