package natslog

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/audit"
	"github.com/lockagent/lockagent/events/fold"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/nats-io/nats.go/jetstream"
)

// killSeed has a test kill the same parts in the same order as it did before.
const killSeed = "LOCKAGENT_TEST_KILL_SEED"

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

// site is all parts of the forwarding, in processes of their own. Two agents publish all the time.
type site struct {
	source, hub     *process
	forwarder       forwarderProcess
	publishers      []*publisherProcess
	fromSource, has jetstream.JetStream // of the source and the hub
}

func newSite(t *testing.T, change func(source *jetstream.StreamConfig)) *site {
	t.Helper()
	f := &site{source: newProcess(t), hub: newProcess(t)}
	f.source.start()
	f.hub.start()
	f.fromSource, f.has = client(t, Connection{URL: f.source.url}), client(t, Connection{URL: f.hub.url})
	streamFor(t, f.fromSource, change)
	// The hub forgets message ids at once: they are not what this rests on.
	streamFor(t, f.has, func(cfg *jetstream.StreamConfig) { cfg.Duplicates = 100 * time.Millisecond })
	f.forwarder = forwarderProcess{newChild(t, "forwarder", map[string]string{"FROM": f.source.url, "TO": f.hub.url})}
	f.forwarder.start()
	for _, agent := range []string{"first", "second"} {
		p := newPublisherProcess(t, f.source.url, agent)
		p.start()
		f.publishers = append(f.publishers, p)
	}
	return f
}

// killing kills two parts at once, again and again and at any moment, and starts them again.
func (f *site) killing(t *testing.T, rounds int) {
	t.Helper()
	seed, err := strconv.ParseUint(cmp.Or(os.Getenv(killSeed), fmt.Sprint(rand.Uint64())), 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", killSeed, err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("to kill the same parts in the same order: %s=%d", killSeed, seed)
		}
	})
	random := rand.New(rand.NewPCG(seed, 0))
	type part interface {
		kill()
		start()
	}
	victims := []part{f.source, f.hub, f.forwarder, f.publishers[0], f.publishers[1]}
	for round := range rounds {
		more := state(t, f.has).LastSeq + random.Uint64N(300)
		waittest.Until(
			t, fmt.Sprintf("the hub gets messages in round %d", round), func() bool { return state(t, f.has).LastSeq > more },
		)
		random.Shuffle(len(victims), func(i, j int) { victims[i], victims[j] = victims[j], victims[i] })
		victims[0].kill()
		<-time.After(time.Duration(random.IntN(50)) * time.Millisecond) // any moment
		victims[1].kill()
		first := random.IntN(2)
		victims[first].start()
		victims[1-first].start()
	}
}

// end lets the publishers end.
func (f *site) end() {
	for _, p := range f.publishers {
		p.end()
	}
}

func TestForwardKilled(t *testing.T) {
	t.Parallel()
	forwardKilled(t, 2)
}

