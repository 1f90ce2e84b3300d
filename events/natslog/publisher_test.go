package natslog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/internal/eventstest"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	"github.com/lockagent/lockagent/internal/waittest"
)

// TestPublish records every kind of event, on connections of each sort.
func TestPublish(t *testing.T) {
	inProcess := natstest.Start(t, natsserver.Config{})
	loopback := natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"})
	for name, c := range map[string]Connection{
		"InProcess": {InProcess: inProcess},
		"Loopback":  {URL: loopback.URL()},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPublisher(t, Config{Connection: c, Epoch: 3, Prefix: "my.locks"})
			var want []events.Record
			for i, kind := range lockagent.EventKinds() {
				e := eventstest.Full(kind)
				if i%2 == 0 {
					e.TraceParent = ""
				}
				if !recorded(kind) || kind == lockagent.EventRenewed {
					continue // no agent records it, or off by default
				}
				e.Lock = lockagent.Name(fmt.Sprint("billing/invoices/", i)) // nothing is merged
				e.Request = uint64(i)
				r := events.Record{Event: e, Epoch: 3, Seq: uint64(len(want)) + 1}
				want = append(want, r)
				e.Agent = "somebody else"
				p.Record(t.Context(), e)
				flushed(t, p)
			}
			wantStats(t, p, Stats{Recorded: uint64(len(want)), Published: uint64(len(want))})

			got := written(t, c, "")
			if !slices.EqualFunc(got, want, equal) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
			for i, m := range messages(t, client(t, c), DefaultStream) {
				header := nats.Header{
					"Content-Type": {events.ContentType},
					"Nats-Msg-Id":  {fmt.Sprintf("%s:3:%d", eventstest.Agent, i+1)},
				}
				if want[i].TraceParent != "" {
					header["traceparent"] = []string{want[i].TraceParent}
				}
				for _, added := range []string{"Nats-Sequence", "Nats-Stream", "Nats-Subject", "Nats-Time-Stamp"} {
					m.Header.Del(added)
				}
				if !maps.EqualFunc(m.Header, header, slices.Equal) {
					t.Errorf("headers %v, want %v", m.Header, header)
				}
				class := events.Class(want[i].Kind)
				subject := "my.locks." + string(eventstest.Agent) + "." + class + "." +
					strings.ReplaceAll(string(want[i].Lock), "/", ".")
				if m.Subject != subject {
					t.Errorf("subject %s, want %s", m.Subject, subject)
				}
			}
			if err := p.Close(waittest.Context(t)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestBatch looks at the message that a few events travel in.
func TestBatch(t *testing.T) {
	c := Connection{InProcess: natstest.Start(t, natsserver.Config{})}
	p := newPublisher(t, Config{Connection: c, Linger: maxLinger})
	for n := range uint64(3) {
		for _, e := range []lockagent.Event{
			eventstest.Step(lockagent.EventRequested, "a", n+1), eventstest.Step(lockagent.EventGranted, "a", n+1),
			eventstest.Step(lockagent.EventReleased, "a", n+1),
		} {
			p.Record(t.Context(), e)
		}
	}
	flushed(t, p)
	wantStats(t, p, Stats{Recorded: 9, Published: 9})
	if s := p.Stats(); s.Records != 3 || s.Messages != 2 {
		t.Errorf("got %+v", s)
	}
	all := messages(t, client(t, c), DefaultStream)
	if len(all) != 2 || all[1].Header.Get("Content-Type") != events.BatchContentType ||
		all[1].Header.Get("Nats-Msg-Id") != string(eventstest.Agent)+":1:2-3" {
		t.Fatalf("got %+v", all)
	}
	for i, r := range written(t, c, "") {
		if r.Kind != lockagent.EventHeld || r.Seq != uint64(i)+1 || r.Request != r.Seq {
			t.Errorf("record %d: %+v", i, r)
		}
	}
}

func TestRenewalsIfAskedFor(t *testing.T) {
	c := Connection{InProcess: natstest.Start(t, natsserver.Config{})}
	p := newPublisher(t, Config{Connection: c, Renewals: true})
	p.Record(t.Context(), lockagent.Event{Kind: lockagent.EventRenewed, Lock: "a", Tenure: 1, StoreTime: 2})
	flushed(t, p)
	if got := written(t, c, ""); len(got) != 1 || got[0].Kind != lockagent.EventRenewed {
		t.Errorf("got %+v", got)
	}
}

func TestStreamIsMade(t *testing.T) {
	server := natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"})
	t.Run(
		"InProcess", func(t *testing.T) { streamIsMade(t, Connection{InProcess: server}, "MINE", jetstream.NoCompression) },
	)
	t.Run(
		"Elsewhere", func(t *testing.T) { streamIsMade(t, Connection{URL: server.URL()}, "THEIRS", jetstream.S2Compression) },
	)
}

func streamIsMade(t *testing.T, c Connection, name string, compression jetstream.StoreCompression) {
	prefix := strings.ToLower(name)
	p := newPublisher(t, Config{Connection: c, Stream: name, Prefix: prefix, MaxBytes: 1 << 20, MaxAge: time.Hour})
	p.Record(t.Context(), requested(1))
	flushed(t, p)
	s, err := client(t, c).Stream(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	got := s.CachedInfo().Config
	if !slices.Equal(got.Subjects, []string{prefix + ".>"}) || got.Storage != jetstream.FileStorage ||
		got.Compression != compression || got.Duplicates != 2*time.Minute || !got.AllowDirect ||
		got.Replicas != 1 || got.MaxBytes != 1<<20 || got.MaxAge != time.Hour || got.Discard != jetstream.DiscardOld {
		t.Errorf("got %+v", got)
	}
}

func TestShortMaxAge(t *testing.T) {
	c := Connection{InProcess: natstest.Start(t, natsserver.Config{})}
	p := newPublisher(t, Config{Connection: c, MaxAge: time.Minute})
	p.Record(t.Context(), requested(1))
	flushed(t, p)
}

// TestEpochs gives an agent one epoch after the other, and then one again.
func TestEpochs(t *testing.T) {
	c := Connection{InProcess: natstest.Start(t, natsserver.Config{})}
	for epoch := uint64(1); epoch <= 3; epoch++ {
		p := newPublisher(t, Config{Connection: c, Epoch: epoch})
		p.Record(t.Context(), lockagent.Event{Kind: lockagent.EventAgentStarted})
		p.Record(t.Context(), requested(1))
		if err := p.Close(waittest.Context(t)); err != nil {
			t.Fatal(err)
		}
	}
	for epoch := uint64(2); epoch <= 3; epoch++ {
		p := newPublisher(t, Config{Connection: c, Epoch: epoch})
		if epoch == 3 { // nothing is left to flush then
			waittest.Until(t, "it has stopped", func() bool { return p.Stats().Err != nil })
		}
		p.Record(t.Context(), requested(1))
		wantStopped(t, p, ErrEpoch)
	}
	all := written(t, c, "")
	if len(all) != 6 {
		t.Fatalf("got %+v", all)
	}
	for i, want := range []events.Place{{}, {Epoch: 1, Seq: 2}, {Epoch: 2, Seq: 2}} {
		if got := all[2*i]; got.Kind != lockagent.EventAgentStarted || got.Follows != want {
			t.Errorf("%+v follows %v, want %v", got, got.Follows, want)
		}
	}
}

// wantStopped wants p to have stopped for a reason, and to say so.
func wantStopped(t *testing.T, p *Publisher, why error) {
	t.Helper()
	if err := p.Flush(waittest.Context(t)); !errors.Is(err, lockagent.ErrClosed) || !errors.Is(err, why) {
		t.Errorf("flush: %v", err)
	}
	if err := p.Stats().Err; !errors.Is(err, why) {
		t.Errorf("got %v, want %v", err, why)
	}
	before := p.Stats()
	p.Record(t.Context(), requested(99))
	if now := p.Stats(); now.Dropped != before.Dropped+1 {
		t.Errorf("got %+v after %+v", now, before)
	}
	if err := p.Close(waittest.Context(t)); !errors.Is(err, why) {
		t.Errorf("close: %v", err)
	}
}

// TestManyRecorders has 64 goroutines record at once. What each of them recorded
// must be in the log once and in its order.
func TestManyRecorders(t *testing.T) {
	t.Parallel()
	const goroutines, each = 64, 100
	c := Connection{InProcess: natstest.Start(t, natsserver.Config{})}
	p := newPublisher(t, Config{Connection: c})
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := range each {
				p.Record(t.Context(), lockagent.Event{
					Kind: lockagent.EventQueued, Lock: lockagent.Name(fmt.Sprint("lock/", g)), Request: uint64(i),
				})
			}
		})
	}
	wg.Wait()
	flushed(t, p)
	next := make(map[lockagent.Name]uint64)
	for i, r := range written(t, c, "") {
		if r.Seq != uint64(i)+1 || r.Request != next[r.Lock] {
			t.Fatalf("%s: request %d after %d", r.Lock, r.Request, next[r.Lock])
		}
		next[r.Lock]++
	}
	wantStats(t, p, Stats{Recorded: goroutines * each, Published: goroutines * each})
}

func TestStreamDeleted(t *testing.T) {
	c := Connection{InProcess: natstest.Start(t, natsserver.Config{})}
	p := newPublisher(t, Config{Connection: c})
	for i := range 10 {
		p.Record(t.Context(), requested(i))
	}
	flushed(t, p)
	if err := client(t, c).DeleteStream(t.Context(), DefaultStream); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		p.Record(t.Context(), requested(i))
	}
	flushed(t, p)
	if all := written(t, c, ""); len(all) != 10 || all[0].Seq != 11 {
		t.Errorf("%d records; %+v", len(all), all)
	}
}

