package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/audit"
	"github.com/lockagent/lockagent/events/fold"
	"github.com/lockagent/lockagent/events/natslog"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	"github.com/nats-io/nats.go/jetstream"
)

// script is a log that a test makes up.
type script struct {
	t    *testing.T
	text strings.Builder
	seq  map[lockagent.AgentID]uint64
	life map[lockagent.AgentID]uint64 // epoch, less one
}

// restart begins another life of an agent.
func (s *script) restart(agent lockagent.AgentID, at time.Time) {
	s.t.Helper()
	if s.life == nil {
		s.life = make(map[lockagent.AgentID]uint64)
	}
	s.life[agent]++
	s.seq[agent] = 0
	s.add(agent, at, lockagent.Event{
		Kind: lockagent.EventAgentStarted, Process: lockagent.Process{Host: "again", PID: 8},
	})
}

// add adds an event that an agent recorded.
func (s *script) add(agent lockagent.AgentID, at time.Time, e lockagent.Event) {
	s.t.Helper()
	if s.seq == nil {
		s.seq = make(map[lockagent.AgentID]uint64)
	}
	s.seq[agent]++
	e.Agent, e.Time, e.Store = agent, at, "1"
	if e.Lock != "" {
		e.LockKind, e.Mode = lockagent.PlainLock, lockagent.Exclusive
	}
	r := events.Record{Event: e, Epoch: s.life[agent] + 1, Seq: s.seq[agent]}
	if err := events.WriteLine(&s.text, r); err != nil {
		s.t.Fatal(err)
	}
}

// lossOf is the log of a lock that an agent loses, and that another one gets, which has waited. The
// loss is five seconds after from. A third request gives up, and a second lock stays held.
func lossOf(t *testing.T, from time.Time) string {
	s := &script{t: t}
	at := func(seconds float64) time.Time { return from.Add(time.Duration(seconds * float64(time.Second))) }
	store := func(seconds float64) lockagent.StoreTime { return lockagent.StoreTime(at(seconds).UnixMicro()) }
	const lock = "orders/42"
	s.add("a", at(0), lockagent.Event{
		Kind:    lockagent.EventAgentStarted,
		Process: lockagent.Process{Host: "web-1", Program: "shop", PID: 812},
	})
	s.add("b", at(0), lockagent.Event{
		Kind:    lockagent.EventAgentStarted,
		Process: lockagent.Process{Host: "web-2", Program: "shop", PID: 77},
	})
	s.add("a", at(1), lockagent.Event{
		Kind: lockagent.EventGranted, Lock: lock, Owner: "joe", Request: 1, Tenure: 1, Token: 100,
		How:   lockagent.ByStore,
		Count: 1, Lease: 4 * time.Second, StoreTime: store(1),
	})
	for request, owner := range []lockagent.Owner{"b/7", "sue"} {
		s.add("b", at(2), lockagent.Event{
			Kind: lockagent.EventQueued, Lock: lock, Owner: owner, Request: uint64(request + 1), Waiters: request + 1,
			Holder: "a:1",
		})
	}
	s.add("a", at(5), lockagent.Event{
		Kind: lockagent.EventLost, Lock: lock, Owner: "joe", Request: 1, Tenure: 1, Token: 100, Held: 4 * time.Second,
		Reason: lockagent.LostDeadline, Lease: 4 * time.Second, Confirmed: store(1), Until: store(5),
	})
	s.add("b", at(5.5), lockagent.Event{
		Kind: lockagent.EventGranted, Lock: lock, Owner: "b/7", Request: 1, Tenure: 1, Token: 200,
		How:   lockagent.ByStore,
		Count: 1, Lease: 4 * time.Second, StoreTime: store(5.5), Waited: 3500 * time.Millisecond,
	})
	s.add("b", at(6), lockagent.Event{
		Kind: lockagent.EventTimedOut, Lock: lock, Owner: "sue", Request: 2, Waited: 4 * time.Second,
	})
	s.add("b", at(7), lockagent.Event{
		Kind: lockagent.EventReleased, Lock: lock, Owner: "b/7", Request: 1, Tenure: 1, Token: 200,
		Held:  1500 * time.Millisecond,
		Lease: 4 * time.Second, Confirmed: store(5.5), Until: store(7),
	})
	s.add("b", at(8), lockagent.Event{
		Kind: lockagent.EventGranted, Lock: "orders/43", Owner: "b/8", Request: 3, Tenure: 2, Token: 300,
		How:   lockagent.ByStore,
		Count: 1, Lease: 4 * time.Second, StoreTime: store(8),
	})
	s.add("a", at(9), lockagent.Event{
		Kind: lockagent.EventQueued, Lock: "orders/43", Owner: "joe", Request: 2, Waiters: 1, Holder: "b:2",
	})
	return s.text.String()
}

