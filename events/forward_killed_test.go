package events

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent"
)

// These make TestForwardKilled go on for longer, and repeat what it did.
const (
	killRounds = "LOCKAGENT_TEST_KILL_ROUNDS"
	killSeed   = "LOCKAGENT_TEST_KILL_SEED"
)

// forwardPart is a forwarder.
func forwardPart() int {
	f, err := NewForwarder(ForwardConfig{
		Source: ReaderConfig{Connection: Connection{URL: setting("FROM")}},
		Hub:    ReaderConfig{Connection: Connection{URL: setting("TO")}},
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		untilOrphaned()
		cancel()
	}()
	fmt.Println("started")
	_ = f.Run(ctx)
	return 0
}

// forwarderProcess is a forwarder in a process of its own.
type forwarderProcess struct{ *child }

func (p forwarderProcess) start() {
	p.t.Helper()
	if line := p.child.start(); line != "started" {
		p.t.Fatalf("the forwarder said %q", line)
	}
}

// stored returns how many messages a stream has, and false if the server does not say.
func stored(js jetstream.JetStream) (uint64, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	stream, err := js.Stream(ctx, DefaultStream)
	if err != nil {
		return 0, false
	}
	return stream.CachedInfo().State.Msgs, true
}

// TestForwardKilled kills two parts at once, again and again, at any moment: the source, the hub,
// the forwarder, and the agents that publish all the time. In the end the hub is the source, and has
// all that the source ever acknowledged.
func TestForwardKilled(t *testing.T) {
	t.Parallel()
	rounds, seed := 6, rand.Uint64()
	for name, set := range map[string]func(uint64){
		killRounds: func(n uint64) { rounds = int(n) },
		killSeed:   func(n uint64) { seed = n },
	} {
		if text := os.Getenv(name); text != "" {
			n, err := strconv.ParseUint(text, 10, 64)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			set(n)
		}
	}
	defer func() {
		if t.Failed() {
			t.Logf("to repeat the order of events: %s=%d %s=%d", killSeed, seed, killRounds, rounds)
		}
	}()
	random := rand.New(rand.NewPCG(seed, 0))

	source, hub := newProcess(t), newProcess(t)
	source.start()
	hub.start()
	sourceJS, hubJS := client(t, Connection{URL: source.url}), client(t, Connection{URL: hub.url})
	// The hub forgets message ids at once: they are not what this rests on.
	streamFor(t, hubJS, func(cfg *jetstream.StreamConfig) { cfg.Duplicates = 100 * time.Millisecond })
	forwarder := forwarderProcess{newChild(t, "forwarder", map[string]string{"FROM": source.url, "TO": hub.url})}
	forwarder.start()
	publishers := []*publisherProcess{newPublisherProcess(t, source.url, "first"), newPublisherProcess(t, source.url, "second")}
	for _, p := range publishers {
		p.start()
	}

	type part interface {
		kill()
		start()
	}
	victims := []part{source, hub, forwarder, publishers[0], publishers[1]}
	var before uint64
	for round := range rounds {
		more := random.Uint64N(300)
		eventually(t, fmt.Sprintf("the hub gets messages in round %d", round), func() bool {
			n, ok := stored(hubJS)
			if !ok || n <= before+more {
				return false
			}
			before = n
			return true
		})
		random.Shuffle(len(victims), func(i, j int) { victims[i], victims[j] = victims[j], victims[i] })
		victims[0].kill()
		<-time.After(time.Duration(random.IntN(50)) * time.Millisecond) // any moment
		victims[1].kill()
		first := random.IntN(2)
		victims[first].start()
		victims[1-first].start()
	}
	for _, p := range publishers {
		p.end()
	}
	var n uint64
	eventually(t, "the source says what it has", func() (ok bool) { n, ok = stored(sourceJS); return ok })
	eventually(t, fmt.Sprintf("the hub has %d messages", n), func() bool { got, _ := stored(hubJS); return got >= n })
	wantSameStream(t, Connection{URL: source.url}, Connection{URL: hub.url})

	all, report := replayed(t, Connection{URL: hub.url}, "")
	_, want := replayed(t, Connection{URL: source.url}, "")
	if !reflect.DeepEqual(report, want) {
		t.Errorf("the audit of the hub says\n%v\nthat of the source\n%v", report, want)
	}
	if report.Verdict != Proven || report.Gaps.Count != 0 || report.Duplicates != 0 || report.Grants == 0 {
		t.Errorf("the audit of the hub says %v", report)
	}
	last := make(map[lockagent.AgentID]map[uint64]uint64) // the number of the last record of each epoch
	for _, r := range all {
		if last[r.Agent] == nil {
			last[r.Agent] = make(map[uint64]uint64)
		}
		last[r.Agent][r.Epoch] = r.Seq
	}
	for _, p := range publishers {
		for i, acked := range p.acked {
			if got, want := last[p.agent][uint64(i)+1], acked.Load(); got < want {
				t.Errorf("agent %s, epoch %d: the hub has %d records, and %d were acknowledged", p.agent, i+1, got, want)
			}
		}
	}
	t.Logf("%d messages, %d records, %v", n, len(all), report.Verdict)
}

// wantSameStream fails the test unless both streams have the same messages in the same order. The
// headers with which their writers asked for something may differ.
func wantSameStream(t testing.TB, source, hub Connection) {
	t.Helper()
	want, got := read(t, source), read(t, hub)
	for i := 1; ; i++ {
		a, b := want(), got()
		if a != b {
			t.Fatalf("message %d of the hub is\n%+v\nwant\n%+v", i, b, a)
		}
		if a == (copied{}) {
			return
		}
	}
}

// read returns a function that returns the messages of a stream, and zero at its end.
func read(t testing.TB, c Connection) func() copied {
	t.Helper()
	stream, err := client(t, c).Stream(testContext(t), DefaultStream)
	if err != nil {
		t.Fatal(err)
	}
	left := stream.CachedInfo().State.Msgs
	consumer, err := stream.OrderedConsumer(testContext(t), jetstream.OrderedConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	messages, err := consumer.Messages()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(messages.Stop)
	return func() copied {
		if left == 0 {
			return copied{}
		}
		left--
		m, err := messages.Next(jetstream.NextContext(testContext(t)))
		if err != nil {
			t.Fatal(err)
		}
		return copiedOf(m.Subject(), m.Headers(), m.Data())
	}
}

func copiedOf(subject string, h map[string][]string, body []byte) copied {
	id := strings.Join(h[jetstream.MsgIDHeader], ",")
	h = maps.Clone(h)
	maps.DeleteFunc(h, func(key string, _ []string) bool {
		return key == originHeader || strings.HasPrefix(key, "Nats-")
	})
	return copied{id, subject, fmt.Sprint(h), string(body)}
}
