package natslog

import (
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/audit"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/waittest"
)

func TestParseOrigin(t *testing.T) {
	for text, want := range map[string]events.Origin{
		"k3.7":        {Stream: "k3", Position: 7, Lost: events.Range{}},
		"k3.31.11-30": {Stream: "k3", Position: 31, Lost: events.Range{First: 11, Last: 30}},
		"k3.9.1-1":    {Stream: "k3", Position: 9, Lost: events.Range{First: 1, Last: 1}},
	} {
		if got, ok := events.ParseOrigin(text); !ok || got != want {
			t.Errorf("%q is %+v, %v", text, got, ok)
		}
	}
	for _, text := range []string{
		"", "k3", "k3.", ".7", "k3.0", "k3.07", "k3.x", "k3.7.", "k3.7.1", "k3.7.1-", "k3.7.0-3", "k3.7.4-3", "k3.7.3-7",
		"k3.7.1-2.3", "k3.7,k4.1",
	} {
		if got, ok := events.ParseOrigin(text); ok {
			t.Errorf("%q is %+v", text, got)
		}
	}
}

// holding are the events of one hold of a lock, which the agent has from a time on, and gives back. A token is a time
// of the store.
func holding(lock lockagent.Name, n uint64, from, to lockagent.StoreTime) []lockagent.Event {
	granted := lockagent.Event{
		Kind: lockagent.EventGranted, Store: "s", Lock: lock, LockKind: lockagent.PlainLock, Mode: lockagent.Exclusive,
		Owner: "w", Request: n, Tenure: n, Token: lockagent.Token(from), StoreTime: from, Lease: actingLease,
		How: lockagent.ByStore, Count: 1, Incarnation: "i",
	}
	released := granted
	released.Kind, released.Count, released.How = lockagent.EventReleased, 0, 0
	released.Incarnation, released.StoreTime = "", 0
	released.Confirmed, released.Until, released.Held = from, to, to.Sub(from)
	returned := released
	returned.Kind, returned.Owner, returned.Token, returned.Returned = lockagent.EventReturned, "", 0, to
	returned.Confirmed, returned.Until, returned.Held = 0, 0, 0
	return []lockagent.Event{granted, released, returned}
}

// unprovenLocks are the locks of the holds that are not proven.
func unprovenLocks(r audit.Report) (names []lockagent.Name) {
	for _, u := range r.Unproven.First {
		names = append(names, u.Hold.Lock)
	}
	slices.Sort(names)
	return names
}

// While the hub is away, the stream of a host discards all that one agent told, which then crashed. The audit of the
// hub cannot know of that agent. It names the messages that are missing. The holds of all hosts are not proven from a
// minute before what the host had told last until the next message of the host. They are proven before and after.
func TestForwardedLossIsAudited(t *testing.T) {
	t.Parallel()
	e := newEnds(t)
	var l link
	server := e.to.InProcess.(*natsserver.Server)
	l.use(server)
	source := streamFor(t, e.source, func(cfg *jetstream.StreamConfig) { cfg.MaxMsgs = 5 })
	streamFor(t, e.hub, nil)
	f := forward(t, e.from, Connection{InProcess: &l})
	now := lockagent.StoreTime(time.Now().UnixMicro())
	ago := func(d time.Duration) lockagent.StoreTime { return now.Add(-d) }
	agent := func(id lockagent.AgentID, to Connection) func(recorded ...lockagent.Event) {
		p := newPublisher(t, Config{Connection: to, Agent: id})
		tell := func(recorded ...lockagent.Event) {
			for _, e := range recorded {
				p.Record(t.Context(), e)
				flushed(t, p) // a message of its own
			}
		}
		tell(lockagent.Event{Kind: lockagent.EventAgentStarted, Store: "s"})
		return tell
	}
	other := agent("other", e.to)
	other(holding("before", 1, ago(20*time.Minute), ago(20*time.Minute-time.Second))...)
	kept := agent("kept", e.from)
	kept(holding("another", 1, ago(10*time.Minute), ago(10*time.Minute-time.Second))...)
	waittest.Until(t, "the host is known", func() bool { return f.Stats().Forwarded == 4 })
	l.use(nil)
	l.cut()
	waittest.Until(t, "the forwarder notices", func() bool { return f.Stats().Err != nil })

	vanished := agent("vanished", e.from)
	live := func() lockagent.StoreTime { return lockagent.StoreTime(time.Now().UnixMicro()) }
	vanished(holding("beside", 1, live()-1, live())...)
	for i := range 5 {
		kept(lockagent.Event{
			Kind: lockagent.EventRequested, Lock: "another", LockKind: lockagent.PlainLock, Owner: "w", Request: uint64(i) + 2,
		})
	}
	other(holding("beside", 2, live()-1, live())...)
	l.use(server)
	waittest.Until(t, "the rest is forwarded", func() bool { s := f.Stats(); return s.Forwarded == 9 && s.Discarded == 4 })
	told := live()
	waittest.Until(t, "the stretch of the loss is over", func() bool { return live() > told.Add(2*time.Second) })
	other(holding("after", 3, live()-1, live())...)
	stop := lockagent.Event{Kind: lockagent.EventAgentStopped}
	other(stop)
	kept(stop)
	waittest.Until(t, "all is forwarded", func() bool { return f.Stats().Forwarded == 10 })

	all, _ := replayed(t, e.to, "")
	auditor := newLogAudit(t)
	auditor.Tail = 0 // or the test waits for longer
	for _, r := range all {
		auditor.Add(r)
	}
	report := auditor.Report()
	if report.Verdict != audit.Incomplete || report.RecordHoles.Count != 0 || report.Tails.Count != 0 {
		t.Errorf("the audit says %v", report)
	}
	if got := unprovenLocks(report); !slices.Equal(got, []lockagent.Name{"another", "beside"}) {
		t.Errorf("not proven: %v\n%v", got, report)
	}
	if report.MessageHoles.Count != 1 {
		t.Fatalf("the audit says %v", report)
	}
	hole := report.MessageHoles.First[0]
	if hole.Range != (events.Range{First: 5, Last: 8}) || hole.Origin != events.OriginOf(source.CachedInfo().Created) ||
		hole.Agent != "kept" {
		t.Errorf("it names %v", hole)
	}
}