// begun is when the log of these tests begins, and later when it is looked at.
var (
	begun = time.Date(2026, 11, 21, 14, 3, 0, 0, time.Local)
	later = begun.Add(time.Hour)
)

func same(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// told folds a log in lines.
func told(t *testing.T, log string, s *story) *story {
	t.Helper()
	if err := events.ReadLines(strings.NewReader(log), s.visit); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestHistory(t *testing.T) {
	s := told(t, lossOf(t, begun), newStory("orders/42", func(*hold) bool { return true }))
	var b strings.Builder
	if err := writeHistory(&b, s.name, false, s.all(), later); err != nil {
		t.Fatal(err)
	}
	same(t, b.String(), `orders/42: 2 holds of 2 agents

FROM           UNTIL          FOR   OWNER  TOKEN  CAME                                                  ENDED            AGENT
14:03:01.000Z  14:03:05.000Z  4s    "joe"  100    from the store                                        lost (deadline)  a, shop on web-1, pid 812
14:03:05.500Z  14:03:07.000Z  1.5s  /7     200    from the store after 3.5s behind "joe" of a on web-1  released         b, shop on web-2, pid 77
`)
}

func TestHistoryOfWhatGoesOn(t *testing.T) {
	s := told(t, lossOf(t, begun), newStory("orders/43", func(*hold) bool { return true }))
	var b strings.Builder
	if err := writeHistory(&b, s.name, false, s.all(), begun.Add(10*time.Second)); err != nil {
		t.Fatal(err)
	}
	same(t, b.String(), `orders/43: 1 hold of 1 agent

FROM           UNTIL  FOR  OWNER  TOKEN  CAME            ENDED  AGENT
14:03:08.000Z  -      2s   /8     300    from the store  held   b, shop on web-2, pid 77
`)
}

// stateAt is the state of a lock some seconds after the beginning.
func stateAt(t *testing.T, name lockagent.Name, seconds float64) *lockThen {
	t.Helper()
	then := &lockThen{
		name: name, since: begun.Add(time.Duration(seconds * float64(time.Second))),
		until: begun.Add(time.Duration(seconds * float64(time.Second))),
	}
	s := newStory(name, then.keep)
	s.gaveUp = then.gaveUp
	then.finish(told(t, lossOf(t, begun), s))
	return then
}

func TestState(t *testing.T) {
	for _, test := range []struct {
		lock    lockagent.Name
		seconds float64
		want    string
	}{
		{"orders/42", 0.5, `orders/42 at 14:03:00.500Z
  free     nobody held it
  after    "joe", token 100, agent a, shop on web-1, pid 812
           from 14:03:01.000Z, from the store; until 14:03:05.000Z, for 4s: lost (deadline)
`},
		{"orders/42", 3, `orders/42 at 14:03:03.000Z
  held by  "joe", token 100, agent a, shop on web-1, pid 812
           from 14:03:01.000Z, from the store; until 14:03:05.000Z, for 4s: lost (deadline)
  waiting  "sue", since 14:03:02.000Z, agent b, shop on web-2, pid 77
           queued behind "joe" of agent a, shop on web-1, pid 812
           timedout at 14:03:06.000Z, 3s later
  waiting  /7, since 14:03:02.000Z, agent b, shop on web-2, pid 77
           queued behind "joe" of agent a, shop on web-1, pid 812
           granted at 14:03:05.500Z, 2.5s later
`},
		{"orders/42", 5.2, `orders/42 at 14:03:05.200Z
  free     nobody held it
  before   "joe", token 100, agent a, shop on web-1, pid 812
           from 14:03:01.000Z, from the store; until 14:03:05.000Z, for 4s: lost (deadline)
  after    /7, token 200, agent b, shop on web-2, pid 77
           from 14:03:05.500Z, from the store after 3.5s behind "joe" of a on web-1; until 14:03:07.000Z, for 1.5s: released
  waiting  "sue", since 14:03:02.000Z, agent b, shop on web-2, pid 77
           queued behind "joe" of agent a, shop on web-1, pid 812
           timedout at 14:03:06.000Z, 800ms later
  waiting  /7, since 14:03:02.000Z, agent b, shop on web-2, pid 77
           queued behind "joe" of agent a, shop on web-1, pid 812
           granted at 14:03:05.500Z, 300ms later
`},
		{"orders/43", 7, `orders/43 at 14:03:07.000Z
  free     nobody held it
  after    /8, token 300, agent b, shop on web-2, pid 77
           from 14:03:08.000Z, from the store; its agent is silent since 14:03:08.000Z, its lease ended at 14:03:12.000Z
`},
		{"orders/43", 9.5, `orders/43 at 14:03:09.500Z
  held by  /8, token 300, agent b, shop on web-2, pid 77
           from 14:03:08.000Z, from the store; its agent is silent since 14:03:08.000Z, its lease ended at 14:03:12.000Z
  waiting  "joe", since 14:03:09.000Z, agent a, shop on web-1, pid 812
           queued behind /8 of agent b, shop on web-2, pid 77
`},
	} {
		same(t, stateAt(t, test.lock, test.seconds).text(later), test.want)
	}
}

func TestStateShowsWhoWaitsLongestFirst(t *testing.T) {
	s := &script{t: t}
	for i, waited := range []time.Duration{0, 2 * time.Second} {
		s.add("a", begun.Add(time.Duration(3+i)*time.Second), lockagent.Event{
			Kind: lockagent.EventQueued, Lock: "orders/42", Owner: lockagent.Owner("waited " + waited.String()),
			Request: uint64(i + 1), Waited: 2 * waited,
		})
	}
	then := &lockThen{name: "orders/42", since: begun.Add(5 * time.Second), until: begun.Add(5 * time.Second)}
	then.finish(told(t, s.text.String(), newStory(then.name, then.keep)))
	if w := then.waiters; len(w) != 2 || w[0].Owner != "waited 2s" {
		t.Errorf("the waiters are %+v", w)
	}
}

func TestHolders(t *testing.T) {
	folded := fold.New()
	err := events.ReadLines(strings.NewReader(lossOf(t, begun)), func(r *events.Record, err error) error {
		folded.Apply(*r)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for after, want := range map[time.Duration]string{
		10 * time.Second: `orders/43  /8     14:03:08.000Z  2s   300    1        held   b, shop on web-2, pid 77

1 hold, 1 request waits

LOCK       OWNER  WAITS SINCE    FOR  BEHIND            STATE  AGENT
orders/43  "joe"  14:03:09.000Z  1s   /8 of b on web-2  waits  a, shop on web-1, pid 812
`,
		time.Minute: "its agent is silent since 14:03:08.000Z, its lease ended at 14:03:12.000Z  b, shop",
	} {
		now := begun.Add(after)
		var b strings.Builder
		v := heldNow(folded, now)
		if err := v.write(&b, now); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), want) {
			t.Errorf("after %v it says\n%s, want\n%s", after, b.String(), want)
		}
	}
}

// What another agent was granted later is over, though the log has no end of it.
func TestHoldersAreNotSuperseded(t *testing.T) {
	s := &script{t: t}
	for i, agent := range []lockagent.AgentID{"a", "b"} {
		s.add(agent, begun, lockagent.Event{
			Kind: lockagent.EventGranted, Lock: "orders/42", Owner: lockagent.Owner("of " + agent), Tenure: 1,
			Token: lockagent.Token(100 * (i + 1)), How: lockagent.ByStore, Count: 1,
		})
	}
	callWith(t, s.text.String(), "events", "holders", "--file", "-").expect(t, exitOK,
		[]string{`"of b"`, "1 hold, 0 requests wait"}, nil)
}

// A store that was emptied comes back with another identity. It is the same store.
func TestStoryOfAStoreThatWasEmptied(t *testing.T) {
	all := newStory("orders/42", func(*hold) bool { return true })
	for seq, e := range []lockagent.Event{
		{Kind: lockagent.EventGranted, Store: "2", Token: 100, How: lockagent.ByStore, Count: 1},
		{Kind: lockagent.EventReleased, Store: "2", Token: 100, Held: time.Second},
		{Kind: lockagent.EventGranted, Store: "2", Token: 200, How: lockagent.ByStore, Count: 1},
		{Kind: lockagent.EventStoreReset, Store: "1", Reset: lockagent.Reset{From: "x", To: "y", Store: "2"}},
		{Kind: lockagent.EventLost, Store: "1", Token: 200, Reason: lockagent.LostDenied, Held: time.Second},
	} {
		e.Agent = "a"
		if e.Kind != lockagent.EventStoreReset {
			e.Lock, e.Owner, e.Tenure = "orders/42", "joe", uint64(e.Token)
		}
		if err := all.visit(&events.Record{Event: e, Epoch: 1, Seq: uint64(seq + 1)}, nil); err != nil {
			t.Fatal(err)
		}
	}
	h := all.all()
	if len(h) != 2 || h[0].Store != h[1].Store || h[1].Reason != lockagent.LostDenied || h[1].How != lockagent.ByStore {
		t.Errorf("the holds are %+v", h)
	}
}

// The verbs, on a file.
func TestEventsLook(t *testing.T) {
	log := lossOf(t, time.Now().Add(-time.Hour))
	run := func(args ...string) result {
		t.Helper()
		return callWith(t, log, append(append([]string{"events"}, args...), "--file", "-")...)
	}
	run("history", "orders/42").expect(t, exitOK, []string{"orders/42: 2 holds of 2 agents", "lost (deadline)"}, nil)
	run("history", "orders/42", "--last", "1").
		expect(t, exitOK, []string{"orders/42: 1 hold of 1 agent", "released"}, nil)
	run("history", "orders/42", "--since", "1m").
		expect(t, exitEmpty, []string{"orders/42: 0 holds of 0 agents\n"}, []string{"no holds", "Try: "})
	run("history", "orders/43", "--since", "1m").expect(t, exitOK, []string{"orders/43: 1 hold of 1 agent\n"}, nil)
	run("state", "orders/43").expect(t, exitOK, []string{"held by  /8", `waiting  "joe"`}, nil)
	run("state", "orders/42", "--at", "-30m").expect(t, exitOK, []string{"nobody held it", "before   /7"}, nil)
	run("holders").expect(t, exitOK, []string{"orders/43", "1 hold, 1 request waits"}, nil)
	run("holders", "--lock", "orders/43").expect(t, exitOK, []string{"1 hold, 1 request waits"}, nil)
	run("holders", "--lock", "orders/42").expect(t, exitOK, []string{"nobody holds a lock, 0 requests wait"}, nil)

	run("holders", "--lock", "zz/>").expect(t, exitEmpty, nil, []string{`nothing of locks such as "zz/>"`, "Try: "})
	for _, verb := range []string{"holders", "tail"} {
		run(verb, "--lock", "zz/>/x").expect(t, exitUsage, nil, []string{"'>' is not the last part", "Try: "})
	}
	run("tail", "--agent", "a.b").expect(t, exitUsage, nil, []string{`no agent is named "a.b"`})

	nothing := []string{`the event log has nothing of "orders/44"`, "Try: lockagent events holders"}
	run("history", "orders/44").expect(t, exitEmpty, nil, nothing)
	run("state", "orders/44", "--at", "-1m").expect(t, exitEmpty, nil, nothing)
	callWith(t, "", "events", "holders", "--file", "-").expect(t, exitEmpty, nil,
		[]string{"the event log has nothing", "Try: "})

	var history historyView
	decodeJSON(t, run("history", "orders/42", "--format", "json"), &history)
	if h := history.Holds; history.Version != 1 || len(h) != 2 || h[0].Owner != "joe" || h[0].Process.Host != "web-1" ||
		h[0].Reason != lockagent.LostDeadline {
		t.Errorf("the history is %+v", history)
	}
	var state stateView
	decodeJSON(t, run("state", "orders/43", "--format", "json"), &state)
	if state.Version != 1 || len(state.Holders) != 1 || state.Holders[0].Token != 300 ||
		len(state.Waiters) != 1 || state.Waiters[0].Owner != "joe" {
		t.Errorf("the state is %+v", state)
	}
	var holders holdersView
	decodeJSON(t, run("holders", "--format", "json"), &holders)
	if h := holders.Holds; holders.Version != 1 || len(h) != 1 || h[0].Hold.Lock != "orders/43" || h[0].LeaseEnd == nil ||
		holders.Waiters != 1 {
		t.Errorf("the holders are %+v", holders)
	}
}

// decodeJSON reads the output of a verb, which has no fields that are not known.
func decodeJSON(t *testing.T, r result, v any) {
	t.Helper()
	r.expect(t, exitOK, nil, nil)
	d := json.NewDecoder(strings.NewReader(r.stdout))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		t.Fatalf("it cannot be read: %v\n%s", err, r.stdout)
	}
}

// crashed is the log of a lock whose holder crashes. Its lease is over after five seconds, and half a
// minute after the grant the next agent holds the lock.
func crashed(t *testing.T, more ...lockagent.Event) string {
	s := &script{t: t}
	at := func(seconds int) time.Time { return begun.Add(time.Duration(seconds) * time.Second) }
	granted := func(seconds int, owner lockagent.Owner) lockagent.Event {
		now := at(seconds).UnixMicro()
		return lockagent.Event{
			Kind: lockagent.EventGranted, Lock: "orders/42", Owner: owner, Request: 1, Tenure: 1,
			Token: lockagent.Token(now),
			How:   lockagent.ByStore, Count: 1, Lease: 5 * time.Second, StoreTime: lockagent.StoreTime(now),
		}
	}
	for _, agent := range []lockagent.AgentID{"a", "b"} {
		s.add(agent, at(0), lockagent.Event{
			Kind: lockagent.EventAgentStarted, Process: lockagent.Process{Host: "web-" + string(agent), PID: 7},
		})
	}
	s.add("a", at(1), granted(1, "joe"))
	s.add("b", at(31), granted(31, "sue"))
	for _, e := range more {
		s.add("b", at(40), e)
	}
	return s.text.String()
}

func (s *lockThen) of(t *testing.T, log string) string {
	t.Helper()
	all := newStory(s.name, s.keep)
	s.finish(told(t, log, all))
	return s.text(later)
}

// A hold that has no end is over when its lease is, or when another agent is granted the lock. So one
// lock does not have two holders.
func TestStoryOfACrash(t *testing.T) {
	released := lockagent.Event{
		Kind: lockagent.EventReleased, Lock: "orders/42", Owner: "sue", Request: 1, Tenure: 1,
		Token: lockagent.Token(begun.Add(31 * time.Second).UnixMicro()), Held: 9 * time.Second,
	}
	for log, held := range map[string]string{crashed(t): "31.000Z -", crashed(t, released): "31.000Z 14:03:40.000Z"} {
		s := told(t, log, newStory("orders/42", func(*hold) bool { return true }))
		var b strings.Builder
		if err := writeHistory(&b, s.name, false, s.all(), later); err != nil {
			t.Fatal(err)
		}
		text := strings.Join(strings.Fields(b.String()), " ")
		for _, want := range []string{`14:03:01.000Z - ? "joe" `, " over by 14:03:06.000Z; its end is missing in the log a on web-a", held} {
			if !strings.Contains(text, want) {
				t.Errorf("the history does not have %q:\n%s", want, b.String())
			}
		}
		for seconds, want := range map[int]string{3: `held by "joe"`, 10: `free nobody held it before "joe"`, 35: `held by "sue"`} {
			then := &lockThen{
				name: "orders/42", since: begun.Add(time.Duration(seconds) * time.Second),
				until: begun.Add(time.Duration(seconds) * time.Second),
			}
			text := strings.Join(strings.Fields(then.of(t, log)), " ")
			if !strings.Contains(text, want) || strings.Count(text, "held by") > 1 {
				t.Errorf("after %d s the state is\n%s, want %q", seconds, text, want)
			}
		}
	}
}

// Of a lock that was passed, the grant names the short lease of a pass. What goes on is the lease that its
// agent keeps: a sign of life says that, and when the store confirmed it.
func passed(t *testing.T) *script {
	s := &script{t: t}
	at := func(seconds int) time.Time { return begun.Add(time.Duration(seconds) * time.Second) }
	store := func(seconds int) lockagent.StoreTime { return lockagent.StoreTime(at(seconds).UnixMicro()) }
	s.add("a", at(0), lockagent.Event{
		Kind: lockagent.EventAgentStarted, Process: lockagent.Process{Host: "web-1", PID: 7},
	})
	s.add("b", at(0), lockagent.Event{
		Kind: lockagent.EventAgentStarted, Process: lockagent.Process{Host: "web-2", PID: 7},
	})
	s.add("a", at(1), lockagent.Event{
		Kind: lockagent.EventGranted, Lock: "orders/42", Owner: "joe", Request: 1, Tenure: 1, Token: 100,
		How: lockagent.ByStore, Count: 1, Lease: lockagent.PassLease, StoreTime: store(1),
	})
	s.add("a", at(4), lockagent.Event{
		Kind: lockagent.EventAlive, Count: 1, StoreTime: store(4), Confirmed: store(3), Lease: 30 * time.Second,
	})
	return s
}

func TestHoldersOfALockThatWasPassed(t *testing.T) {
	log := passed(t).text.String()
	var v holdersView
	decodeJSON(t, callWith(t, log, "events", "holders", "--file", "-", "--format", "json"), &v)
	if want := begun.Add(33 * time.Second); len(v.Holds) != 1 || v.Holds[0].LeaseEnd == nil ||
		!v.Holds[0].LeaseEnd.Equal(want) {
		t.Errorf("the holders are %+v, want a lease until %v", v.Holds, want)
	}
}

// A verb reads of a stream only what it needs. It says what it would say of all.
func TestVerbsSayTheSameOfAStreamAndOfAFile(t *testing.T) {
	t.Parallel()
	s := passed(t)
	crashed := s.text.String()
	s.restart("a", begun.Add(20*time.Second))
	s.add("a", begun.Add(21*time.Second), lockagent.Event{
		Kind: lockagent.EventQueued, Lock: "orders/42", Owner: "ann", Request: 1, Holder: "a:1",
	})
	s.add("a", begun.Add(22*time.Second), lockagent.Event{
		Kind: lockagent.EventAlive, StoreTime: 5, Confirmed: 4, Lease: time.Hour,
	})
	restarted := s.text.String()
	s.add("b", begun.Add(40*time.Second), lockagent.Event{
		Kind: lockagent.EventGranted, Lock: "orders/42", Owner: "sue", Tenure: 1, Token: 200, How: lockagent.ByStore,
		Count: 1,
		Lease: time.Second, StoreTime: lockagent.StoreTime(begun.Add(40 * time.Second).UnixMicro()),
	})
	for log, want := range map[string]string{
		crashed:               `"lease_us": 30000000`,
		restarted:             `"gone": true`,
		s.text.String():       `"superseded": true`,
		lossOf(t, begun):      `"reason": "deadline"`,
		overlapping(t, begun): `"ended": "released"`,
	} {
		url := published(t, log)
		for _, verb := range [][]string{{"history", "orders/42"}, {"state", "orders/42", "--at", begun.Add(3 * time.Second).Format(time.RFC3339)}} {
			verb = append(append([]string{"events"}, verb...), "--format", "json")
			file, stream := callWith(t, log, append(verb, "--file", "-")...), call(t, append(verb, "--nats", url)...)
			if file.stdout != stream.stdout || file.code != exitOK || !strings.Contains(file.stdout, want) {
				t.Errorf("%q says of a file\n%s%s\nof a stream\n%s%s\nwant %s", verb, file.stdout, file.stderr,
					stream.stdout, stream.stderr, want)
			}
		}
	}
}

// emptyStream makes a stream without events.
func emptyStream(t *testing.T) (url string, js jetstream.JetStream) {
	t.Helper()
	url = natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"}).URL()
	js = jetStream(t, url)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: natslog.DefaultStream, Subjects: []string{events.AllSubjects}}); err != nil {
		t.Fatal(err)
	}
	return url, js
}