// forwardKilled kills the source, the hub, the forwarder, and the agents. In the end the hub is
// the source, and has all that the source ever acknowledged.
func forwardKilled(t *testing.T, rounds int) {
	t.Helper()
	f := newSite(t, nil)
	f.killing(t, rounds)
	f.end()
	n := state(t, f.fromSource).LastSeq
	waittest.Until(t, fmt.Sprintf("the hub has %d messages", n), func() bool { return state(t, f.has).LastSeq >= n })
	source, hub := Connection{URL: f.source.url}, Connection{URL: f.hub.url}
	wantSameStream(t, source, hub)

	all, report := replayed(t, hub, "")
	_, want := replayed(t, source, "")
	defer func() {
		if t.Failed() {
			keep(t, all, report)
		}
	}()
	if got, want := withoutTailEnds(report), withoutTailEnds(want); !reflect.DeepEqual(got, want) {
		t.Errorf("the audit of the hub says\n%v\nthat of the source\n%v", got, want)
	}
	last := make(map[lockagent.AgentID]map[uint64]uint64) // the number of the last record of each epoch
	for _, r := range all {
		if last[r.Agent] == nil {
			last[r.Agent] = make(map[uint64]uint64)
		}
		last[r.Agent][r.Epoch] = r.Seq
	}
	untold := uint64(0) // lives that were over before the source had anything of them
	for _, p := range f.publishers {
		for i, acked := range p.acked {
			got, want := last[p.agent][uint64(i)+1], acked.Load()
			if got < want {
				t.Errorf("agent %s, epoch %d: the hub has %d records, and %d were acknowledged", p.agent, i+1, got, want)
			}
			if got == 0 {
				untold++
			}
		}
	}
	verdict, missing := audit.Proven, uint64(0)
	if untold > 0 {
		verdict = audit.Incomplete
	}
	for _, g := range report.RecordHoles.First {
		missing += g.Lives
		if g.Lives == 0 {
			t.Errorf("missing: %v", g)
		}
	}
	if report.Verdict != verdict || missing != untold || report.Unproven.Count > 0 || report.Duplicates != 0 ||
		report.Grants == 0 {
		t.Errorf("%d lives left no record, and the audit of the hub says %v: %s", untold, report.Verdict, report.Summary())
	}
	t.Logf("%d messages, %d records, %v", n, len(all), report.Verdict)
}

// withoutTailEnds returns a report without the ends of its tails. The hub has each message later than the source, so
// there they differ.
func withoutTailEnds(r audit.Report) audit.Report {
	r.Tails.First = slices.Clone(r.Tails.First)
	for i := range r.Tails.First {
		r.Tails.First[i].To = 0
	}
	return r
}

// keep logs the records that a report rests on. For each hold that the report names, these are the records of its lock
// shortly before and after it, and those of its agent about no lock. The whole log becomes a file.
func keep(t *testing.T, all []events.Record, r audit.Report) {
	t.Helper()
	const around = 6 // records of the same lock
	shown := make(map[int]bool)
	show := func(h fold.Hold) {
		var of []int
		first, last := -1, -1
		for i := range all {
			x := &all[i]
			switch {
			case x.Agent != h.Agent:
			case x.Lock == "":
				shown[i] = true
			case x.Lock == h.Lock:
				if x.Tenure == h.Tenure && x.Epoch == h.Epoch {
					if last = len(of); first < 0 {
						first = last
					}
				}
				of = append(of, i)
			}
		}
		if first >= 0 {
			of = of[max(0, first-around):min(len(of), last+around+1)]
		}
		for _, i := range of {
			shown[i] = true
		}
	}
	for _, h := range notProven(r) {
		show(h)
	}
	for _, g := range r.RecordHoles.First {
		show(fold.Hold{Agent: g.Agent})
	}
	var text, log strings.Builder
	for i := range all {
		if shown[i] {
			fmt.Fprintf(
				&text, "%d, stored %v: %s\n", all[i].Position, all[i].Stored.Format(time.RFC3339Nano), events.Append(nil, all[i]),
			)
		}
		_ = events.WriteLine(&log, all[i]) // into memory
	}
	t.Logf("the audit says %v\nof %d records these are about what it names:\n%s", r, len(all), text.String())
	file := filepath.Join(t.ArtifactDir(), "log.jsonl")
	if err := os.WriteFile(file, []byte(log.String()), 0o600); err != nil {
		t.Error(err)
	}
	t.Logf("the whole log is in %s, if go test was told to keep it", file)
}

func TestForwardKilledWithLosses(t *testing.T) {
	t.Parallel()
	forwardKilledWithLosses(t, 2)
}

