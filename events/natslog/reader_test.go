package natslog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/audit"
	"github.com/lockagent/lockagent/events/internal/eventstest"
	"github.com/lockagent/lockagent/events/internal/logtest"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	"github.com/lockagent/lockagent/internal/waittest"
)

func newReader(t testing.TB, c Connection) *Reader {
	t.Helper()
	c.Logger = testLogger(t)
	r, err := OpenReader(ReaderConfig{Connection: c})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// seqs returns a visit that collects sequence numbers, and stops after n of them
// if n is not 0.
func seqs(to *[]uint64, n int) events.Visit {
	return func(r *events.Record, err error) error {
		if err != nil {
			return err
		}
		*to = append(*to, r.Seq)
		if len(*to) == n {
			return errEnough
		}
		return nil
	}
}

var errEnough = errors.New("enough")

// apart is an event of a lock of its own, so that it becomes a message of its own.
func apart(n int) lockagent.Event {
	e := requested(n)
	e.Lock = lockagent.Name(fmt.Sprint("orders/", n))
	return e
}

// consumers is how many readers the stream serves.
func consumers(t testing.TB, r *Reader) int {
	t.Helper()
	stream, err := r.stream(waittest.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	return stream.CachedInfo().State.Consumers
}

func upTo(first, last uint64) (all []uint64) {
	for n := first; n <= last; n++ {
		all = append(all, n)
	}
	return all
}

func TestReplay(t *testing.T) {
	c := Connection{InProcess: natstest.Start(t, natsserver.Config{})}
	p, other := newPublisher(t, Config{Connection: c}), newPublisher(t, Config{Connection: c, Agent: "other"})
	record := func(p *Publisher, kind lockagent.EventKind, lock lockagent.Name) {
		p.Record(t.Context(), lockagent.Event{Kind: kind, Lock: lock, Owner: lockagent.Owner(kind.String())})
		flushed(t, p)
	}
	long := lockagent.Name(strings.Repeat("a/", 20))
	record(p, lockagent.EventAgentStarted, "")    // 1
	record(p, lockagent.EventRequested, "a/b")    // 2
	record(p, lockagent.EventGranted, "a/b")      // 3
	record(p, lockagent.EventRequested, long)     // 4
	record(p, lockagent.EventGranted, "a")        // 5
	record(p, lockagent.EventReleased, "a/b")     // 6
	record(p, lockagent.EventGranted, long+"x")   // 7
	record(other, lockagent.EventGranted, "a/b")  // 1, at 8
	record(other, lockagent.EventReleased, "a/b") // 2, at 9
	r := newReader(t, c)

	stream, err := r.stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first := stream.CachedInfo().State.FirstTime
	granted := []lockagent.EventKind{lockagent.EventGranted}
	for name, test := range map[string]struct {
		from   From
		filter events.Filter
		want   []uint64
	}{
		"All":          {From{}, events.Filter{}, append(upTo(1, 7), 1, 2)},
		"FromPosition": {FromPosition(5), events.Filter{}, []uint64{5, 6, 7, 1, 2}},
		"FromZero":     {FromPosition(0), events.Filter{}, append(upTo(1, 7), 1, 2)},
		"FromLast":     {FromPosition(9), events.Filter{}, []uint64{2}},
		"BeyondTheEnd": {FromPosition(10), events.Filter{}, nil},
		"FarBeyond":    {FromPosition(1000), events.Filter{}, nil},
		"FromNow":      {FromNow(), events.Filter{}, nil},
		"FromTime":     {FromTime(first.Add(1)), events.Filter{}, append(upTo(2, 7), 1, 2)},
		"FromFuture":   {FromTime(time.Now().Add(time.Hour)), events.Filter{}, nil},
		"Lock":         {From{}, events.Filter{Lock: "a/b"}, []uint64{2, 3, 6, 1, 2}},
		"LongName":     {From{}, events.Filter{Lock: long}, []uint64{4}},
		"Agent":        {From{}, events.Filter{Agents: []lockagent.AgentID{"other"}}, []uint64{1, 2}},
		"Agents": {
			From{},
			events.Filter{Lock: "a/b", Agents: []lockagent.AgentID{"other", eventstest.Agent}},
			[]uint64{2, 3, 6, 1, 2},
		},
		"Below":        {From{}, events.Filter{Pattern: "a/>"}, []uint64{2, 3, 4, 6, 7, 1, 2}},
		"OnePart":      {From{}, events.Filter{Pattern: "a/*"}, []uint64{2, 3, 6, 1, 2}},
		"AnyFirstPart": {From{}, events.Filter{Pattern: "*/b"}, []uint64{2, 3, 6, 1, 2}},
		"Urgent":       {From{}, events.Filter{Urgent: true}, []uint64{1}},
		"Owner":        {From{}, events.Filter{Owner: "released"}, []uint64{6, 2}},
		"Kind":         {From{}, events.Filter{Kinds: granted}, []uint64{3, 5, 7, 1}},
		"Kinds": {
			From{},
			events.Filter{Kinds: append(granted, lockagent.EventReleased, lockagent.EventGranted)},
			[]uint64{3, 5, 6, 7, 1, 2},
		},
		"Together": {
			FromPosition(4), events.Filter{Lock: "a/b", Agents: []lockagent.AgentID{"other"}, Kinds: granted}, []uint64{1},
		},
		"NothingFits":   {From{}, events.Filter{Lock: "nobody's"}, nil},
		"NothingIsLeft": {FromPosition(7), events.Filter{Lock: "a"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []uint64
			if err := r.Replay(waittest.Context(t), test.from, test.filter, seqs(&got, 0)); err != nil ||
				!slices.Equal(got, test.want) {
				t.Errorf("got %v, %v; want %v", got, err, test.want)
			}
		})
	}

	t.Run("VisitEndsIt", func(t *testing.T) {
		var got []uint64
		if err := r.Replay(waittest.Context(t), From{}, events.Filter{}, seqs(&got, 4)); !errors.Is(err, errEnough) ||
			!slices.Equal(got, upTo(1, 4)) {
			t.Errorf("got %v, %v", got, err)
		}
	})
	t.Run("ContextEndsIt", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		visited := 0
		err := r.Replay(ctx, From{}, events.Filter{}, func(*events.Record, error) error {
			visited++
			cancel(errEnough)
			return nil
		})
		if !errors.Is(err, errEnough) || !errors.Is(err, context.Canceled) || visited != 1 {
			t.Errorf("got %v after %d", err, visited)
		}
	})
	t.Run("EndsWhereItWasAtTheStart", func(t *testing.T) {
		var got []uint64
		err := r.Replay(waittest.Context(t), From{}, events.Filter{}, func(r *events.Record, err error) error {
			record(other, lockagent.EventQueued, "more")
			return seqs(&got, 0)(r, err)
		})
		if err != nil || len(got) != 9 {
			t.Errorf("got %v, %v", got, err)
		}
	})
	t.Run("ConsumersAreRemoved", func(t *testing.T) {
		if n := consumers(t, r); n != 0 {
			t.Errorf("%d are left", n)
		}
	})
	t.Run("BadFilter", func(t *testing.T) {
		for _, read := range []func(context.Context, From, events.Filter, events.Visit) error{r.Replay, r.Tail} {
			if err := read(
				t.Context(), From{}, events.Filter{Lock: "a", Pattern: "a"}, nil,
			); !errors.Is(err, lockagent.ErrBadOption) {
				t.Errorf("got %v", err)
			}
		}
	})
}

// TestReplayEndsAlthoughTheRestIsRemoved removes the last messages while the
// reader is busy with the first.
func TestReplayEndsAlthoughTheRestIsRemoved(t *testing.T) {
	t.Parallel()
	c := Connection{InProcess: natstest.Start(t, natsserver.Config{})}
	p := newPublisher(t, Config{Connection: c})
	const n = 2 * prefetch
	for i := range n {
		p.Record(t.Context(), apart(i))
	}
	flushed(t, p)
	stream, err := client(t, c).Stream(t.Context(), DefaultStream)
	if err != nil {
		t.Fatal(err)
	}
	var got []uint64
	err = newReader(t, c).Replay(waittest.Context(t), From{}, events.Filter{}, func(r *events.Record, err error) error {
		if len(got) == 0 {
			if err := stream.Purge(t.Context()); err != nil {
				t.Error(err)
			}
		}
		return seqs(&got, 0)(r, err)
	})
	if err != nil || len(got) == 0 || len(got) == n {
		t.Errorf("got %d records, %v", len(got), err)
	}
}

func TestUndecodable(t *testing.T) {
	c := Connection{InProcess: natstest.Start(t, natsserver.Config{})}
	p := newPublisher(t, Config{Connection: c})
	p.Record(t.Context(), requested(1))
	flushed(t, p)
	js := client(t, c)
	subject := "lockagent.v1." + string(eventstest.Agent) + ".lock.orders.42"
	for subject, text := range map[string]string{
		subject:                 "no event",
		"lockagent.v1.x.lock.y": string(events.Append(nil, logtest.FullRecord(lockagent.EventGranted))),
	} {
		if _, err := js.Publish(t.Context(), subject, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	p.Record(t.Context(), requested(2))
	flushed(t, p)

	var good, bad []uint64
	auditor := newLogAudit(t)
	err := newReader(t, c).Replay(waittest.Context(t), From{}, events.Filter{}, func(r *events.Record, err error) error {
		if err == nil {
			good = append(good, r.Position)
			return auditor.Visit(r, err)
		}
		decode, ok := errors.AsType[*events.DecodeError](err)
		if !ok || decode.Position != r.Position || decode.Subject == "" || *r != (events.Record{Position: r.Position}) {
			t.Errorf("got %+v, %v", r, err)
		}
		bad = append(bad, r.Position)
		return auditor.Visit(r, err)
	})
	if err != nil || !slices.Equal(good, []uint64{1, 4}) || !slices.Equal(bad, []uint64{2, 3}) {
		t.Errorf("got %v and %v, %v", good, bad, err)
	}
	if report := auditor.Report(); report.Verdict != audit.Incomplete || report.Unreadable.Count != 2 ||
		len(report.Unreadable.First) != 2 {
		t.Errorf("%v", report)
	}
}

// TestTail follows a stream through the absence of its server.
func TestTail(t *testing.T) {
	t.Parallel()
	server := newProcess(t)
	server.start()
	c := Connection{URL: server.url}
	p := newPublisher(t, Config{Connection: c})
	r := newReader(t, c)
	record := func(n int) {
		for i := range n {
			p.Record(t.Context(), apart(i))
		}
		flushed(t, p)
	}
	record(100)
	type tail struct {
		from From
		seen chan events.Record
		done chan error
	}
	ctx, cancel := context.WithCancelCause(waittest.Context(t))
	tails := make(map[string]*tail)
	for name, from := range map[string]From{"Beginning": {}, "Position": FromPosition(51), "Now": FromNow()} {
		tl := &tail{from, make(chan events.Record, 1000), make(chan error, 1)}
		tails[name] = tl
		go func() {
			tl.done <- r.Tail(ctx, from, events.Filter{}, func(r *events.Record, err error) error {
				tl.seen <- *r
				return err
			})
		}()
	}
	expect := func(name string, first, last uint64) {
		t.Helper()
		for want := first; want <= last; want++ {
			select {
			case got := <-tails[name].seen:
				if got.Seq != want || got.Position != want {
					t.Fatalf("%s: got %d, want %d", name, got.Seq, want)
				}
			case err := <-tails[name].done:
				t.Fatalf("%s: ended before %d: %v", name, want, err)
			case <-ctx.Done():
				t.Fatalf("%s: waited for %d: %v", name, want, context.Cause(ctx))
			}
		}
	}
	expect("Beginning", 1, 100)
	expect("Position", 51, 100)
	// A tail from now has begun when it has a consumer.
	waittest.Until(t, "three consumers", func() bool { return consumers(t, r) == 3 })
	record(50)
	for name := range tails {
		expect(name, 101, 150)
	}
	server.kill()
	for i := range 50 {
		p.Record(t.Context(), apart(i))
	}
	server.start()
	flushed(t, p)
	record(50)
	for name := range tails {
		expect(name, 151, 250)
	}
	cancel(errEnough)
	for name, tl := range tails {
		if err := <-tl.done; !errors.Is(err, errEnough) || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestTailOfAStreamThatIsCut replaces the log of the server by a new one that is
// shorter or longer.
func TestTailOfAStreamThatIsCut(t *testing.T) {
	t.Parallel()
	for _, length := range []int{10, 30} {
		t.Run(fmt.Sprint(length), func(t *testing.T) {
			t.Parallel()
			testTailOfAStreamThatIsCut(t, length)
		})
	}
}

func testTailOfAStreamThatIsCut(t *testing.T, length int) {
	server := newProcess(t)
	server.start()
	c := Connection{URL: server.url}
	publish := func(agent lockagent.AgentID, n int) {
		p := newPublisher(t, Config{Connection: c, Agent: agent})
		for i := range n {
			p.Record(t.Context(), apart(i))
		}
		if err := p.Close(waittest.Context(t)); err != nil {
			t.Error(err)
		}
	}
	publish("first", 20)
	seen := make(chan string, 100)
	done := make(chan error, 1)
	r := newReader(t, c)
	ctx := waittest.Context(t)
	go func() {
		done <- r.Tail(ctx, From{}, events.Filter{}, func(r *events.Record, err error) error {
			if err != nil {
				seen <- fmt.Sprint(errors.Is(err, ErrRewound), r.Position)
			} else {
				seen <- fmt.Sprint(r.Agent, r.Seq, r.Position)
			}
			return nil
		})
	}()
	expect := func(want string) {
		t.Helper()
		select {
		case got := <-seen:
			if got != want {
				t.Fatalf("got %s, want %s", got, want)
			}
		case err := <-done:
			t.Fatalf("ended: %v; want %s", err, want)
		}
	}
	for i := range 20 {
		expect(fmt.Sprint("first", i+1, i+1))
	}
	server.kill()
	server.settings["DIR"] = t.TempDir()
	server.start()
	publish("second", length)
	expect(fmt.Sprint(true, 0))
	for i := range length {
		expect(fmt.Sprint("second", i+1, i+1))
	}
	r.Close()
	if err := <-done; !errors.Is(err, lockagent.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

func TestNoStream(t *testing.T) {
	c := Connection{InProcess: natstest.Start(t, natsserver.Config{})}
	r := newReader(t, c)
	if err := r.Replay(t.Context(), From{}, events.Filter{}, nil); !errors.Is(err, ErrNoStream) {
		t.Errorf("replay: got %v", err)
	}
	if err := r.Tail(t.Context(), From{}, events.Filter{}, nil); !errors.Is(err, ErrNoStream) {
		t.Errorf("tail: got %v", err)
	}
}

func TestEmptyStream(t *testing.T) {
	c := Connection{InProcess: natstest.Start(t, natsserver.Config{})}
	_, err := client(t, c).CreateStream(t.Context(), jetstream.StreamConfig{
		Name: DefaultStream, Subjects: []string{events.AllSubjects},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := newReader(t, c).Replay(waittest.Context(t), From{}, events.Filter{}, nil); err != nil {
		t.Errorf("got %v", err)
	}
}

func TestOpenReaderRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		cfg  ReaderConfig
		want error
	}{
		"NoConnection": {ReaderConfig{}, lockagent.ErrBadOption},
		"Stream":       {ReaderConfig{Connection: Connection{InProcess: &link{}}, Stream: "a b"}, lockagent.ErrBadOption},
		"URL":          {ReaderConfig{Connection: Connection{URL: "host"}}, ErrBadURL},
		"Absent":       {ReaderConfig{Connection: Connection{URL: newProcess(t).url}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := OpenReader(test.cfg)
			if err == nil || test.want != nil && !errors.Is(err, test.want) {
				t.Errorf("got %v, %v; want %v", r, err, test.want)
			}
		})
	}
}

func TestLines(t *testing.T) {
	var file bytes.Buffer
	var want []events.Record
	for i, kind := range lockagent.EventKinds() {
		r := logtest.FullRecord(kind)
		r.Position = uint64(i) + 1
		want = append(want, r)
		if err := events.WriteLine(&file, r); err != nil {
			t.Fatal(err)
		}
	}
	var got []events.Record
	collect := func(r *events.Record, err error) error {
		got = append(got, *r)
		return err
	}
	if err := events.ReadLines(&file, collect); err != nil || !slices.EqualFunc(got, want, equal) {
		t.Errorf("got %v, %v", got, err)
	}
	t.Run("NoEvent", func(t *testing.T) {
		got = nil
		err := events.ReadLines(strings.NewReader("\n"+string(events.Append(nil, want[0]))+"\nnonsense\n"), collect)
		if decode, ok := errors.AsType[*events.DecodeError](err); !ok || decode.Position != 3 || len(got) != 2 ||
			got[0].Position != 1 {
			t.Errorf("got %v, %v", got, err)
		}
	})
	t.Run("LongLine", func(t *testing.T) {
		err := events.ReadLines(strings.NewReader("\n"+strings.Repeat("x", 1<<20+1)), collect)
		if err == nil || !strings.Contains(err.Error(), "line 2 is longer") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("ReadError", func(t *testing.T) {
		if err := events.ReadLines(badReader{}, collect); !errors.Is(err, errEnough) {
			t.Errorf("got %v", err)
		}
	})
}

type badReader struct{}

func (badReader) Read([]byte) (int, error) { return 0, errEnough }

// equal is [events.Record.Equal] for package slices.
func equal(a, b events.Record) bool { return a.Equal(&b) }
