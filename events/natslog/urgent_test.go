package natslog

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	"github.com/lockagent/lockagent/internal/waittest"
)

// A flood of other events pushes nothing out that has consequences.
func TestUrgentEventsOutliveAFlood(t *testing.T) {
	t.Parallel()
	c := Connection{InProcess: natstest.Start(t, natsserver.Config{})}
	p := newPublisher(t, Config{Connection: c, MaxBytes: 512 << 10})
	urgent := func(kind lockagent.EventKind, lock lockagent.Name) {
		t.Helper()
		p.Record(t.Context(), lockagent.Event{Kind: kind, Lock: lock, Owner: "joe"})
		flushed(t, p)
	}
	flood := func() {
		t.Helper()
		for i := range 2_000 {
			p.Record(t.Context(), lockagent.Event{
				Kind: lockagent.EventRequested, Lock: lockagent.Name(fmt.Sprint("a/", i)), Request: uint64(i),
				Owner: lockagent.Owner(strings.Repeat("x", 600)),
			})
		}
		flushed(t, p)
	}
	js := client(t, c)
	copies := func(want uint64) (s jetstream.Stream) {
		t.Helper()
		waittest.Until(t, "the server to have copied what has consequences", func() bool {
			var err error
			s, err = js.Stream(waittest.Context(t), "LOCKAGENT_URGENT")
			return err == nil && s.CachedInfo().State.Msgs == want
		})
		return s
	}
	urgent(lockagent.EventAgentStarted, "") // at 1
	urgent(lockagent.EventLost, "a/1")      // at 2
	copies(2)
	flood()
	urgent(lockagent.EventBroken, "a/2")
	copies(3)
	r := newReader(t, c)
	state, err := r.State(t.Context())
	if err != nil || state.First <= 2 {
		t.Fatalf("the log has %+v, %v", state, err)
	}
	type told struct {
		kind     lockagent.EventKind
		position uint64
	}
	replay := func(from From, filter events.Filter) (all []told) {
		t.Helper()
		visit := func(record *events.Record, err error) error {
			all = append(all, told{record.Kind, record.Position})
			return err
		}
		if err := r.Replay(waittest.Context(t), from, filter, visit); err != nil {
			t.Fatal(err)
		}
		return all
	}
	started := told{lockagent.EventAgentStarted, 1}
	lost := told{lockagent.EventLost, 2}
	broken := told{lockagent.EventBroken, state.Last}
	for name, test := range map[string]struct {
		from   From
		filter events.Filter
		want   []told
	}{
		"All":          {From{}, events.Filter{Urgent: true}, []told{started, lost, broken}},
		"FromPosition": {FromPosition(2), events.Filter{Urgent: true}, []told{lost, broken}},
		"FromTheFirst": {FromPosition(state.First), events.Filter{Urgent: true}, []told{broken}},
		"OfOneLock":    {From{}, events.Filter{Urgent: true, Lock: "a/1"}, []told{lost}},
		"OfTheLogOnly": {
			From{},
			events.Filter{Kinds: []lockagent.EventKind{lockagent.EventLost, lockagent.EventBroken}},
			[]told{broken},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := replay(test.from, test.filter); !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}

	enough := func(record *events.Record, err error) error {
		if err == nil && record.Kind == lockagent.EventBroken {
			err = errEnough
		}
		return err
	}
	if err := r.Tail(waittest.Context(t), From{}, events.Filter{Urgent: true}, enough); !errors.Is(err, errEnough) {
		t.Error(err)
	}

	// The limits of the copies follow those of the log.
	if _, err := SetLimits(waittest.Context(t), ReaderConfig{Connection: c}, Limits{MaxBytes: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	if bytes := copies(3).CachedInfo().Config.MaxBytes; bytes != 128<<10 {
		t.Errorf("the copies may have %d bytes", bytes)
	}
}

// A log without a bound has no second stream, and one whose second stream was removed is read all the same.
func TestLogWithoutUrgentCopies(t *testing.T) {
	c := Connection{InProcess: natstest.Start(t, natsserver.Config{})}
	p := newPublisher(t, Config{Connection: c, MaxBytes: -1})
	p.Record(t.Context(), lockagent.Event{Kind: lockagent.EventAgentStarted})
	p.Record(t.Context(), lockagent.Event{Kind: lockagent.EventBroken, Lock: "a"})
	flushed(t, p)
	js := client(t, c)
	if names := streamNames(t, js); !slices.Equal(names, []string{DefaultStream}) {
		t.Errorf("there are %v", names)
	}
	stream, err := js.Stream(t.Context(), DefaultStream)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context(), jetstream.WithPurgeSequence(2)); err != nil {
		t.Fatal(err)
	}
	var got []uint64
	if err := newReader(t, c).Replay(
		waittest.Context(t), From{}, events.Filter{Urgent: true}, seqs(&got, 0),
	); err != nil || !slices.Equal(got, []uint64{2}) {
		t.Errorf("read %v, %v", got, err)
	}
}

// Who may not ask for the copies reads what the log has.
func TestUrgentCopiesThatAreNotPermitted(t *testing.T) {
	t.Parallel()
	conf := strings.ReplaceAll(documented(t, "conf"), `"$JS.API.STREAM.INFO.LOCKAGENT_URGENT"`, `"nothing"`)
	s := natstest.StartSecured(t, rooted(conf))
	makeStreams(t, asUser(t, s, "root"), func(*jetstream.StreamConfig) {})
	p := newPublisher(t, Config{Connection: asUser(t, s, "agent-1"), Agent: "agent-1"})
	p.Record(t.Context(), lockagent.Event{Kind: lockagent.EventAgentStarted})
	p.Record(t.Context(), lockagent.Event{Kind: lockagent.EventBroken, Lock: "a"})
	flushed(t, p)
	js := client(t, asUser(t, s, "root"))
	if err := js.DeleteStream(t.Context(), DefaultStream); err != nil {
		t.Fatal(err)
	}
	log := documentedStream(t)
	log.FirstSeq = 7
	if _, err := js.CreateStream(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	p.Record(t.Context(), lockagent.Event{Kind: lockagent.EventBroken, Lock: "b"})
	flushed(t, p)
	var got []uint64
	reader, urgent := newReader(t, asUser(t, s, "auditor")), events.Filter{Urgent: true}
	err := reader.Replay(waittest.Context(t), From{}, urgent, func(r *events.Record, err error) error {
		got = append(got, r.Position)
		return err
	})
	if err != nil || !slices.Equal(got, []uint64{7}) {
		t.Errorf("read %v, %v", got, err)
	}
}

func streamNames(t *testing.T, js jetstream.JetStream) (names []string) {
	t.Helper()
	all := js.StreamNames(waittest.Context(t))
	for name := range all.Name() {
		names = append(names, name)
	}
	if err := all.Err(); err != nil {
		t.Fatal(err)
	}
	return names
}
