package events

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent"
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
			arrived(t, e.hub, 10+3+20)
			waittest.Until(t, "all is counted", func() bool { s := f.Stats(); return s.Forwarded == 30 && s.Discarded == 20 })
			stats := f.Stats()
			f.stop()
			want := []Gap{{Agent: "c", Epoch: 1, Range: Range{1, 5}}}
			if stats.Discarded != 20 || !slices.Equal(stats.Missing, want) {
				t.Errorf("got %+v", stats)
			}

			// Whoever comes later knows that it was told.
			f = forward(t, e.from, e.to)
			puts(t, e.source, "c", 26, 26)
			arrived(t, e.hub, 10+3+21)
			f.stop()
			got := byAgent(t, e.hub)
			if !slices.Equal(got["a"], before["a"]) || !slices.Equal(got["c"][1:], byAgent(t, e.source)["c"]) || got["vanished"] != nil {
				t.Errorf("the hub has %v", got)
			}
			told, report := replayed(t, e.to, "") // only those of the forwarder are records
			if len(told) != 3 || told[0].Kind != lockagent.EventAgentStarted || told[1].Kind != lockagent.EventDropped ||
				told[2].Kind != lockagent.EventAgentStopped {
				t.Fatalf("told %v", told)
			}
			if text := told[1].Err; !strings.HasPrefix(text, "20 messages were not forwarded, from 11 to 30 of stream LOCKAGENT") {
				t.Errorf("told %q", text)
			}
			gap := Gap{Agent: told[0].Agent, Epoch: told[0].Epoch, Range: Range{2, 21}}
			if !slices.Contains(report.Gaps.First, gap) || report.Verdict == Proven {
				t.Errorf("the audit of the hub says %v, want gap %v", report, gap)
			}
		})
	}
}

// What is lost for the second time is told as a second life.
func TestForwardTellsAgain(t *testing.T) {
	t.Parallel()
	e := newEnds(t)
	streamFor(t, e.source, func(cfg *jetstream.StreamConfig) { cfg.MaxMsgs = 10 })
	for round := range uint64(2) {
		puts(t, e.source, "a", round*30+1, round*30+30)
		f := forward(t, e.from, e.to)
		arrived(t, e.hub, (round+1)*13)
		f.stop()
	}
	all, _ := replayed(t, e.to, "")
	if len(all) != 6 {
		t.Fatalf("told %v", all)
	}
	if first, second := all[0], all[3]; second.Epoch != first.Epoch+1 || second.Seq != 1 {
		t.Errorf("the second life is %v, after %v", second, first)
	}
	if seq := all[4].Seq; seq != 22 {
		t.Errorf("the second gap ends at %d, want 22", seq)
	}
}

// A session ends in the middle of telling a loss to a hub that takes no batches. The next one ends that
// life of the teller, and tells what is left.
func TestForwardEndsATale(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		last  string // what does not arrive
		lives int
	}{"AfterTheStart": {"dropped", 2}, "AfterTheLoss": {"agentstopped", 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnds(t)
			var l link
			l.use(e.to.InProcess.(*natsserver.Server))
			streamFor(t, e.source, func(cfg *jetstream.StreamConfig) { cfg.MaxMsgs = 10 })
			streamFor(t, e.hub, func(cfg *jetstream.StreamConfig) { cfg.AllowAtomicPublish = false })
			puts(t, e.source, "a", 1, 30)
			lost := make(chan signal)
			l.tap(func(text []byte) bool {
				if !bytes.Contains(text, []byte("HPUB lockagent.v1.forwarder-")) || !bytes.Contains(text, []byte("."+test.last+".")) {
					return true
				}
				l.tap(nil)
				l.use(nil)
				close(lost)
				return false
			})
			f := forward(t, e.from, Connection{InProcess: &l})
			<-lost
			f.stop()
			f = forward(t, e.from, e.to)
			waittest.Until(t, "the rest is forwarded", func() bool { return f.Stats().Forwarded == 10 })
			f.stop()
			told, report := replayed(t, e.to, "")
			began, ended := 0, 0
			for _, r := range told {
				switch r.Kind {
				case lockagent.EventAgentStarted:
					began++
				case lockagent.EventAgentStopped:
					ended++
				}
			}
			if began != test.lives || ended != test.lives || report.Tails.Count != 0 || report.Gaps.Count != 1 {
				t.Errorf("%d lives begin and %d end:\n%v\n%v", began, ended, told, report)
			}
		})
	}
}

// The hub removes what it has, before the second loss or after it. Its audit misses no life of the agent
// that told of the losses.
func TestForwardTellsAfterRetention(t *testing.T) {
	t.Parallel()
	for name, between := range map[string]bool{"BetweenTheLosses": true, "AfterBoth": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnds(t)
			streamFor(t, e.source, func(cfg *jetstream.StreamConfig) { cfg.MaxMsgs = 10 })
			p := newPublisher(t, Config{Connection: e.from, Agent: "a"})
			a := &actingAgent{p: p, store: "s", prefix: "a/"}
			p.Record(t.Context(), lockagent.Event{Kind: lockagent.EventAgentStarted, Store: "s"})
			flushed(t, p)
			purge := func(before uint64) {
				stream, err := e.hub.Stream(t.Context(), DefaultStream)
				if err != nil {
					t.Fatal(err)
				}
				if err := stream.Purge(t.Context(), jetstream.WithPurgeSequence(before)); err != nil {
					t.Fatal(err)
				}
			}
			first := uint64(0)
			for round := range 2 {
				for range 30 {
					a.act()
					flushed(t, p)
				}
				f := forward(t, e.from, e.to)
				waittest.Until(t, "all is forwarded", func() bool {
					s := f.Stats()
					return s.Discarded > 0 && s.Behind == 0 && s.Forwarded == 10
				})
				f.stop()
				if round == 0 {
					first = state(t, e.hub).LastSeq
				}
				if between && round == 0 {
					purge(first + 1)
				}
			}
			purge(first + 1)
			all, report := replayed(t, e.to, "")
			if report.Gaps.Count == 0 || len(all) < 13 {
				t.Errorf("%d records:\n%v", len(all), report)
			}
			for _, g := range report.Gaps.First {
				if g.Lives > 0 {
					t.Errorf("a life is missing: %+v", g)
				}
			}
		})
	}
}

