package fold

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/internal/logtest"
)

// anyLog is a log of records that nobody would write: all kinds, about a few locks, holds and requests.
type anyLog struct {
	rand *rand.Rand
	last map[lockagent.AgentID]events.Place
	at   int
}

func newAnyLog(r *rand.Rand) *anyLog {
	return &anyLog{rand: r, last: make(map[lockagent.AgentID]events.Place)}
}

// storeOf is the store of each agent. Its records may not name it.
var storeOf = map[lockagent.AgentID]string{"A": "s", "B": "t", "C": "s"}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func (l *anyLog) next() events.Record {
	r := l.rand
	agent := pick[lockagent.AgentID](r, "A", "B", "C")
	last := l.last[agent]
	kind := pick(r, append(lockagent.EventKinds(),
		lockagent.EventGranted, lockagent.EventGranted, lockagent.EventGranted, lockagent.EventQueued, lockagent.EventQueued,
		lockagent.EventReleased)...)
	switch {
	case kind == lockagent.EventAgentStarted || last.Epoch == 0:
		kind, last = lockagent.EventAgentStarted, events.Place{Epoch: last.Epoch + 1, Seq: 0}
	case r.IntN(20) == 0: // seldom, or nothing goes on for long
	case kind == lockagent.EventAgentStopped, kind == lockagent.EventBroken, kind == lockagent.EventStoreReset,
		kind == lockagent.EventReturned:
		kind = lockagent.EventGranted
	}
	last.Seq += 1 + uint64(r.IntN(20)/19)
	l.last[agent] = last
	l.at += r.IntN(1000)
	e := lockagent.Event{
		Kind: kind, Agent: agent, Time: logtest.Wall(l.at), Store: pick(r, "", storeOf[agent]), Count: r.IntN(3) / 2,
		Process:   lockagent.Process{Host: "host-" + string(agent), Program: "billing", PID: int(last.Epoch)},
		StoreTime: logtest.Clock(l.at), Confirmed: logtest.Clock(l.at - r.IntN(5000)),
		Lease: time.Duration(1+r.IntN(30)) * time.Second, Fixed: r.IntN(2) == 0,
	}
	switch kind {
	case lockagent.EventAgentStarted, lockagent.EventAgentStopped, lockagent.EventAlive, lockagent.EventDropped:
	case lockagent.EventGraceBegan, lockagent.EventGraceEnded:
		e.Grace = &lockagent.GracePeriod{Incarnation: "y", Began: logtest.Clock(l.at)}
	case lockagent.EventStoreReset:
		e.Reset.Store = pick(r, "", "s", "t", "u")
	default:
		n := uint64(1 + r.IntN(6))
		e.Lock = pick[lockagent.Name](r, "a", "b", "c/d")
		e.LockKind = pick(r, lockagent.PlainLock, lockagent.PlainLock, lockagent.Semaphore)
		e.Owner, e.Request, e.Tenure, e.Token = pick[lockagent.Owner](r, "ann", "bob"), n, 1+n/2, lockagent.Token(10*n)
		e.Mode = pick(r, lockagent.Exclusive, lockagent.Exclusive, lockagent.Shared)
		e.How = pick(r, lockagent.ByStore, lockagent.ByHandOff)
		if kind.EndsHold() {
			e.Held, e.Until = time.Duration(r.IntN(5))*time.Second, logtest.Clock(l.at)
			e.Reason = pick(r, 0, lockagent.LostClosed, lockagent.LostExpired)
		}
		if kind == lockagent.EventQueued {
			e.Holder = pick(r, "", "ann", lockagent.Tenure{Agent: "A", Number: e.Tenure}.String())
		}
	}
	return events.Record{
		Event: e, Epoch: last.Epoch, Seq: last.Seq, Position: uint64(l.at/1000 + 1), Stored: logtest.Wall(l.at),
	}
}

// known is what can be known of the locks from the changes alone.
type known struct {
	holds map[*Hold]Hold
	waits map[string]Waiter
	phase map[*Hold]ChangeKind
}