// forwardKilledWithLosses does the same with a source that has little room. Then the hub is away
// until the source has discarded all that it had. In the end the hub has each message of the source,
// or was told that it is lost: each of them once, and in their order.
func forwardKilledWithLosses(t *testing.T, rounds int) {
	t.Helper()
	f := newSite(t, func(cfg *jetstream.StreamConfig) { cfg.MaxMsgs = 500 })
	f.killing(t, rounds)
	f.hub.kill()
	had := state(t, f.fromSource).LastSeq
	waittest.Until(
		t, "the source discards what the hub lacks", func() bool { return state(t, f.fromSource).FirstSeq > had+1 },
	)
	f.hub.start()
	f.end()
	n := state(t, f.fromSource).LastSeq
	waittest.Until(t, fmt.Sprintf("the hub knows of %d messages", n), func() bool {
		stream, err := f.has.Stream(t.Context(), DefaultStream)
		if err != nil {
			return false
		}
		last, err := stream.GetMsg(t.Context(), stream.CachedInfo().State.LastSeq)
		if err != nil {
			return false
		}
		o, _ := events.ParseOrigin(last.Header.Get(events.OriginHeader))
		return o.Position == n
	})
	concluded, losses := uint64(0), 0
	for next := read(t, Connection{URL: f.hub.url}); ; {
		m := next()
		if m == nil {
			break
		}
		o, ok := events.ParseOrigin(m.Headers().Get(events.OriginHeader))
		switch want := concluded + 1; {
		case !ok:
			t.Fatalf("the header is %v", m.Headers())
		case o.Lost.Last > 0 && o.Lost != (events.Range{First: want, Last: o.Position - 1}),
			o.Lost.Last == 0 && o.Position != want:
			t.Fatalf("%v follows what ends at %d", o, concluded)
		case o.Lost.Last > 0:
			losses++
		}
		concluded = o.Position
	}
	if concluded != n || losses == 0 {
		t.Errorf("the hub knows of %d messages, want %d; %d losses", concluded, n, losses)
	}
	t.Logf("%d messages, %d losses", n, losses)
}

// wantSameStream fails the test unless both streams have the same messages in the same order. The
// headers with which their writers asked for something may differ.
func wantSameStream(t testing.TB, source, hub Connection) {
	t.Helper()
	want, got := read(t, source), read(t, hub)
	for i := 1; ; i++ {
		a, b := want(), got()
		if a == nil && b == nil {
			return
		}
		if a == nil || b == nil {
			t.Fatalf("a stream ends before message %d: %v, %v", i, a, b)
		}
		if a, b := copiedOf(a.Subject(), a.Headers(), a.Data()), copiedOf(b.Subject(), b.Headers(), b.Data()); a != b {
			t.Fatalf("message %d of the hub is\n%+v\nwant\n%+v", i, b, a)
		}
	}
}

// read returns a function that returns the messages of a stream, and nil at its end.
func read(t testing.TB, c Connection) func() jetstream.Msg {
	t.Helper()
	stream, err := client(t, c).Stream(waittest.Context(t), DefaultStream)
	if err != nil {
		t.Fatal(err)
	}
	left := stream.CachedInfo().State.Msgs
	consumer, err := stream.OrderedConsumer(waittest.Context(t), jetstream.OrderedConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	messages, err := consumer.Messages()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(messages.Stop)
	return func() jetstream.Msg {
		if left == 0 {
			return nil
		}
		left--
		m, err := messages.Next(jetstream.NextContext(waittest.Context(t)))
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
}

func copiedOf(subject string, h map[string][]string, body []byte) copied {
	id := strings.Join(h[jetstream.MsgIDHeader], ",")
	h = maps.Clone(h)
	maps.DeleteFunc(h, func(key string, _ []string) bool {
		return key == events.OriginHeader || strings.HasPrefix(key, "Nats-")
	})
	return copied{id, subject, fmt.Sprint(h), string(body)}
}

// notProven are the holds that a report does not say to be proven.
func notProven(r audit.Report) (all []fold.Hold) {
	for _, h := range r.NotJudged.First {
		all = append(all, h.Hold)
	}
	for _, v := range r.Violations.First {
		all = append(all, v.First, v.Second)
	}
	for _, e := range r.Explained.First {
		all = append(all, e.First, e.Second)
	}
	for _, u := range r.Unproven.First {
		all = append(all, u.Hold)
	}
	return all
}
