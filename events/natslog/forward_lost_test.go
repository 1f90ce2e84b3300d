package natslog

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/internal/queue"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	"github.com/lockagent/lockagent/internal/waittest"
)

// While the hub is away, the source discards what it has no room for: the end of one agent, all of
// another, and the beginning of a third.
func TestForwardTellsWhatIsLost(t *testing.T) {
	t.Parallel()
	for name, atomic := range map[string]bool{"Batches": true, "Singly": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnds(t)
			var l link
			l.use(e.to.InProcess.(*natsserver.Server))
			streamFor(t, e.source, func(cfg *jetstream.StreamConfig) { cfg.MaxMsgs = 20 })
			streamFor(t, e.hub, func(cfg *jetstream.StreamConfig) { cfg.AllowAtomicPublish = atomic })
			f := forward(t, e.from, Connection{InProcess: &l})
			puts(t, e.source, "a", 1, 10)
			arrived(t, e.hub, 10)
			waittest.Until(t, "they are counted", func() bool { return f.Stats().Forwarded == 10 })
			before := byAgent(t, e.hub)
			l.use(nil)
			l.cut()
			waittest.Until(t, "the forwarder notices", func() bool { return f.Stats().Err != nil })

			puts(t, e.source, "a", 11, 15)
			puts(t, e.source, "vanished", 1, 10)
			puts(t, e.source, "c", 1, 25)
			l.use(e.to.InProcess.(*natsserver.Server))
			arrived(t, e.hub, 10+20)
			waittest.Until(t, "all is counted", func() bool { s := f.Stats(); return s.Forwarded == 30 && s.Discarded == 20 })
			stats := f.Stats()
			f.stop()
			if stats.Discarded != 20 {
				t.Errorf("got %+v", stats)
			}

			// Whoever comes later knows that it was told.
			f = forward(t, e.from, e.to)
			puts(t, e.source, "c", 26, 26)
			arrived(t, e.hub, 10+21)
			f.stop()
			got := byAgent(t, e.hub)
			if !slices.Equal(got["a"], before["a"]) || !slices.Equal(got["c"][1:], byAgent(t, e.source)["c"]) ||
				got["vanished"] != nil {
				t.Errorf("the hub has %v", got)
			}
			if got, want := lossesIn(t, e.hub), map[uint64]events.Range{31: {First: 11, Last: 30}}; !maps.Equal(got, want) {
				t.Errorf("told %v, want %v", got, want)
			}
		})
	}
}

// lossesIn returns what the copies in a hub say is lost in the source, by their place there.
func lossesIn(t testing.TB, js jetstream.JetStream) map[uint64]events.Range {
	t.Helper()
	losses := make(map[uint64]events.Range)
	for _, m := range messages(t, js, DefaultStream) {
		o, ok := events.ParseOrigin(m.Header.Get(events.OriginHeader))
		if !ok {
			t.Fatalf("message %d has the header %v", m.Sequence, m.Header)
		}
		if o.Lost.Last > 0 {
			losses[o.Position] = o.Lost
		}
	}
	return losses
}

// What is lost for the second time is told, too, also if the hub has removed what it had before.
func TestForwardTellsAgain(t *testing.T) {
	t.Parallel()
	for name, purge := range map[string]bool{"OK": false, "AfterRetention": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnds(t)
			streamFor(t, e.source, func(cfg *jetstream.StreamConfig) { cfg.MaxMsgs = 10 })
			want := map[uint64]events.Range{21: {First: 1, Last: 20}, 51: {First: 31, Last: 50}}
			for round := range uint64(2) {
				puts(t, e.source, "a", round*30+1, round*30+30)
				f := forward(t, e.from, e.to)
				waittest.Until(t, "all is forwarded", func() bool { s := f.Stats(); return s.Forwarded == 10 && s.Discarded == 20 })
				f.stop()
				if purge && round == 0 {
					stream, err := e.hub.Stream(t.Context(), DefaultStream)
					if err != nil {
						t.Fatal(err)
					}
					if err := stream.Purge(t.Context(), jetstream.WithPurgeKeep(1)); err != nil {
						t.Fatal(err)
					}
					delete(want, 21)
				}
			}
			if got := lossesIn(t, e.hub); !maps.Equal(got, want) {
				t.Errorf("told %v, want %v", got, want)
			}
		})
	}
}