// published makes a stream of a log.
func published(t *testing.T, log string) (url string) {
	t.Helper()
	url, js := emptyStream(t)
	for line := range strings.Lines(log) {
		var r events.Record
		err := events.ReadLines(strings.NewReader(line), func(read *events.Record, err error) error {
			r = *read
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		subject := string(events.AppendSubject(nil, events.DefaultPrefix, r.Agent, r.Kind, r.Lock))
		if _, err := js.Publish(t.Context(), subject, []byte(strings.TrimSpace(line))); err != nil {
			t.Fatal(err)
		}
	}
	return url
}

// A report tells of a hold what the history tells of it.
func TestAuditTellsOfAHoldWhatHistoryTells(t *testing.T) {
	s := &script{t: t}
	for i, kind := range []lockagent.EventKind{lockagent.EventHeld, lockagent.EventGranted} {
		agent, from := lockagent.AgentID([]string{"a", "b"}[i]), begun.Add(time.Duration(i+1)*time.Second)
		until := from.Add(4 * time.Second)
		began, ended := lockagent.StoreTime(from.UnixMicro()), lockagent.StoreTime(until.UnixMicro())
		hold := lockagent.Event{
			Kind: kind, Lock: "orders/42", Owner: "me", Request: 1, Tenure: 1, Token: lockagent.Token(began),
			Lease: 10 * time.Second,
			How:   lockagent.ByStore, StoreTime: began, Held: 4 * time.Second, Confirmed: began, Until: ended,
		}
		s.add(agent, from, lockagent.Event{
			Kind: lockagent.EventAgentStarted, Process: lockagent.Process{Host: "web", PID: 7},
		})
		if kind == lockagent.EventGranted {
			granted := hold
			granted.Count, granted.Held, granted.Confirmed, granted.Until = 1, 0, 0, 0
			s.add(agent, from, granted)
			hold.Kind, hold.How, hold.StoreTime, hold.Reason = lockagent.EventLost, 0, 0, lockagent.LostDenied
			from = until
		}
		s.add(agent, from, hold)
		s.add(agent, until, lockagent.Event{Kind: lockagent.EventAgentStopped})
	}
	log := s.text.String()
	var report audit.Report
	if err := json.Unmarshal([]byte(callWith(t, log, "events", "audit", "--file", "-", "--format", "json").stdout), &report); err != nil {
		t.Fatal(err)
	}
	var history historyView
	decodeJSON(t, callWith(t, log, "events", "history", "orders/42", "--file", "-", "--format", "json"), &history)
	if len(report.Violations.First) != 1 || len(history.Holds) != 2 {
		t.Fatalf("the report is %+v, the history %+v", report, history)
	}
	v := report.Violations.First[0]
	for i, told := range []fold.Hold{v.First, v.Second} {
		want := history.Holds[i]
		if i == 1 { // of the second the audit tells how it began
			want.Ended, want.Reason, want.Until, want.Held, want.End = told.Ended, told.Reason, told.Until, told.Held, told.End
		}
		// An audit does not remember these.
		want.How, want.Request, want.Grants = told.How, told.Request, told.Grants
		if told != want {
			t.Errorf("the report says\n%+v\nthe history\n%+v", told, want)
		}
	}
}