// What is not from a publisher is left out, and holds up nothing.
func TestForwardForeign(t *testing.T) {
	t.Parallel()
	e := newEnds(t)
	streamFor(t, e.source, func(cfg *jetstream.StreamConfig) { cfg.Subjects = []string{AllSubjects, "weather.>"} })
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
		put(t, e.source, messageID{"a", 1, n, n})
		msg := &nats.Msg{Subject: m.subject, Header: nats.Header{}}
		if m.id != "" {
			msg.Header.Set(jetstream.MsgIDHeader, m.id)
		}
		if err := e.source.Conn().PublishMsg(msg); err != nil {
			t.Fatal(err)
		}
	}
	waittest.Until(t, "all are seen", func() bool { s := f.Stats(); return s.Foreign+s.Forwarded == uint64(2*len(foreign)) })
	if got := ids(byAgent(t, e.hub)["a"]); got != "1:1 1:2 1:3 1:4 1:5 1:6 " {
		t.Errorf("the hub has %s", got)
	}
	if got := f.Stats(); got.Foreign != uint64(len(foreign)) || got.Discarded != 0 {
		t.Errorf("got %+v", got)
	}
}

// Messages that the hub never takes hold up nothing, and each is told before the message behind it.
func TestForwardRefused(t *testing.T) {
	t.Parallel()
	for name, atomic := range map[string]bool{"Batches": true, "Singly": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnds(t)
			streamFor(t, e.source, nil)
			streamFor(t, e.hub, func(cfg *jetstream.StreamConfig) { cfg.MaxMsgSize, cfg.AllowAtomicPublish = maxMessage, atomic })
			var want []string
			for n := uint64(1); n <= 40; n++ {
				id := messageID{"a", 1, n, n}
				if n%10 != 0 {
					put(t, e.source, id)
					want = append(want, id.String())
					continue
				}
				large := &nats.Msg{Subject: "lockagent.v1.a.lock.x", Data: make([]byte, maxMessage), Header: nats.Header{jetstream.MsgIDHeader: {id.String()}}}
				if _, err := e.source.PublishMsg(t.Context(), large); err != nil {
					t.Fatal(err)
				}
				want = append(want, "1", "3", "4")
			}
			f := forward(t, e.from, e.to)
			arrived(t, e.hub, 36+4*3)
			waittest.Until(t, "all is counted", func() bool { s := f.Stats(); return s.Forwarded == 36 && s.Refused == 4 })
			missing := []Gap{{Agent: "a", Epoch: 1, Range: Range{10, 10}}, {Agent: "a", Epoch: 1, Range: Range{20, 20}}, {Agent: "a", Epoch: 1, Range: Range{30, 30}}}
			if got := f.Stats(); got.Refused != 4 || got.Discarded != 0 || !slices.Equal(got.Missing, missing) {
				t.Errorf("got %+v", got)
			}
			got := hubIDs(t, e.hub)
			for i, id := range got {
				if strings.HasPrefix(id, "forwarder-") {
					got[i] = id[strings.LastIndexByte(id, ':')+1:]
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("the hub has %v\nwant %v", got, want)
			}
		})
	}
}

// A message that the hub has refused is told once, although the next session finds nothing behind it.
func TestForwardRefusedIsToldOnce(t *testing.T) {
	t.Parallel()
	e := newEnds(t)
	streamFor(t, e.source, nil)
	streamFor(t, e.hub, func(cfg *jetstream.StreamConfig) { cfg.MaxMsgSize = maxMessage })
	puts(t, e.source, "a", 1, 3)
	large := &nats.Msg{Subject: "lockagent.v1.a.lock.x", Data: make([]byte, maxMessage), Header: nats.Header{jetstream.MsgIDHeader: {"a:1:4"}}}
	if _, err := e.source.PublishMsg(t.Context(), large); err != nil {
		t.Fatal(err)
	}
	f := forward(t, e.from, e.to)
	waittest.Until(t, "it is refused", func() bool { s := f.Stats(); return s.Refused == 1 && s.Behind == 0 })
	f.stop()
	puts(t, e.source, "a", 5, 6)
	f = forward(t, e.from, e.to)
	waittest.Until(t, "the rest is forwarded", func() bool { return f.Stats().Forwarded == 2 })
	if got := hubIDs(t, e.hub); len(got) != 8 || got[7] != "a:1:6" {
		t.Errorf("the hub has %v", got)
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
		for _, kind := range []lockagent.EventKind{lockagent.EventAgentStarted, lockagent.EventLost, lockagent.EventAgentStopped} {
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
	if all, report := replayed(t, e.to, ""); len(all) != 6 || report.Gaps.Count != 0 {
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
	put(t, e.source, messageID{"a", 2, 1, 1})
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
	s := &forwardSession{f: f.Forwarder, ctx: ctx, marks: make(map[lockagent.AgentID]mark), answers: make(chan *nats.Msg, 4)}
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
				put(t, js, messageID{lockagent.AgentID(agent), 2, n, n})
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
