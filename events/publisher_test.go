package events

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
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
)

func TestPublish(t *testing.T) {
	inProcess := natstest.Start(t, natsserver.Config{})
	loopback := natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"})
	for name, c := range map[string]Connection{
		"InProcess": {InProcess: inProcess},
		"Loopback":  {URL: loopback.URL()},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPublisher(t, Config{Connection: c, Epoch: 3})
			var want []Record
			for i, kind := range lockagent.EventKinds() {
				if kind == lockagent.EventRenewed {
					p.Record(t.Context(), lockagent.Event{Kind: kind, Lock: "off by default"})
					continue
				}
				r := Record{Event: fullRecord(kind).Event, Epoch: 3}
				r.Seq, r.Position = uint64(len(want))+1, uint64(len(want))+1
				if i%2 == 0 {
					r.TraceParent = ""
				}
				want = append(want, r)
				e := r.Event
				e.Agent = "somebody else"
				p.Record(t.Context(), e)
			}
			flushed(t, p)
			n := uint64(len(want))
			if got := p.Stats(); got != (Stats{Recorded: n, Published: n}) {
				t.Errorf("got %+v", got)
			}

			got, _ := replayed(t, c, "")
			for i := range got {
				got[i].Stored = time.Time{}
			}
			if !slices.Equal(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
			for i, m := range messages(t, client(t, c), DefaultStream) {
				header := nats.Header{"Content-Type": {ContentType}, "Nats-Msg-Id": {fmt.Sprintf("%s:3:%d", testAgent, i+1)}}
				if want[i].TraceParent != "" {
					header["traceparent"] = []string{want[i].TraceParent}
				}
				for _, added := range []string{"Nats-Sequence", "Nats-Stream", "Nats-Subject", "Nats-Time-Stamp"} {
					m.Header.Del(added)
				}
				if !maps.EqualFunc(m.Header, header, slices.Equal) {
					t.Errorf("headers %v, want %v", m.Header, header)
				}
				if subject := "lockagent.v1." + string(testAgent) + "." + Class(want[i].Kind) + ".billing.invoices.42"; m.Subject != subject {
					t.Errorf("subject %s, want %s", m.Subject, subject)
				}
			}
			if err := p.Close(testContext(t)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestRenewalsIfAskedFor(t *testing.T) {
	c := Connection{InProcess: natstest.Start(t, natsserver.Config{})}
	p := newPublisher(t, Config{Connection: c, Renewals: true})
	p.Record(t.Context(), lockagent.Event{Kind: lockagent.EventRenewed, Lock: "a", Tenure: 1, StoreTime: 2})
	flushed(t, p)
	if got, _ := replayed(t, c, ""); len(got) != 1 || got[0].Kind != lockagent.EventRenewed {
		t.Errorf("got %+v", got)
	}
}

func TestStreamIsMade(t *testing.T) {
	c := Connection{InProcess: natstest.Start(t, natsserver.Config{})}
	p := newPublisher(t, Config{Connection: c, Stream: "MINE", MaxBytes: 1 << 20, MaxAge: time.Hour})
	p.Record(t.Context(), requested(1))
	flushed(t, p)
	s, err := client(t, c).Stream(t.Context(), "MINE")
	if err != nil {
		t.Fatal(err)
	}
	got := s.CachedInfo().Config
	if !slices.Equal(got.Subjects, []string{"lockagent.v1.>"}) || got.Storage != jetstream.FileStorage ||
		got.Compression != jetstream.S2Compression || got.Duplicates != 2*time.Minute || !got.AllowDirect ||
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
		p.Record(t.Context(), requested(1))
		if err := p.Close(testContext(t)); err != nil {
			t.Fatal(err)
		}
	}
	for epoch := uint64(2); epoch <= 3; epoch++ {
		p := newPublisher(t, Config{Connection: c, Epoch: epoch})
		p.Record(t.Context(), requested(1))
		eventually(t, "the publisher knows why", func() bool { return p.Stats().Err != nil })
		if err := p.Stats().Err; !errors.Is(err, ErrEpoch) {
			t.Errorf("epoch %d: got %v", epoch, err)
		}
	}
	if all, report := replayed(t, c, ""); len(all) != 3 || report.Duplicates != 0 || report.Agents != 1 {
		t.Errorf("%d records; %v", len(all), report)
	}
}

func TestExistingStreamIsLeftAsItIs(t *testing.T) {
	c := Connection{InProcess: natstest.Start(t, natsserver.Config{})}
	js := client(t, c)
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: DefaultStream, Subjects: []string{"lockagent.>"}, MaxMsgs: 3})
	if err != nil {
		t.Fatal(err)
	}
	p := newPublisher(t, Config{Connection: c})
	for i := range 5 {
		p.Record(t.Context(), requested(i))
	}
	flushed(t, p)
	got, report := replayed(t, c, "")
	if len(got) != 3 || got[0].Seq != 3 || report.Verdict != Incomplete {
		t.Errorf("got %+v, %v", got, report)
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
				p.Record(t.Context(), lockagent.Event{Kind: lockagent.EventQueued, Lock: lockagent.Name(fmt.Sprint("lock/", g)), Request: uint64(i)})
			}
		})
	}
	wg.Wait()
	flushed(t, p)
	wantEverything(t, c, goroutines*each)
	next := make(map[lockagent.Name]uint64)
	all, _ := replayed(t, c, "")
	for _, r := range all {
		if r.Request != next[r.Lock] {
			t.Fatalf("%s: request %d after %d", r.Lock, r.Request, next[r.Lock])
		}
		next[r.Lock]++
	}
}

