package natslog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/internal/queue"
	"github.com/lockagent/lockagent/memstore"
)

// virtualStream stands for a stream in virtual time, because no connection to a server can be made there.
// It keeps the messages of publishers in the order of their arrival. All of a publisher but the
// connection is the real one: its queue, its packer, its outbox and the loop that sends.
type virtualStream struct {
	mu       sync.Mutex
	messages []virtualMessage // guarded by mu
}

type virtualMessage struct {
	id      string
	content string // its media type
	body    []byte
	at      time.Time
}

// records decodes all messages.
func (v *virtualStream) records(t testing.TB) (all []events.Record) {
	t.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	for i, m := range v.messages {
		err := events.DecodeMessage(m.content, m.body, func(r events.Record) error {
			r.Position, r.Stored = uint64(i)+1, m.at
			all = append(all, r)
			return nil
		})
		if err != nil {
			t.Fatalf("message %s: %v", m.id, err)
		}
	}
	return all
}

// last is the place of the last record of an agent, as the sender looks it up in a stream.
func (v *virtualStream) last(agent lockagent.AgentID) events.Place {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, m := range slices.Backward(v.messages) {
		if id, ok := queue.ParseMessageID(m.id); ok && id.Agent == agent {
			return events.Place{Epoch: id.Epoch, Seq: id.Last}
		}
	}
	return events.Place{}
}

// virtualAgent is an agent with its locks and its publisher.
type virtualAgent struct {
	*channelapi.Locks
	stream *virtualStream
	store  *memstore.Store
	pub    *Publisher
	ctx    context.Context // of what works with the locks; ends with the agent
	end    context.CancelFunc

	mu        sync.Mutex
	reachable chan struct{} // guarded by mu; closed if the stream can be reached
	sender    *sender       // of the goroutine that sends, but for acknowledged and fail
}

// start starts an agent. Its store is another Share of the memory.
func (v *virtualStream) start(
	t testing.TB, ctx context.Context, id lockagent.AgentID, epoch uint64, memory *memstore.Store,
) *virtualAgent {
	t.Helper()
	cfg := Config{Agent: id, Epoch: epoch, Connection: Connection{URL: "nats://nowhere", Logger: testLogger(t)}}
	if err := cfg.check(); err != nil {
		t.Fatal(err)
	}
	b := &virtualAgent{stream: v, store: memory.Share(), pub: unstarted(cfg), reachable: make(chan struct{})}
	close(b.reachable)
	b.ctx, b.end = context.WithCancel(ctx)
	sending, stop := context.WithCancel(context.Background())
	b.pub.stop = stop
	b.sender = newSender(b.pub)
	b.sender.post, b.sender.looked, b.sender.packer.Follows = b.take, time.Now(), v.last(id)
	go b.run(sending)
	var err error
	if b.Locks, err = channelapi.New(channelapi.Config{ID: id, Store: b.store, Recorder: b.pub}); err != nil {
		t.Fatal(err)
	}
	return b
}

// run is the goroutine of the publisher. Each of its sessions begins as that of a sender with a
// connection does.
func (b *virtualAgent) run(ctx context.Context) {
	defer close(b.pub.done)
	s := b.sender
	for ctx.Err() == nil {
		b.mu.Lock()
		reachable := b.reachable
		b.mu.Unlock()
		select {
		case <-reachable:
		case <-ctx.Done():
			return
		}
		session, end := context.WithCancelCause(ctx)
		b.pub.mu.Lock()
		s.session++
		s.end = end
		b.pub.outbox.begin()
		b.pub.mu.Unlock()
		_ = s.send(session)
		end(nil)
	}
}

// take is what the connection does: it brings a message to the stream, and its acknowledgement back.
func (b *virtualAgent) take(m *nats.Msg) error {
	b.mu.Lock()
	reachable := b.reachable
	b.mu.Unlock()
	select {
	case <-reachable:
	default:
		return errDisconnected
	}
	v := b.stream
	v.mu.Lock()
	v.messages = append(v.messages, virtualMessage{
		id: m.Header.Get(jetstream.MsgIDHeader), content: m.Header.Get("Content-Type"), body: slices.Clone(m.Data),
		at: time.Now(),
	})
	n := len(v.messages)
	v.mu.Unlock()
	b.sender.acknowledged(&nats.Msg{Subject: m.Reply, Data: fmt.Appendf(nil, `{"stream":%q,"seq":%d}`, DefaultStream, n)})
	return nil
}

// cutOff cuts the agent off from the stream until the function that it returns is called.
func (b *virtualAgent) cutOff() (over func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	reachable := make(chan struct{})
	b.reachable = reachable
	b.sender.fail(errDisconnected)
	return func() { close(reachable) }
}

// crash ends the agent as a kill does: nothing that it does from now on reaches the stream or the
// store.
func (b *virtualAgent) crash() {
	b.store.Hang()
	b.store.SetOutage(errors.New("its process is gone")) // nobody listens as the agent any more
	b.pub.stop()
	<-b.pub.done
	b.end()
}

// stop ends the agent as it should end.
func (b *virtualAgent) stop(t testing.TB) {
	t.Helper()
	b.end()
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if err := b.pub.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

// forget lets go of what is left of an agent that has crashed.
func (b *virtualAgent) forget() {
	_ = b.store.Close()
	_ = b.Close() // the store does not confirm anything
	b.pub.mu.Lock()
	b.pub.closed = true
	b.pub.mu.Unlock()
	b.pub.endOverload()
}