func TestClose(t *testing.T) {
	t.Parallel()
	t.Run("Absent", func(t *testing.T) {
		p := newPublisher(t, Config{Connection: Connection{InProcess: &link{}}, QueueSize: 5})
		for i := range 7 {
			p.Record(t.Context(), requested(i))
		}
		waittest.Until(t, "the publisher knows why", func() bool { return p.Stats().Err != nil })
		ctx, cancel := context.WithCancelCause(t.Context())
		enough := errors.New("enough")
		cancel(enough)
		if err := p.Flush(ctx); !errors.Is(err, enough) || !errors.Is(err, context.Canceled) {
			t.Errorf("flush: %v", err)
		}
		for range 2 {
			err := p.Close(ctx)
			dropped, ok := errors.AsType[*DroppedError](err)
			if !ok || dropped.Dropped != 2 || dropped.Unconfirmed != 5 || !errors.Is(err, syscall.EHOSTDOWN) {
				t.Errorf("close: %v", err)
			}
		}
		p.Record(t.Context(), requested(8))
		if got := p.Stats(); got.Recorded != 8 || got.Dropped != 3 || got.Queued != 5 {
			t.Errorf("got %+v", got)
		}
		if err := p.Flush(t.Context()); !errors.Is(err, lockagent.ErrClosed) {
			t.Errorf("flush: %v", err)
		}
	})
	t.Run("Flushes", func(t *testing.T) {
		c := Connection{InProcess: natstest.Start(t, natsserver.Config{})}
		p := newPublisher(t, Config{Connection: c})
		for i := range 3000 {
			p.Record(t.Context(), requested(i))
		}
		for range 2 {
			if err := p.Close(waittest.Context(t)); err != nil {
				t.Fatal(err)
			}
		}
		wantEverything(t, c, 3000)
		if err := p.Flush(t.Context()); err != nil {
			t.Errorf("there is nothing left to flush: %v", err)
		}
	})
}