// A hub forwards to another one. What the first hub lacks, the second one lacks.
func TestForwardTwoHops(t *testing.T) {
	t.Parallel()
	e, further := newEnds(t), newEnds(t)
	source := streamFor(t, e.source, func(cfg *jetstream.StreamConfig) { cfg.MaxMsgs = 10 })
	puts(t, e.source, "a", 1, 30)
	forward(t, e.from, e.to)
	arrived(t, e.hub, 10)
	forward(t, e.to, further.to)
	arrived(t, further.hub, 10)
	near, err := e.hub.Stream(t.Context(), DefaultStream)
	if err != nil {
		t.Fatal(err)
	}
	first := events.Origin{
		Stream: events.OriginOf(source.CachedInfo().Created), Position: 21, Lost: events.Range{First: 1, Last: 20},
	}.String()
	second := events.Origin{Stream: events.OriginOf(near.CachedInfo().Created), Position: 1}.String()
	got := messages(t, further.hub, DefaultStream)[0].Header.Get(events.OriginHeader)
	if got != first+","+second {
		t.Errorf("got %s, want %s,%s", got, first, second)
	}
}

// What is not from a publisher is left out, and holds up nothing.
func TestForwardForeign(t *testing.T) {
	t.Parallel()
	e := newEnds(t)
	streamFor(t, e.source, func(cfg *jetstream.StreamConfig) { cfg.Subjects = []string{events.AllSubjects, "weather.>"} })
	f := forward(t, e.from, e.to)
	foreign := []struct{ subject, id string }{
		{"lockagent.v1.a.lock.x", ""},
		{"lockagent.v1.a.lock.x", "a:1"},
		{"lockagent.v1.a.lock.x", "a:1:2-1"},
		{"lockagent.v1.a.lock.x", "b:1:7"}, // of another agent than the subject says
		{"weather.today", "a:1:8"},
		{"lockagent.v1.a", "a:1:9"},
	}
	for i, m := range foreign {
		n := uint64(i) + 1
		put(t, e.source, queue.MessageID{Agent: "a", Epoch: 1, First: n, Last: n})
		msg := &nats.Msg{Subject: m.subject, Header: nats.Header{}}
		if m.id != "" {
			msg.Header.Set(jetstream.MsgIDHeader, m.id)
		}
		if err := e.source.Conn().PublishMsg(msg); err != nil {
			t.Fatal(err)
		}
	}
	waittest.Until(
		t, "all are seen", func() bool { s := f.Stats(); return s.Foreign+s.Forwarded == uint64(2*len(foreign)) },
	)
	if got := ids(byAgent(t, e.hub)["a"]); got != "1:1 1:2 1:3 1:4 1:5 1:6 " {
		t.Errorf("the hub has %s", got)
	}
	if got := f.Stats(); got.Foreign != uint64(len(foreign)) || got.Discarded != 0 {
		t.Errorf("got %+v", got)
	}
}

// Messages that the hub never takes hold up nothing, and each is told by the message behind it.
func TestForwardRefused(t *testing.T) {
	t.Parallel()
	for name, atomic := range map[string]bool{"Batches": true, "Singly": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnds(t)
			streamFor(t, e.source, nil)
			streamFor(
				t, e.hub, func(cfg *jetstream.StreamConfig) { cfg.MaxMsgSize, cfg.AllowAtomicPublish = queue.MaxMessage, atomic },
			)
			var want []string
			for n := uint64(1); n <= 40; n++ {
				id := queue.MessageID{Agent: "a", Epoch: 1, First: n, Last: n}
				if n%10 != 0 {
					put(t, e.source, id)
					want = append(want, id.String())
					continue
				}
				large := &nats.Msg{
					Subject: "lockagent.v1.a.lock.x", Data: make([]byte, queue.MaxMessage),
					Header: nats.Header{jetstream.MsgIDHeader: {id.String()}},
				}
				if _, err := e.source.PublishMsg(t.Context(), large); err != nil {
					t.Fatal(err)
				}
			}
			f := forward(t, e.from, e.to)
			arrived(t, e.hub, 36)
			waittest.Until(t, "all is counted", func() bool { s := f.Stats(); return s.Forwarded == 36 && s.Refused == 4 })
			if got := f.Stats(); got.Refused != 4 || got.Discarded != 0 {
				t.Errorf("got %+v", got)
			}
			if got := hubIDs(t, e.hub); !slices.Equal(got, want) {
				t.Errorf("the hub has %v\nwant %v", got, want)
			}
			losses := map[uint64]events.Range{11: {First: 10, Last: 10}, 21: {First: 20, Last: 20}, 31: {First: 30, Last: 30}}
			if got := lossesIn(t, e.hub); !maps.Equal(got, losses) {
				t.Errorf("told %v, want %v", got, losses)
			}
		})
	}
}

