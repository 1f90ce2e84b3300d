package natslog

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/audit"
	"github.com/lockagent/lockagent/events/internal/queue"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	"github.com/lockagent/lockagent/internal/waittest"
)

// everything is a logger that keeps all.
func (h *heard) everything() *slog.Logger {
	return slog.New(slog.NewTextHandler(h, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// count returns how often a text was logged.
func (h *heard) count(text string) int { return strings.Count(h.String(), text) }

// warnings returns how many have a text.
func (h *heard) warnings(text string) (n int) {
	for line := range strings.Lines(h.String()) {
		if strings.Contains(line, "level=WARN") && strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// toldOnce waits until a forwarder has tried in vain several times, and says of the hub what is wrong. It fails the
// test unless the forwarder told the operator once, and once more each time it had forwarded something meanwhile.
func toldOnce(t *testing.T, f *forwarding, log *heard, says string) {
	t.Helper()
	waittest.Until(t, "it tries again and again, and says of the hub: "+says, func() bool {
		err := f.Stats().Err
		end, ok := errors.AsType[*EndError](err)
		return log.count("still nothing is forwarded") >= 3 && ok && end.End == HubEnd && strings.Contains(err.Error(), says)
	})
	told := log.warnings(says)
	if told > 1+log.count("forwarding again") || log.count("level=ERROR") != 0 ||
		log.count("nothing is forwarded until this is over") == 0 {
		t.Errorf("it logs\n%s", log)
	}
}

// forwardsAgain waits until the hub has everything, and fails the test unless the operator was told that
// it is over.
func forwardsAgain(t *testing.T, f *forwarding, log *heard, e ends, n uint64) {
	t.Helper()
	arrived(t, e.hub, n)
	waittest.Until(
		t, "it says that it is over", func() bool { return log.count("forwarding again") > 0 && f.Stats().Err == nil },
	)
	f.stop()
	wantCopy(t, e.source, e.hub)
	if f.Stats().Discarded+f.Stats().Refused > 0 {
		t.Errorf("%+v\n%s", f.Stats(), log)
	}
}

// A hub that takes nothing more, or would lose what it takes, is told of once. When its stream is
// mended, all goes on.
func TestForwardToAStreamThatDoesNotDo(t *testing.T) {
	t.Parallel()
	good := jetstream.StreamConfig{
		Name: DefaultStream, Subjects: []string{events.AllSubjects}, AllowAtomicPublish: true, AllowDirect: true,
	}
	for name, c := range map[string]struct {
		change func(*jetstream.StreamConfig)
		says   string
	}{
		"Full": {
			func(cfg *jetstream.StreamConfig) { cfg.MaxMsgs, cfg.Discard = 13, jetstream.DiscardNew },
			"maximum messages exceeded",
		},
		"FullOfBytes": {
			func(cfg *jetstream.StreamConfig) { cfg.MaxBytes, cfg.Discard = 3000, jetstream.DiscardNew },
			"maximum bytes exceeded",
		},
		"FullSingly": {func(cfg *jetstream.StreamConfig) {
			cfg.MaxMsgs, cfg.Discard, cfg.AllowAtomicPublish = 13, jetstream.DiscardNew, false
		}, "maximum messages exceeded"},
		"NotItsOwn": {
			func(cfg *jetstream.StreamConfig) { cfg.Subjects = []string{"lockagent.v1.a.>"} }, "do not cover lockagent.v1.>",
		},
		"OneForALock": {
			func(cfg *jetstream.StreamConfig) { cfg.MaxMsgsPerSubject = 1 }, "keeps 1 messages of each lock only",
		},
		"Acknowledges": {func(cfg *jetstream.StreamConfig) { cfg.NoAck = true }, "acknowledges nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnds(t)
			streamFor(t, e.source, nil)
			streamFor(t, e.hub, c.change)
			for n := uint64(1); n <= 20; n++ {
				puts(t, e.source, "a", n, n)
				puts(t, e.source, "b", n, n)
			}
			var log heard
			f := forwardWith(t, ForwardConfig{
				Source: ReaderConfig{Connection: e.from}, Hub: ReaderConfig{Connection: e.to}, Logger: log.everything(),
			})
			toldOnce(t, f, &log, c.says)
			if _, err := e.hub.UpdateStream(waittest.Context(t), good); err != nil {
				t.Fatal(err)
			}
			forwardsAgain(t, f, &log, e, 40)
		})
	}
}

// A server that takes small messages only refuses nothing for good. When its operator has given it
// another limit, all goes on.
func TestForwardToAServerOfSmallMessages(t *testing.T) {
	t.Parallel()
	e := ends{from: Connection{InProcess: natstest.Start(t, natsserver.Config{})}}
	e.source = client(t, e.from)
	dir := t.TempDir()
	var l link
	start := func(payload int) *natsserver.Server {
		s := natstest.Start(t, natsserver.Config{
			Dir: dir, ConfigFile: natstest.File(t, fmt.Sprintf("max_payload: %d", payload)),
		})
		l.use(s)
		e.hub = client(t, Connection{InProcess: &l})
		return s
	}
	s := start(32 << 10)
	streamFor(t, e.hub, nil)
	streamFor(t, e.source, nil)
	for n := uint64(1); n <= 5; n++ {
		m := &nats.Msg{
			Subject: "lockagent.v1.a.lock.x", Data: make([]byte, 60_000*(n%2)),
			Header: nats.Header{jetstream.MsgIDHeader: {queue.MessageID{Agent: "a", Epoch: 1, First: n, Last: n}.String()}},
		}
		if _, err := e.source.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	var log heard
	f := forwardWith(t, ForwardConfig{
		Source: ReaderConfig{Connection: e.from}, Hub: ReaderConfig{Connection: Connection{InProcess: &l}},
		Logger: log.everything(),
	})
	toldOnce(t, f, &log, "set its max_payload to 131072 or more")
	l.use(nil)
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	start(queue.MaxMessage)
	arrived(t, e.hub, 5)
	f.stop()
	wantCopy(t, e.source, e.hub)
	if got := f.Stats(); got.Refused != 0 {
		t.Errorf("got %+v", got)
	}
}

// A hub that keeps less than a new one would is told of once, whatever happens to the connection.
func TestForwardToAWeakerHub(t *testing.T) {
	t.Parallel()
	e := newEnds(t)
	var l link
	l.use(e.to.InProcess.(*natsserver.Server))
	streamFor(t, e.source, nil)
	streamFor(t, e.hub, func(cfg *jetstream.StreamConfig) { cfg.MaxAge, cfg.MaxMsgs = time.Hour, 3 })
	var log heard
	f := forwardWith(t, ForwardConfig{
		Source: ReaderConfig{Connection: e.from}, Hub: ReaderConfig{Connection: Connection{InProcess: &l}},
		Logger: log.everything(),
	})
	for n := range uint64(3) {
		puts(t, e.source, "a", n+1, n+1)
		waittest.Until(t, "it is forwarded", func() bool { return f.Stats().Forwarded == n+1 })
		l.cut()
		waittest.Until(t, "the forwarder notices", func() bool { return log.count("nothing is forwarded") > int(n) })
	}
	if n := log.count(`settings="max age is 1h0m0s, not 0s, max messages is 3, not -1"`); n != 1 ||
		log.count("has weaker settings") != 1 {
		t.Errorf("%d warnings:\n%s", n, &log)
	}
}

// A hub that does not permit the forwarder to publish for every agent is told of once. When its
// operator permits it, all goes on.
func TestForwardWithoutPermission(t *testing.T) {
	t.Parallel()
	const conf = `accounts: { HUB: { jetstream: enabled, users: [
		{ user: root, password: secret },
		{ user: forwarder, password: secret, permissions: {
			publish: [ %q, "$JS.API.>" ], subscribe: [ "_INBOX.>" ] } } ] } }`
	e := ends{from: Connection{InProcess: natstest.Start(t, natsserver.Config{})}}
	e.source = client(t, e.from)
	dir, password := t.TempDir(), natstest.File(t, "secret")
	var l link
	start := func(subjects string) *natsserver.Server {
		s := natstest.Start(t, natsserver.Config{Dir: dir, ConfigFile: natstest.File(t, fmt.Sprintf(conf, subjects))})
		l.use(s)
		e.hub = client(t, Connection{InProcess: &l, User: "root", PasswordFile: password})
		return s
	}
	s := start("lockagent.v1.a.>")
	streamFor(t, e.hub, nil)
	streamFor(t, e.source, nil)
	puts(t, e.source, "a", 1, 20)
	puts(t, e.source, "b", 1, 20)
	var log heard
	f := forwardWith(t, ForwardConfig{
		Source: ReaderConfig{Connection: e.from},
		Hub:    ReaderConfig{Connection: Connection{InProcess: &l, User: "forwarder", PasswordFile: password}},
		Logger: log.everything(),
	})
	toldOnce(t, f, &log, "lockagent.v1.b.lock.orders.42")
	l.use(nil)
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	start(events.AllSubjects)
	arrived(t, e.hub, 40)
	f.stop()
	wantCopy(t, e.source, e.hub)
}

// A wrong password is told of once. When there is the right one in the file, all goes on. A file that
// is away while it is replaced ends nothing.
func TestForwardWithTheWrongPassword(t *testing.T) {
	t.Parallel()
	e := newEnds(t)
	streamFor(t, e.source, nil)
	server := natstest.StartSecured(
		t, `accounts: { HUB: { jetstream: enabled, users: [ { user: joe, password: secret } ] } }`,
	)
	right, password := natstest.File(t, "secret"), natstest.File(t, "wrong")
	e.hub = client(t, Connection{URL: server.URL(), User: "joe", PasswordFile: right})
	streamFor(t, e.hub, nil)
	puts(t, e.source, "a", 1, 10)
	var l link
	l.use(e.from.InProcess.(*natsserver.Server))
	var log heard
	cfg := ForwardConfig{
		Source: ReaderConfig{Connection: Connection{InProcess: &l}},
		Hub:    ReaderConfig{Connection: Connection{URL: server.URL(), User: "joe", PasswordFile: password}},
		Logger: log.everything(),
	}
	f := forwardWith(t, cfg)
	toldOnce(t, f, &log, "check the credentials")
	rename(t, right, password)
	forwardsAgain(t, f, &log, e, 10)

	f = forwardWith(t, cfg)
	rename(t, password, right)
	waittest.Until(t, "it misses the file", func() bool {
		err := f.Stats().Err
		if err == nil {
			l.cut() // the next session connects to both ends
		}
		return errors.Is(err, lockagent.ErrBadOption)
	})
	puts(t, e.source, "a", 11, 20)
	rename(t, right, password)
	arrived(t, e.hub, 20)
	f.stop()
	wantCopy(t, e.source, e.hub)
}

// A hub is away for so long that the source discards what one agent told. The audit of the hub names
// the numbers of that agent, and none of another one, and the messages of the source.
func TestForwardedGapIsAudited(t *testing.T) {
	t.Parallel()
	e := newEnds(t)
	var l link
	server := e.to.InProcess.(*natsserver.Server)
	l.use(server)
	streamFor(t, e.source, func(cfg *jetstream.StreamConfig) { cfg.MaxBytes = 100_000 })
	var log heard
	f := forwardWith(t, ForwardConfig{
		Source: ReaderConfig{Connection: e.from}, Hub: ReaderConfig{Connection: Connection{InProcess: &l}},
		Logger: log.everything(),
	})
	agents := make(map[string]*actingAgent)
	for _, name := range []string{"busy", "quiet"} {
		p := newPublisher(t, Config{Connection: e.from, Agent: lockagent.AgentID(name)})
		agents[name] = &actingAgent{p: p, store: name, prefix: name + "/"}
		p.Record(t.Context(), lockagent.Event{Kind: lockagent.EventAgentStarted})
	}
	act := func(name string) {
		for range 20 {
			agents[name].act()
		}
		agents[name].releaseAll()
		flushed(t, agents[name].p)
	}
	act("busy")
	act("quiet")
	arrived(t, e.hub, state(t, e.source).LastSeq)
	l.use(nil)
	l.cut()
	waittest.Until(t, "the forwarder notices", func() bool { return f.Stats().Err != nil })
	before := state(t, e.source).LastSeq
	for state(t, e.source).FirstSeq < before+20 {
		act("busy")
	}
	discarded := state(t, e.source).FirstSeq - before - 1
	left := state(t, e.source).LastSeq - state(t, e.source).FirstSeq + 1
	l.use(server)
	arrived(t, e.hub, before+left)
	for _, name := range []string{"busy", "quiet"} {
		act(name)
		agents[name].p.Record(t.Context(), lockagent.Event{Kind: lockagent.EventAgentStopped})
		flushed(t, agents[name].p)
	}
	arrived(t, e.hub, state(t, e.source).LastSeq-discarded)
	waittest.Until(t, "all is counted", func() bool { return f.Stats().Behind == 0 })
	f.stop()

	all, report := replayed(t, e.to, "")
	var hole audit.RecordHole
	last := make(map[lockagent.AgentID]uint64)
	for _, r := range all {
		if want := last[r.Agent] + 1; r.Seq != want {
			hole = audit.RecordHole{Agent: r.Agent, Epoch: 1, Range: events.Range{First: want, Last: r.Seq - 1}}
		}
		last[r.Agent] = r.Seq
	}
	if hole.Agent != "busy" {
		t.Errorf("the hub has %v", hole)
	}
	if stats := f.Stats(); stats.Discarded != discarded {
		t.Errorf("got %+v, want %d discarded", stats, discarded)
	}
	if n := log.count(
		fmt.Sprintf(
			`msg="events: messages were discarded before they were forwarded" messages=%d first=%d last=%d`, discarded, before+1,
			before+discarded,
		),
	); n != 1 {
		t.Errorf("it logs %s", log.String())
	}
	if want := []audit.RecordHole{hole}; report.RecordHoles.Count != 1 || !slices.Equal(report.RecordHoles.First, want) {
		t.Errorf("the audit misses %v, want %v", report.RecordHoles, want)
	}
	if want := (events.Range{First: before + 1, Last: before + discarded}); report.MessageHoles.Count != 1 ||
		report.MessageHoles.First[0].Range != want || report.MessageHoles.First[0].Agent != "busy" {
		t.Errorf("the audit misses %v, want %v", report.MessageHoles, want)
	}
	if report.Verdict != audit.Incomplete {
		t.Errorf("the audit says %v", report)
	}
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}