// wantEverything checks that the stream has the events 1 to n, each once.
func wantEverything(t testing.TB, c Connection, n int) {
	t.Helper()
	all, report := replayed(t, c, "")
	if len(all) != n || report.Duplicates != 0 || report.Gaps.Count != 0 || report.Unreadable.Count != 0 {
		t.Errorf("%d records, want %d: %v", len(all), n, report)
	}
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
	all, report := replayed(t, c, "")
	if want := []Gap{{testAgent, 1, Range{1, 10}}}; len(all) != 10 || !slices.Equal(report.Gaps.First, want) {
		t.Errorf("%d records; %v", len(all), report)
	}
}

func TestSubjectsAreTakenByAnotherStream(t *testing.T) {
	c := Connection{InProcess: natstest.Start(t, natsserver.Config{})}
	js := client(t, c)
	for _, cfg := range []jetstream.StreamConfig{
		{Name: DefaultStream, Subjects: []string{"something.else"}},
		{Name: "OTHER", Subjects: []string{"lockagent.v1.*.lost.>"}},
	} {
		if _, err := js.CreateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	for kind, want := range map[lockagent.EventKind]string{
		lockagent.EventLost:      `stream "OTHER" takes the subjects of stream "LOCKAGENT"`,
		lockagent.EventRequested: `add "lockagent.v1.>" to the subjects of stream "LOCKAGENT"`,
	} {
		t.Run(kind.String(), func(t *testing.T) {
			p := newPublisher(t, Config{Connection: c})
			p.Record(t.Context(), lockagent.Event{Kind: kind, Lock: "a"})
			eventually(t, "the publisher knows why", func() bool { return p.Stats().Err != nil })
			if err := p.Stats().Err; !strings.Contains(err.Error(), want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestEventIsRefused has the stream refuse large events. They are dropped, and do
// not hold up the others.
func TestEventIsRefused(t *testing.T) {
	c := Connection{InProcess: natstest.Start(t, natsserver.Config{})}
	_, err := client(t, c).CreateStream(t.Context(), jetstream.StreamConfig{Name: DefaultStream, Subjects: []string{AllSubjects}, MaxMsgSize: 1000})
	if err != nil {
		t.Fatal(err)
	}
	p := newPublisher(t, Config{Connection: c})
	p.Record(t.Context(), requested(1))
	e := requested(2)
	e.Err = strings.Repeat("x", 5000)
	p.Record(t.Context(), e)
	p.Record(t.Context(), lockagent.Event{Kind: 200, Lock: "no kind"})
	p.Record(t.Context(), requested(4))
	flushed(t, p)
	if got := p.Stats(); got.Dropped != 2 || got.Published != 2 || got.Queued != 0 {
		t.Errorf("got %+v", got)
	}
	if _, report := replayed(t, c, ""); !slices.Equal(report.Gaps.First, []Gap{{testAgent, 1, Range{2, 3}}}) {
		t.Errorf("%v", report)
	}
}

func TestLongTextsAreCut(t *testing.T) {
	c := Connection{InProcess: natstest.Start(t, natsserver.Config{})}
	p := newPublisher(t, Config{Connection: c})
	long := strings.Repeat("ü", 1<<20)
	p.Record(t.Context(), lockagent.Event{
		Kind: lockagent.EventRefused, Lock: lockagent.Name(long), Owner: lockagent.Owner("x" + long), Incarnation: long, Err: long,
		Reset: lockagent.Reset{From: long, To: long, Reason: long}, TraceParent: long,
	})
	flushed(t, p)
	got, _ := replayed(t, c, "")
	if len(got) != 1 || string(got[0].Lock) != long[:maxText] || string(got[0].Owner) != "x"+long[:maxText-2] || got[0].Err != long[:maxText] {
		t.Errorf("got %.200v", got)
	}
}

func TestClose(t *testing.T) {
	t.Parallel()
	t.Run("Absent", func(t *testing.T) {
		p := newPublisher(t, Config{Connection: Connection{InProcess: &link{}}, QueueSize: 5})
		for i := range 7 {
			p.Record(t.Context(), requested(i))
		}
		eventually(t, "the publisher knows why", func() bool { return p.Stats().Err != nil })
		ctx, cancel := context.WithCancelCause(t.Context())
		enough := errors.New("enough")
		cancel(enough)
		if err := p.Flush(ctx); !errors.Is(err, enough) {
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
			if err := p.Close(testContext(t)); err != nil {
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
	go func() { flush <- p.Flush(testContext(t)) }()
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
		"NoConnection":   {Config{Agent: "a"}, lockagent.ErrBadOption},
		"TwoConnections": {Config{Agent: "a", Connection: Connection{URL: there.URL, InProcess: &link{}}}, lockagent.ErrBadOption},
		"NoAgent":        {Config{Connection: there}, lockagent.ErrBadOption},
		"LongAgent":      {Config{Connection: there, Agent: lockagent.AgentID(strings.Repeat("a", 65))}, lockagent.ErrBadOption},
		"OddAgent":       {Config{Connection: there, Agent: "a.b"}, lockagent.ErrBadOption},
		"Epoch":          {Config{Connection: there, Agent: "a", Epoch: 1e10}, lockagent.ErrBadOption},
		"Stream":         {Config{Connection: there, Agent: "a", Stream: "a.b"}, lockagent.ErrBadOption},
		"MaxBytes":       {Config{Connection: there, Agent: "a", MaxBytes: -2}, lockagent.ErrBadOption},
		"MaxAge":         {Config{Connection: there, Agent: "a", MaxAge: -1}, lockagent.ErrBadOption},
		"QueueSize":      {Config{Connection: there, Agent: "a", QueueSize: -1}, lockagent.ErrBadOption},
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
		"events: 2 dropped and 3 not confirmed":               &DroppedError{Dropped: 2, Unconfirmed: 3},
		"events: 2 dropped and 3 not confirmed: enough":       &DroppedError{Dropped: 2, Unconfirmed: 3, Cause: errEnough},
		"events: line 4: enough":                              &DecodeError{Position: 4, Err: errEnough},
		`events: message 4, subject "lockagent.v1.x": enough`: &DecodeError{Position: 4, Subject: "lockagent.v1.x", Err: errEnough},
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

func BenchmarkRecord(b *testing.B) {
	for name, goroutines := range map[string]int{"One": 1, "Parallel": 0} {
		b.Run(name, func(b *testing.B) {
			p := newPublisher(b, Config{Connection: Connection{InProcess: &link{}}, QueueSize: 1 << 10})
			e := fullRecord(lockagent.EventGranted).Event
			b.ReportAllocs()
			record := func() {
				p.Record(context.Background(), e)
				// What the acknowledgement of the event before does.
				p.mu.Lock()
				p.settle(p.queue.head, true)
				p.mu.Unlock()
			}
			if goroutines == 1 {
				for b.Loop() {
					record()
				}
				return
			}
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					record()
				}
			})
		})
	}
}

// BenchmarkPublish measures the whole way to a file in an embedded server.
func BenchmarkPublish(b *testing.B) {
	c := Connection{InProcess: natstest.Start(b, natsserver.Config{})}
	p := newPublisher(b, Config{Connection: c})
	e := fullRecord(lockagent.EventGranted).Event
	b.ReportAllocs()
	for b.Loop() {
		p.Record(context.Background(), e)
		if p.Stats().Queued > DefaultQueueSize/2 {
			flushed(b, p)
		}
	}
	flushed(b, p)
	if s := p.Stats(); s.Dropped > 0 {
		b.Fatalf("%+v", s)
	}
}