// A message that the hub has refused is told by the first copy behind it, also if that comes in a later session.
func TestForwardRefusedIsToldOnce(t *testing.T) {
	t.Parallel()
	e := newEnds(t)
	streamFor(t, e.source, nil)
	streamFor(t, e.hub, func(cfg *jetstream.StreamConfig) { cfg.MaxMsgSize = queue.MaxMessage })
	puts(t, e.source, "a", 1, 3)
	large := &nats.Msg{
		Subject: "lockagent.v1.a.lock.x", Data: make([]byte, queue.MaxMessage),
		Header: nats.Header{jetstream.MsgIDHeader: {"a:1:4"}},
	}
	if _, err := e.source.PublishMsg(t.Context(), large); err != nil {
		t.Fatal(err)
	}
	f := forward(t, e.from, e.to)
	waittest.Until(t, "it is refused", func() bool { s := f.Stats(); return s.Refused == 1 && s.Behind == 0 })
	f.stop()
	puts(t, e.source, "a", 5, 6)
	f = forward(t, e.from, e.to)
	waittest.Until(t, "the rest is forwarded", func() bool { return f.Stats().Forwarded == 2 })
	if got := hubIDs(t, e.hub); len(got) != 5 || got[4] != "a:1:6" {
		t.Errorf("the hub has %v", got)
	}
	if got, want := lossesIn(t, e.hub), map[uint64]events.Range{5: {First: 4, Last: 4}}; !maps.Equal(got, want) {
		t.Errorf("told %v, want %v", got, want)
	}
}

// A hub that has lost everything gets everything again, from a forwarder that goes on.
func TestForwardToAnEmptyHub(t *testing.T) {
	t.Parallel()
	e := newEnds(t)
	streamFor(t, e.source, nil)
	puts(t, e.source, "a", 1, 30)
	forward(t, e.from, e.to)
	arrived(t, e.hub, 30)
	if err := e.hub.DeleteStream(t.Context(), DefaultStream); err != nil {
		t.Fatal(err)
	}
	puts(t, e.source, "b", 1, 30)
	arrived(t, e.hub, 60)
	wantCopy(t, e.source, e.hub)
}

// What the hub has removed because of its age is not forwarded again.
func TestForwardKeepsRetiredMessagesOut(t *testing.T) {
	t.Parallel()
	e := newEnds(t)
	streamFor(t, e.source, nil)
	puts(t, e.source, "a", 1, 30)
	puts(t, e.source, "b", 1, 30)
	f := forward(t, e.from, e.to)
	arrived(t, e.hub, 60)
	f.stop()
	stream, err := e.hub.Stream(t.Context(), DefaultStream)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context(), jetstream.WithPurgeKeep(5)); err != nil {
		t.Fatal(err)
	}
	forward(t, e.from, e.to)
	puts(t, e.source, "b", 31, 40)
	arrived(t, e.hub, 15)
	if got := byAgent(t, e.hub); got["a"] != nil || len(got["b"]) != 15 {
		t.Errorf("the hub has %v", got)
	}
}

// All that was forwarded is gone from the source, because of its age, and so are its agents. What comes
// then is not behind a gap.
func TestForwardFromASourceThatForgot(t *testing.T) {
	t.Parallel()
	e := newEnds(t)
	source := streamFor(t, e.source, nil)
	live := func(agent lockagent.AgentID) {
		p := newPublisher(t, Config{Connection: e.from, Agent: agent})
		for _, kind := range []lockagent.EventKind{
			lockagent.EventAgentStarted, lockagent.EventLost, lockagent.EventAgentStopped,
		} {
			p.Record(t.Context(), lockagent.Event{Kind: kind})
		}
		flushed(t, p)
	}
	live("old")
	f := forward(t, e.from, e.to)
	arrived(t, e.hub, 3)
	f.stop()
	if err := source.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	live("new")
	f = forward(t, e.from, e.to)
	arrived(t, e.hub, 6)
	f.stop()
	if got := f.Stats(); got.Discarded != 0 {
		t.Errorf("got %+v", got)
	}
	if all, report := replayed(t, e.to, ""); len(all) != 6 || report.RecordHoles.Count != 0 {
		t.Errorf("the hub has %v; %v", all, report)
	}
}