func newKnown() *known {
	return &known{make(map[*Hold]Hold), make(map[string]Waiter), make(map[*Hold]ChangeKind)}
}

func (k *known) apply(t *testing.T, changes []Change) {
	t.Helper()
	for _, c := range changes {
		before := k.phase[c.Hold]
		wrong := false
		switch c.Kind {
		case HoldGranted:
			wrong = before != 0
			k.phase[c.Hold] = HoldGranted
		case HoldChanged:
			wrong = before == 0
		case HoldSuperseded:
			wrong = before != HoldGranted
			k.phase[c.Hold] = HoldSuperseded
		case HoldForgotten:
			wrong = before != HoldSuperseded || !c.Hold.Superseded || c.Hold.Ended != 0
		case HoldEnded:
			wrong = c.Hold.Ended == 0 || c.Hold.Superseded
		case RequestWaits:
			k.waits[fmt.Sprint(c.Waiter.Agent, c.Lock.Kind, c.Lock.Lock, c.Waiter.Request)] = c.Waiter
		case RequestOver:
			id := fmt.Sprint(c.Waiter.Agent, c.Lock.Kind, c.Lock.Lock, c.Waiter.Request)
			_, ok := k.waits[id]
			wrong = !ok
			delete(k.waits, id)
		default:
			wrong = true
		}
		if wrong {
			t.Fatalf("%v after %v: %+v", c.Kind, before, c.Hold)
		}
		switch {
		case c.Hold == nil:
		case c.over():
			delete(k.holds, c.Hold)
			delete(k.phase, c.Hold)
		case c.Lock != c.Hold.LockKey:
			t.Fatalf("%v of %v is of %v", c.Kind, c.Hold.LockKey, c.Lock)
		default:
			k.holds[c.Hold] = *c.Hold
		}
	}
}

// Whoever knows nothing but the changes knows the state of the fold after each record. A record that was applied before
// changes nothing.
func TestChangesAddUpToTheFold(t *testing.T) {
	told := make(map[ChangeKind]int)
	logtest.Seeds(t, 50, func(seed uint64, r *rand.Rand) {
		log, f, k := newAnyLog(r), New(), newKnown()
		for range 300 {
			next := log.next()
			changes := f.Apply(next)
			for _, c := range changes {
				told[c.Kind]++
			}
			k.apply(t, changes)
			holds, waits := 0, 0
			for _, l := range f.locks {
				holds, waits = holds+len(l.open), waits+len(l.waiters)
				for _, h := range l.open {
					known := k.holds[h]
					if next.Kind == lockagent.EventHolding { // often it says no more than that the hold goes on
						known.Confirmed, known.told = h.Confirmed, h.told
					}
					if next.Kind != lockagent.EventAlive && next.Kind != lockagent.EventAgentStarted && !reflect.DeepEqual(known, *h) {
						t.Fatalf("seed %d: after %v it is\n%s, by the changes\n%s", seed, next.Kind, jsonOf(t, *h), jsonOf(t, known))
					}
					if k.holds[h].Gone != h.Gone {
						t.Fatalf("seed %d: %+v is gone, or not", seed, h)
					}
					k.holds[h] = *h // what a sign of life tells
				}
				for _, w := range l.waiters {
					if got, ok := k.waits[fmt.Sprint(w.Agent, l.Kind, l.Lock, w.Request)]; !ok || got.Holder != w.Holder {
						t.Fatalf("seed %d: after %v it is %+v, by the changes %+v", seed, next.Kind, w, got)
					}
				}
			}
			if holds != len(k.holds) || waits != len(k.waits) {
				t.Fatalf(
					"seed %d: after %v there are %d holds and %d requests, by the changes %d and %d", seed, next.Kind, holds, waits,
					len(k.holds), len(k.waits),
				)
			}
			if r.IntN(10) == 0 && len(f.Apply(next)) != 0 {
				t.Fatalf("seed %d: %+v changes something again", seed, next)
			}
		}
	})
	for kind := HoldGranted; kind <= RequestOver; kind++ {
		if told[kind] < 250 || kind.String() == "nothing" {
			t.Errorf("%d changes are %q", told[kind], kind)
		}
	}
}