// originLog is a log of a hub. Each record is a message.
type originLog struct {
	records []events.Record
	seqs    map[lockagent.AgentID]uint64
	began   time.Time
	from    string // which origins the next record names
}

func (l *originLog) tell(agent lockagent.AgentID, after time.Duration, recorded ...lockagent.Event) {
	for _, e := range recorded {
		if l.seqs == nil {
			l.seqs = make(map[lockagent.AgentID]uint64)
		}
		l.seqs[agent]++
		e.Agent, e.Time = agent, l.began.Add(after)
		l.records = append(l.records, events.Record{
			Event: e, Epoch: 1, Seq: l.seqs[agent], Position: uint64(len(l.records)) + 1, Stored: l.began.Add(after),
			Origin: l.from,
		})
	}
}

// A host is cut off from the hub for a while, and its stream discards what it told first. Its copies come when the
// holds of others have been judged. The time since it told anything is named. An audit that resumes at any place says
// the same.
func TestLossOfAnOriginAfterAnOutage(t *testing.T) {
	t.Parallel()
	const outage = 20 * time.Minute
	began := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	l := originLog{began: began}
	at := func(d time.Duration) lockagent.StoreTime { return lockagent.StoreTime(began.Add(d).UnixMicro()) }
	alive := func(d time.Duration) lockagent.Event {
		return lockagent.Event{Kind: lockagent.EventAlive, Store: "s", StoreTime: at(d)}
	}
	started := lockagent.Event{Kind: lockagent.EventAgentStarted, Store: "s"}
	stopped := lockagent.Event{Kind: lockagent.EventAgentStopped}
	l.tell("other", 0, started)
	l.tell("other", time.Second, holding("before", 1, at(time.Second), at(2*time.Second))...)
	l.from = "host.1"
	l.tell("kept", 5*time.Minute, started)
	l.from = "host.2"
	l.tell("kept", 5*time.Minute, alive(5*time.Minute))
	l.from = "host.3"
	l.tell("kept", 5*time.Minute, stopped)
	l.from = ""
	for d := 10 * time.Second; d < outage; d += 10 * time.Second {
		if d == outage/2 {
			l.tell("other", d, holding("beside", 2, at(d), at(d+time.Second))...)
		}
		l.tell("other", d+time.Second, alive(d+time.Second))
	}
	l.from = "host.31.4-30"
	l.tell("late", outage, started)
	l.from = "host.32"
	l.tell("late", outage, alive(outage), stopped)
	l.from = ""
	l.tell("other", outage+time.Minute, alive(outage+time.Minute))
	l.tell("other", outage+time.Minute, holding("after", 3, at(outage+time.Minute), at(outage+61*time.Second))...)
	l.tell("other", outage+2*time.Minute, stopped)

	whole := newLogAudit(t)
	for _, r := range l.records {
		whole.Add(r)
	}
	report := whole.Report()
	if report.Verdict != audit.Incomplete || report.MessageHoles.Count != 1 || report.JudgedEarly.Count != 1 ||
		report.Unproven.Count != 0 {
		t.Fatalf("the audit says %v", report)
	}
	hole, early := report.MessageHoles.First[0], report.JudgedEarly.First[0]
	if hole.Range != (events.Range{First: 4, Last: 30}) || hole.Origin != "host" || len(hole.In) != 1 ||
		hole.In[0].From != at(4*time.Minute) || hole.In[0].To < at(outage) || hole.In[0].To > at(outage+time.Minute) {
		t.Errorf("it names %v", hole)
	}
	if early.From != at(4*time.Minute) || early.To > at(outage) {
		t.Errorf("it names %v", early)
	}
	for i := range l.records {
		first := newLogAudit(t)
		for _, r := range l.records[:i] {
			first.Add(r)
		}
		second := first.resumed()
		for _, r := range l.records[max(0, i-1):] {
			second.Add(r)
		}
		if got := second.Report(); got.String() != report.String() {
			t.Fatalf("an audit that resumes at %d says\n%v\nnot\n%v", i, got, report)
		}
	}
}

// Who has a header that cannot be understood may have lost something.
func TestOriginThatIsNone(t *testing.T) {
	l := originLog{began: time.Unix(1_700_000_000, 0), from: "host.31.30-4"}
	l.tell("a", 0, lockagent.Event{Kind: lockagent.EventAgentStarted}, lockagent.Event{Kind: lockagent.EventAgentStopped})
	auditor := newLogAudit(t)
	for _, r := range l.records {
		auditor.Add(r)
	}
	if report := auditor.Report(); report.Verdict != audit.Incomplete || report.Unreadable.Count != 2 {
		t.Errorf("the audit says %v", report)
	}
}