// The agents published to the hub themselves before, so the copies have no place in the source. Then
// somebody else put a message under their subjects.
func TestForwardKnowsNumbers(t *testing.T) {
	t.Parallel()
	e := newEnds(t)
	streamFor(t, e.source, nil)
	streamFor(t, e.hub, func(cfg *jetstream.StreamConfig) { cfg.Duplicates = 100 * time.Millisecond })
	puts(t, e.hub, "a", 1, 30)
	for range 3 {
		if _, err := e.hub.Publish(t.Context(), "lockagent.v1.a.lock.x", []byte("foreign")); err != nil {
			t.Fatal(err)
		}
	}
	puts(t, e.source, "a", 1, 40)
	put(t, e.source, queue.MessageID{Agent: "a", Epoch: 2, First: 1, Last: 1})
	f := forward(t, e.from, e.to)
	waittest.Until(t, "all is counted", func() bool { return f.Stats().Forwarded+f.Stats().Present == 41 })
	if got := f.Stats(); got.Present != 30 {
		t.Errorf("got %+v", got)
	}
	arrived(t, e.hub, 44)
	if got := byAgent(t, e.hub)["a"]; !slices.Equal(got, byAgent(t, e.source)["a"]) {
		t.Errorf("the hub has %v", got)
	}
}

// A source discards what was forwarded while the session looks for its place. The hub has it, so nothing is lost.
func TestForwardFromASourceThatDiscardsMeanwhile(t *testing.T) {
	t.Parallel()
	e := newEnds(t)
	stream := streamFor(t, e.source, nil)
	streamFor(t, e.hub, nil)
	puts(t, e.source, "a", 1, 10)
	f := forward(t, e.from, e.to)
	arrived(t, e.hub, 10)
	f.stop()

	ctx, fail := context.WithCancelCause(t.Context())
	defer fail(nil)
	s := &forwardSession{
		f: f.Forwarder, ctx: ctx, marks: make(map[lockagent.AgentID]mark), answers: make(chan *nats.Msg, 4),
	}
	for _, end := range []struct {
		name string
		cfg  *ReaderConfig
		to   **forwardEnd
	}{{SourceEnd, &f.cfg.Source, &s.source}, {HubEnd, &f.cfg.Hub, &s.hub}} {
		var err error
		if *end.to, err = openEnd(end.name, end.cfg, fail); err != nil {
			t.Fatal(err)
		}
		defer (*end.to).close()
	}
	if err := s.open(); err != nil {
		t.Fatal(err)
	}
	puts(t, e.source, "a", 11, 12)
	if err := stream.Purge(t.Context(), jetstream.WithPurgeSequence(12)); err != nil { // keeps the last one
		t.Fatal(err)
	}
	if err := s.resume(); err != nil || s.next != 11 {
		t.Errorf("the session goes on at %d, %v; want 11", s.next, err)
	}
}

// A source loses its last messages in a power failure, after they were forwarded. It gives their
// positions to others.
func TestForwardFromASourceThatLostItsEnd(t *testing.T) {
	t.Parallel()
	for name, agent := range map[string]string{"SameAgent": "a", "OtherAgent": "b"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, backup := t.TempDir()+"/source", t.TempDir()+"/backup"
			to := Connection{InProcess: natstest.Start(t, natsserver.Config{})}
			hub := client(t, to)
			open := func() (*natsserver.Server, Connection, jetstream.JetStream) {
				server := natstest.Start(t, natsserver.Config{Dir: dir})
				c := Connection{InProcess: server}
				return server, c, client(t, c)
			}
			stop := func(server *natsserver.Server) {
				if err := server.Stop(); err != nil {
					t.Fatal(err)
				}
			}
			server, _, js := open()
			streamFor(t, js, nil)
			puts(t, js, "a", 1, 10)
			stop(server)
			if err := os.CopyFS(backup, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			server, from, js := open()
			puts(t, js, "a", 11, 15)
			f := forward(t, from, to)
			arrived(t, hub, 15)
			f.stop()
			stop(server)
			if err := errors.Join(os.RemoveAll(dir), os.CopyFS(dir, os.DirFS(backup))); err != nil {
				t.Fatal(err)
			}
			_, from, js = open()
			for n := uint64(1); n <= 20; n++ {
				put(t, js, queue.MessageID{Agent: lockagent.AgentID(agent), Epoch: 2, First: n, Last: n})
			}
			f = forward(t, from, to)
			arrived(t, hub, 35)
			f.stop()
			all := byAgent(t, hub)
			if len(all["a"])+len(all["b"]) != 35 || len(hubIDs(t, hub)) != 35 {
				t.Errorf("the hub has %v", all)
			}
			later := all[agent][len(all[agent])-20:]
			if source := byAgent(t, js)[agent]; !slices.Equal(later, source[len(source)-20:]) {
				t.Errorf("the hub has %s", ids(later))
			}
		})
	}
}