func TestFlushEndsWithClose(t *testing.T) {
	p := newPublisher(t, Config{Connection: Connection{InProcess: &link{}}})
	p.Record(t.Context(), requested(1))
	flush := make(chan error)
	go func() { flush <- p.Flush(waittest.Context(t)) }()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Close(ctx); err == nil {
		t.Error("closed as if nothing were lost")
	}
	if err := <-flush; !errors.Is(err, lockagent.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

func TestBadConfig(t *testing.T) {
	there := Connection{URL: "nats://127.0.0.1:4222"}
	for name, test := range map[string]struct {
		cfg  Config
		want error
	}{
		"NoConnection": {Config{Agent: "a"}, lockagent.ErrBadOption},
		"TwoConnections": {
			Config{Agent: "a", Connection: Connection{URL: there.URL, InProcess: &link{}}}, lockagent.ErrBadOption,
		},
		"NoAgent": {Config{Connection: there}, lockagent.ErrBadOption},
		"LongAgent": {
			Config{Connection: there, Agent: lockagent.AgentID(strings.Repeat("a", 65))}, lockagent.ErrBadOption,
		},
		"OddAgent":       {Config{Connection: there, Agent: "a.b"}, lockagent.ErrBadOption},
		"Epoch":          {Config{Connection: there, Agent: "a", Epoch: 1e10}, lockagent.ErrBadOption},
		"Stream":         {Config{Connection: there, Agent: "a", Stream: "a.b"}, lockagent.ErrBadOption},
		"MaxBytes":       {Config{Connection: there, Agent: "a", MaxBytes: -2}, lockagent.ErrBadOption},
		"MaxAge":         {Config{Connection: there, Agent: "a", MaxAge: -1}, lockagent.ErrBadOption},
		"QueueSize":      {Config{Connection: there, Agent: "a", QueueSize: -1}, lockagent.ErrBadOption},
		"Prefix":         {Config{Connection: there, Agent: "a", Prefix: "a..b"}, lockagent.ErrBadOption},
		"Replicas":       {Config{Connection: there, Agent: "a", Replicas: 6}, lockagent.ErrBadOption},
		"Linger":         {Config{Connection: there, Agent: "a", Linger: time.Minute}, lockagent.ErrBadOption},
		"NegativeLinger": {Config{Connection: there, Agent: "a", Linger: -1}, lockagent.ErrBadOption},
		"Heartbeat":      {Config{Connection: there, Agent: "a", Heartbeat: time.Millisecond}, lockagent.ErrBadOption},
		"NoScheme":       {Config{Connection: Connection{URL: "localhost:4222"}, Agent: "a"}, ErrBadURL},
		"OtherScheme":    {Config{Connection: Connection{URL: "redis://localhost"}, Agent: "a"}, ErrBadURL},
		"NoHost":         {Config{Connection: Connection{URL: "nats://"}, Agent: "a"}, ErrBadURL},
		"BadPort":        {Config{Connection: Connection{URL: "nats://u:secret@host:x"}, Agent: "a"}, ErrBadURL},
		"OneOfTwo":       {Config{Connection: Connection{URL: "nats://a:4222, b:4222"}, Agent: "a"}, ErrBadURL},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := NewPublisher(test.cfg)
			if !errors.Is(err, test.want) {
				t.Errorf("got %v, %v; want %v", p, err, test.want)
			}
			if strings.Contains(fmt.Sprint(err), "secret") {
				t.Errorf("a password is shown: %v", err)
			}
		})
	}
}