// recordOf is a record of agent A, about lock a unless it names another one or is of a kind of no lock.
func recordOf(seq uint64, kind lockagent.EventKind, e lockagent.Event) events.Record {
	e.Kind, e.Agent = kind, "A"
	if e.Lock == "" && kind != lockagent.EventAgentStarted && kind != lockagent.EventAlive &&
		kind != lockagent.EventAgentStopped {
		e.Lock = "a"
	}
	return events.Record{Event: e, Epoch: 1, Seq: seq}
}

// What one record changes is told in its order.
func TestChanges(t *testing.T) {
	text := func(changes []Change) string {
		var all []string
		for _, c := range changes {
			who := c.Waiter.Owner
			if c.Hold != nil {
				who = c.Hold.Owner
			}
			all = append(all, fmt.Sprintf("%s %s", who, c.Kind))
		}
		return strings.Join(all, ", ")
	}
	f := New()
	of := func(
		seq uint64, kind lockagent.EventKind, owner lockagent.Owner, token lockagent.Token, e lockagent.Event,
	) events.Record {
		e.Owner, e.Request, e.Tenure, e.Token = owner, uint64(token), uint64(token), token
		e.Store, e.StoreTime = "s", lockagent.StoreTime(token)
		return recordOf(seq, kind, e)
	}
	other := of(2, lockagent.EventGranted, "eve", 9, lockagent.Event{How: lockagent.ByStore})
	other.Agent = "B"
	for _, step := range []struct {
		r    events.Record
		want string
	}{
		{of(1, lockagent.EventGranted, "ann", 1, lockagent.Event{}), "ann granted"},
		{of(2, lockagent.EventQueued, "bob", 2, lockagent.Event{Holder: "ann"}), "bob waits"},
		{of(3, lockagent.EventReentered, "ann", 1, lockagent.Event{Count: 2}), "ann changed"},
		{of(4, lockagent.EventReleased, "ann", 1, lockagent.Event{Count: 1}), "ann changed"},
		{of(5, lockagent.EventReleased, "ann", 1, lockagent.Event{}), "ann ended"},
		{of(6, lockagent.EventGranted, "bob", 2, lockagent.Event{}), "bob waits no longer, bob granted"},
		{of(7, lockagent.EventGranted, "sue", 3, lockagent.Event{}), "bob superseded, bob forgotten, sue granted"},
		{other, "eve granted, sue superseded"},
		{of(8, lockagent.EventReleased, "sue", 3, lockagent.Event{}), "sue ended"},
		{of(9, lockagent.EventHeld, "joe", 4, lockagent.Event{}), "joe granted, joe superseded, joe ended"},
		{of(10, lockagent.EventReleased, "tim", 5, lockagent.Event{}), "tim ended"},
		{of(11, lockagent.EventReleased, "tim", 20, lockagent.Event{}), "eve superseded, tim ended"},
		{recordOf(12, lockagent.EventAlive, lockagent.Event{}), ""},
		{of(13, lockagent.EventHolding, "pia", 30, lockagent.Event{Count: 1}), "pia granted, eve changed"},
		{of(14, lockagent.EventHolding, "pia", 30, lockagent.Event{Count: 1, Confirmed: 40}), ""},
		{of(15, lockagent.EventHolding, "pia", 30, lockagent.Event{Count: 2}), "pia changed"},
		{of(16, lockagent.EventHolding, "ute", 31, lockagent.Event{Count: 1}), "pia superseded, pia forgotten, ute granted"},
	} {
		if got := text(f.Apply(step.r)); got != step.want {
			t.Errorf("%v of %s changes %q, want %q", step.r.Kind, step.r.Owner, got, step.want)
		}
	}
}