func TestErrorTexts(t *testing.T) {
	for want, err := range map[string]error{
		"events: 2 dropped and 3 not confirmed":         &DroppedError{Dropped: 2, Unconfirmed: 3},
		"events: 2 dropped and 3 not confirmed: enough": &DroppedError{Dropped: 2, Unconfirmed: 3, Cause: errEnough},
		"events: line 4: enough":                        &events.DecodeError{Position: 4, Err: errEnough},
		`events: message 4, subject "lockagent.v1.x": enough`: &events.DecodeError{
			Position: 4, Subject: "lockagent.v1.x", Err: errEnough,
		},
	} {
		if err.Error() != want {
			t.Errorf("got %q, want %q", err, want)
		}
		if strings.HasSuffix(want, "enough") != errors.Is(err, errEnough) {
			t.Errorf("%v: it does not have its cause", err)
		}
	}
}

// TestConnectionErrorsDoNotFloodTheLog has the client library complain at length.
func TestConnectionErrorsDoNotFloodTheLog(t *testing.T) {
	var out bytes.Buffer
	c := Connection{Logger: slog.New(slog.NewTextHandler(&out, nil))}
	complain := c.errorHandler(nil)
	for range 100 {
		complain(nil, nil, errEnough)
	}
	if got := strings.Count(out.String(), "level=WARN"); got != 1 {
		t.Errorf("%d warnings", got)
	}
}