// A renewal that fails makes all holds of its tenure uncertain, and no others.
func TestUncertainTenure(t *testing.T) {
	f := New()
	tenured := func(
		seq uint64, agent lockagent.AgentID, kind lockagent.EventKind, owner lockagent.Owner, tenure uint64,
		token lockagent.Token,
	) {
		r := recordOf(seq, kind, lockagent.Event{
			Owner: owner, Request: uint64(token), Tenure: tenure, Token: token, Store: "s", Mode: lockagent.Shared,
			StoreTime: lockagent.StoreTime(token), Time: time.Unix(int64(seq), 0),
		})
		r.Agent = agent
		f.Apply(r)
	}
	uncertain := func(want string) {
		t.Helper()
		s, _ := f.Lock(LockKey{Store: "s", Lock: "a"})
		var got []string
		for i := range s.Holders {
			h := &s.Holders[i]
			if !h.Uncertain.IsZero() {
				got = append(got, fmt.Sprintf("%s since %d", h.Owner, h.Uncertain.Unix()))
			}
			if h.Gone {
				got = append(got, string(h.Owner)+" is gone")
			}
		}
		slices.Sort(got)
		if got := strings.Join(got, ", "); len(s.Holders) != 4 || got != want {
			t.Errorf("of %d holds these are uncertain: %q, want %q", len(s.Holders), got, want)
		}
	}
	tenured(1, "A", lockagent.EventGranted, "ann", 7, 1)
	tenured(2, "A", lockagent.EventGranted, "bob", 7, 2)
	tenured(3, "A", lockagent.EventGranted, "eve", 8, 3)
	tenured(1, "B", lockagent.EventGranted, "joe", 7, 4)
	uncertain("")
	f.Apply(recordOf(4, lockagent.EventAgentStopped, lockagent.Event{}))
	uncertain("ann is gone, bob is gone, eve is gone")
	tenured(5, "A", lockagent.EventUncertain, "ann", 7, 1) // another process goes on with the tenure
	uncertain("ann since 5, bob since 5, eve is gone")
	tenured(6, "A", lockagent.EventUncertain, "ann", 7, 1)
	uncertain("ann since 5, bob since 5, eve is gone")
	tenured(7, "A", lockagent.EventRenewed, "", 7, 0)
	uncertain("eve is gone")
}

// What a fold does for a record of a hold takes no memory, however many there were.
func TestChangesAllocateNothing(t *testing.T) {
	f, n := New(), uint64(0)
	e := lockagent.Event{
		Agent: "A", Lock: "a", LockKind: lockagent.PlainLock, Owner: "ann", Store: "s", How: lockagent.ByStore,
	}
	apply := func(kind lockagent.EventKind) {
		n++
		e.Kind, e.Tenure, e.Token = kind, n/3, lockagent.Token(n/3)
		f.Apply(events.Record{Event: e, Epoch: 1, Seq: n})
	}
	if allocs := testing.AllocsPerRun(10_000, func() {
		apply(lockagent.EventGranted)
		apply(lockagent.EventGranted) // the end of the one before is missing, or it ends
		apply(lockagent.EventReleased)
		apply(lockagent.EventHeld)
	}); allocs > 0 {
		t.Errorf("it allocates %v times", allocs)
	}
}

// stateOf is all that can be read of a fold.
func stateOf(t *testing.T, f *Fold) string {
	t.Helper()
	locks := make(map[LockKey]LockState)
	for l := range f.Locks() {
		locks[l.LockKey] = l
	}
	var agents []AgentState
	for _, id := range slices.Sorted(maps.Keys(f.agents)) {
		agents = append(agents, f.agents[id].AgentState)
	}
	var all []LockState
	for _, key := range slices.SortedFunc(maps.Keys(locks), LockKey.Compare) {
		all = append(all, locks[key])
	}
	return jsonOf(t, all) + jsonOf(t, agents)
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A fold that goes on from a snapshot says the same as one that has read all, and tells the same changes.
func TestFoldResumes(t *testing.T) {
	logtest.Seeds(t, 20, func(seed uint64, r *rand.Rand) {
		log, one, two := newAnyLog(r), New(), New()
		for range 200 {
			next := log.next()
			first, second := one.Apply(next), two.Apply(next)
			// Those of requests are in no order.
			byText := func(a, b Change) int { return strings.Compare(jsonOf(t, a), jsonOf(t, b)) }
			a := slices.SortedFunc(slices.Values(first), byText)
			b := slices.SortedFunc(slices.Values(second), byText)
			if jsonOf(t, a) != jsonOf(t, b) {
				t.Fatalf("seed %d: after %v\n%s\nresumed\n%s", seed, next.Kind, jsonOf(t, a), jsonOf(t, b))
			}
			if r.IntN(10) > 0 {
				continue
			}
			if a, b := stateOf(t, one), stateOf(t, two); a != b {
				t.Fatalf("seed %d: after %v it says\n%s\nresumed\n%s", seed, next.Kind, a, b)
			}
			text, err := two.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			if two, err = Resume(text); err != nil || two.Position() != next.Position {
				t.Fatalf("seed %d: position %d of %d, %v", seed, two.Position(), next.Position, err)
			}
			if again, err := two.Snapshot(); err != nil || string(again) != string(text) {
				t.Fatalf("seed %d: the snapshot is\n%s\nand of the resumed fold\n%s\n%v", seed, text, again, err)
			}
		}
	})
}

// The size of a snapshot does not depend on how much has happened, nor on agents that are over.
func TestFoldSnapshotIsBounded(t *testing.T) {
	sizeAfter := func(holds int) int {
		f := New()
		grant := lockagent.Event{Kind: lockagent.EventGranted, Lock: "steady", Tenure: 1, Token: 1, Count: 1}
		steady := grant
		steady.Agent = "steady"
		f.Apply(events.Record{Event: steady, Epoch: 1, Seq: 1})
		for i := range holds {
			held, alive := grant, lockagent.Event{Kind: lockagent.EventAlive}
			held.Kind, held.Lock, held.Count = lockagent.EventHeld, lockagent.Name(fmt.Sprint(i%50)), 0
			for n, e := range []lockagent.Event{
				{Kind: lockagent.EventAgentStarted}, held, alive, {Kind: lockagent.EventAgentStopped},
			} {
				e.Agent, e.Store = lockagent.AgentID(fmt.Sprint(i)), "s"
				f.Apply(events.Record{
					Event: e, Epoch: 1, Seq: uint64(n) + 1, Stored: logtest.Wall(i * 60_000), Position: uint64(1000 + i),
				})
			}
		}
		text, err := f.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		return len(text)
	}
	if few, many := sizeAfter(200), sizeAfter(5000); many > few+few/5 {
		t.Errorf("after 200 holds it has %d bytes, after 5,000 %d", few, many)
	}
}

func TestFoldResumesFromNothingElse(t *testing.T) {
	f := New()
	f.Apply(events.Record{
		Event: lockagent.Event{Kind: lockagent.EventGranted, Agent: "A", Lock: "a", Token: 1, Count: 1}, Epoch: 1, Seq: 1,
	})
	text, err := f.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]struct{ text, why string }{
		"Empty": {"", "unexpected end"},
		"OtherVersion": {
			strings.Replace(string(text), `"version":1`, `"version":2`, 1), "it has version 2, and this is version 1",
		},
		"Changed":    {strings.Replace(string(text), `"token"`, `"tokem"`, 1), "it was changed"},
		"Checkpoint": {`{"version":3,"sha256":"","snapshot":{}}`, "it has version 3"},
	} {
		_, err := Resume([]byte(bad.text))
		if !errors.Is(err, ErrSnapshot) || !strings.Contains(err.Error(), bad.why) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
