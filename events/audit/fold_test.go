package audit

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/fold"
)

// at is a time of the wall, so many seconds after a beginning.
func at(seconds int) time.Time {
	return time.Date(2026, 3, 1, 14, 0, 0, 0, time.UTC).Add(time.Duration(seconds) * time.Second)
}

func record(seq uint64, kind lockagent.EventKind, e lockagent.Event) events.Record {
	e.Kind, e.Agent = kind, "A"
	if e.Lock == "" && kind != lockagent.EventAgentStarted && kind != lockagent.EventAlive &&
		kind != lockagent.EventAgentStopped {
		e.Lock = "a"
	}
	return events.Record{Event: e, Epoch: 1, Seq: seq}
}

func TestFold(t *testing.T) {
	var ended []fold.Hold
	f := fold.New()
	apply := func(r events.Record) { ended = append(ended, endedBy(f, r)...) }
	process := lockagent.Process{Host: "one", Program: "billing", PID: 7}
	records := []events.Record{
		record(1, lockagent.EventAgentStarted, lockagent.Event{Process: process, Store: "s"}),
		record(2, lockagent.EventGranted, lockagent.Event{
			Owner: "ann", Request: 1, Tenure: 1, Token: 100, Time: at(1), StoreTime: 100, Lease: 30 * time.Second, Count: 1,
			How: lockagent.ByStore, Replicas: 2,
		}),
		record(3, lockagent.EventQueued, lockagent.Event{
			Owner: "bob", Request: 2, Time: at(3), Waited: time.Second, Holder: "ann",
		}),
		record(4, lockagent.EventQueued, lockagent.Event{Owner: "eve", Request: 3, Time: at(3), Holder: "ann"}),
		record(5, lockagent.EventReentered, lockagent.Event{
			Owner: "ann", Request: 4, Tenure: 1, Token: 100, Time: at(4), Count: 2,
		}),
		record(6, lockagent.EventCancelled, lockagent.Event{Owner: "eve", Request: 3, Time: at(4)}),
		record(7, lockagent.EventUncertain, lockagent.Event{Owner: "ann", Tenure: 1, Token: 100, Time: at(5)}),
	}
	for _, r := range records {
		apply(r)
		apply(r)
	}
	s, ok := f.Lock(fold.LockKey{Store: "s", Kind: "", Lock: "a"})
	if !ok || len(s.Holders) != 1 || len(s.Waiters) != 1 || len(ended) != 0 {
		t.Fatalf("%+v", s)
	}
	h := s.Holders[0]
	if h.Owner != "ann" || h.Grants != 2 || h.Process != fold.Process(process) || h.From != at(1) ||
		h.Uncertain != at(5) || h.LeaseEnd() != 100+30e6 || h.Replicas != 2 {
		t.Errorf("%+v", h)
	}
	ann := &fold.Party{Owner: "ann", Agent: "A", Process: fold.Process(process)}
	if w := s.Waiters[0]; !reflect.DeepEqual(w,
		fold.Waiter{Agent: "A", Owner: "bob", Request: 2, Since: at(2), Holder: "ann", Behind: ann}) {
		t.Errorf("%+v", w)
	}
	apply(record(8, lockagent.EventAlive, lockagent.Event{StoreTime: 5e6, Confirmed: 4e6, Time: at(6)}))
	apply(record(9, lockagent.EventReleased, lockagent.Event{
		Owner: "ann", Request: 4, Tenure: 1, Token: 100, Time: at(7), Count: 1,
	}))
	if s, _ = f.Lock(fold.LockKey{Store: "s", Kind: "", Lock: "a"}); s.Holders[0].Confirmed != 4e6 ||
		s.Holders[0].Grants != 1 {
		t.Errorf("%+v", s)
	}
	apply(record(10, lockagent.EventReleased, lockagent.Event{
		Owner: "ann", Request: 1, Tenure: 1, Token: 100, Time: at(8), Held: 7 * time.Second, Until: 7e6,
	}))
	apply(record(11, lockagent.EventHeld, lockagent.Event{
		Owner: "bob", Request: 2, Tenure: 1, Token: 101, Time: at(8), Held: 2 * time.Second, Until: 10e6, Returned: 9e6,
		How: lockagent.ByHandOff,
	}))
	if s, ok = f.Lock(fold.LockKey{Store: "s", Kind: "", Lock: "a"}); ok || len(ended) != 2 {
		t.Fatalf("%+v", s)
	}
	if h := ended[0]; h.Owner != "ann" || h.Until != at(8) || h.End != 7e6 || h.Ended != lockagent.EventReleased ||
		h.Held != 7*time.Second {
		t.Errorf("%+v", h)
	}
	if h := ended[1]; h.Owner != "bob" || h.From != at(8) || h.Until != at(10) || h.End != 9e6 ||
		h.Ended != lockagent.EventReleased || !reflect.DeepEqual(h.Behind, ann) {
		t.Errorf("%+v", h)
	}
	text, err := json.Marshal(ended[1])
	var back fold.Hold
	if err != nil || json.Unmarshal(text, &back) != nil || !reflect.DeepEqual(back, ended[1]) {
		t.Errorf("%s is %+v, want %+v; %v", text, back, ended[1], err)
	}
}

// What a request says of the holder that it found is an owner, a tenure, or the text of another
// program. The record of the grant may come later than that of the request.
func TestFoldNamesWhoIsWaitedFor(t *testing.T) {
	holder := agent("A").granted(7, 1000).records
	process := fold.Process{Host: "host-A", Program: "billing", PID: 7}
	for text, want := range map[string]struct{ before, after fold.Party }{
		"A:7":         {fold.Party{Agent: "A", Process: process}, fold.Party{Owner: "owner-A", Agent: "A", Process: process}},
		"A:8":         {fold.Party{Agent: "A", Process: process}, fold.Party{Agent: "A", Process: process}},
		"B/3":         {fold.Party{Owner: "B/3", Agent: "B"}, fold.Party{Owner: "B/3", Agent: "B"}},
		"f81d4fae:31": {fold.Party{Owner: "f81d4fae:31"}, fold.Party{Owner: "f81d4fae:31"}},
	} {
		f := fold.New()
		f.Apply(holder[0])
		f.Apply(events.Record{Event: lockagent.Event{
			Kind: lockagent.EventQueued, Agent: "B", Store: "s", Lock: "a", Owner: "B/1", Request: 1, Time: wall(1100),
			Holder: text,
		}, Epoch: 1, Seq: 1})
		behind := func() fold.Party {
			s, _ := f.Lock(fold.LockKey{Store: "s", Lock: "a"})
			return *s.Waiters[0].Behind
		}
		if got := behind(); got != want.before {
			t.Errorf("%q is %v, want %v", text, got, want.before)
		}
		f.Apply(holder[1])
		if got := behind(); got != want.after {
			t.Errorf("%q is %v after the grant, want %v", text, got, want.after)
		}
	}
}

func TestPartyText(t *testing.T) {
	for want, p := range map[string]fold.Party{
		`"joe"`: {Owner: "joe"},
		`/7 of agent 470d6805`: {
			Owner: "470d6805-ae6d-4f8e-9c31-0b2f5a6d7e81/7", Agent: "470d6805-ae6d-4f8e-9c31-0b2f5a6d7e81",
		},
		`"joe" of agent a, shop on web-1, pid 812`: {
			Owner: "joe", Agent: "a", Process: fold.Process{Host: "web-1", Program: "shop", PID: 812},
		},
		"agent a on web-1, pid 812": {Agent: "a", Process: fold.Process{Host: "web-1", PID: 812}},
	} {
		if got := p.String(); got != want {
			t.Errorf("it is %q, want %q", got, want)
		}
	}
}

// What different agents say may come in any order.
func TestFoldInAnyOrder(t *testing.T) {
	logs := [][]events.Record{
		agent("A").granted(1, 100).released(1, 110).granted(2, 300).records,
		agent("B").granted(1, 200).stop().records,
		agent("C").granted(1, 150).released(1, 160).of("b").granted(2, 150).records,
	}
	var want []fold.Hold
	for range 20 {
		rest := slices.Clone(logs)
		f := fold.New()
		for len(rest) > 0 {
			i := rand.IntN(len(rest))
			f.Apply(rest[i][0])
			if rest[i] = rest[i][1:]; len(rest[i]) == 0 {
				rest = slices.Delete(rest, i, i+1)
			}
		}
		var got []fold.Hold
		for s := range f.Locks() {
			got = append(got, s.Holders...)
		}
		slices.SortFunc(got, func(a, b fold.Hold) int { return int(a.Token) - int(b.Token) })
		if want == nil {
			want = got
		}
		if len(got) != 3 || !got[1].Gone || !slices.Equal(got, want) {
			t.Fatalf("got %+v\nwant %+v", got, want)
		}
	}
}

func TestFoldOfAStoreWithTwoIdentities(t *testing.T) {
	f := fold.New()
	f.Apply(record(1, lockagent.EventGranted, lockagent.Event{Store: "x", Tenure: 1, Token: 1, Owner: "ann"}))
	if s, ok := f.Lock(fold.LockKey{Store: "y", Kind: "", Lock: "a"}); ok {
		t.Errorf("%+v", s)
	}
	f.Apply(record(2, lockagent.EventStoreReset, lockagent.Event{Store: "y", Reset: lockagent.Reset{Store: "x"}}))
	for _, store := range []string{"x", "y"} {
		if s, ok := f.Lock(fold.LockKey{Store: store, Kind: "", Lock: "a"}); !ok || len(s.Holders) != 1 {
			t.Errorf("%+v", s)
		}
	}
	f.Apply(record(3, lockagent.EventReleased, lockagent.Event{Store: "y", Tenure: 1, Token: 1, Owner: "ann"}))
	for s := range f.Locks() {
		t.Errorf("%+v", s)
	}
}

// What another agent was granted later ends a hold of which the log has no end: at the latest when its
// lease was over, or when the next tenure began. It stays so when the next one is over, too.
func TestFoldOfASupersededHold(t *testing.T) {
	for name, test := range map[string]struct {
		first, second *story
		want          lockagent.StoreTime // the end of the first; 0 if it goes on
	}{
		"LeaseOver": {agent("A").leasing(5*time.Second).granted(1, 1000), agent("B").granted(1, 31_000), clock(6000)},
		"Renewed": {
			agent("A").granted(1, 1000).alive(2000).edit(confirmed(2000)), agent("B").granted(1, 31_500), clock(31_500),
		},
		"NextOver":    {agent("A").granted(1, 1000), agent("B").granted(1, 11_000).released(1, 12_000), clock(11_000)},
		"NextAtOnce":  {agent("A").granted(1, 1000), agent("B").held(1, 11_000, 11_010), clock(11_000)},
		"EarlierNext": {agent("A").granted(1, 1000), agent("B").granted(1, 500), 0},
		"BothShared": {
			agent("A").in(lockagent.Shared).granted(1, 1000), agent("B").in(lockagent.Shared).granted(1, 2000), 0,
		},
		"OneShared": {agent("A").in(lockagent.Shared).granted(1, 1000), agent("B").granted(1, 11_000), clock(11_000)},
		"OtherLock": {agent("A").granted(1, 1000), agent("B").of("b").granted(1, 2000), 0},
	} {
		t.Run(name, func(t *testing.T) {
			for _, order := range [][]*story{{test.first, test.second}, {test.second, test.first}} {
				f := fold.New()
				for _, s := range order {
					for _, r := range s.records {
						f.Apply(r)
					}
				}
				s, _ := f.Lock(fold.LockKey{Store: "s", Lock: "a"})
				i := slices.IndexFunc(s.Holders, func(h fold.Hold) bool { return h.Agent == "A" })
				now := slices.ContainsFunc(s.Now(), func(h fold.Hold) bool { return h.Agent == "A" })
				if h := s.Holders[i]; h.Superseded != (test.want != 0) || now == h.Superseded || h.End != test.want {
					t.Errorf("%+v; is it among those of now? %v; want the end %v", h, now, test.want)
				}
			}
		})
	}

	// The end may have been under way.
	var last fold.Hold
	f := fold.New()
	first := agent("A").granted(1, 1000).released(1, 9000).records
	for _, r := range slices.Concat(first[:2], agent("B").granted(1, 10_000).records, first[2:]) {
		for _, h := range endedBy(f, r) {
			last = h
		}
	}
	s, _ := f.Lock(fold.LockKey{Store: "s", Lock: "a"})
	if len(s.Holders) != 1 || last.Agent != "A" || last.Superseded || last.End != clock(9000)+100 {
		t.Errorf("%+v, last %+v", s, last)
	}
}

// confirmed has a sign of life tell of a renewal.
func confirmed(ms int) func(*events.Record) {
	return func(r *events.Record) { r.Confirmed = clock(ms) }
}

// It does not matter when the log tells that two identities are those of one store.
func TestFoldOfASupersededHoldOfOneStore(t *testing.T) {
	first, second := agent("A").at("x").granted(1, 1000).records, agent("B").at("y").granted(1, 11_000).released(1, 12_000)
	f := fold.New()
	for _, r := range slices.Concat(first, second.reset(lockagent.Reset{Store: "x"}).records) {
		f.Apply(r)
	}
	s, _ := f.Lock(fold.LockKey{Store: "y", Lock: "a"})
	if len(s.Holders) != 1 || !s.Holders[0].Superseded {
		t.Errorf("%+v", s)
	}
}

// No process goes on with the requests of another one. Whether it goes on with the holds it says itself.
func TestFoldOfTheNextLife(t *testing.T) {
	queued := func(s *story) *story {
		return s.add(lockagent.Event{
			Kind: lockagent.EventQueued, Lock: "b", LockKind: lockagent.PlainLock, Owner: "ann", Request: 7, Time: wall(2000),
		})
	}
	goesOn := func(r *events.Record) { r.Count = 1 }
	for name, test := range map[string]struct {
		log            *story
		gone           bool
		waits, holders int
	}{
		"Crashed":   {queued(agent("A").granted(1, 1000)), false, 1, 1},
		"Restarted": {queued(agent("A").granted(1, 1000)).next().alive(9000), true, 0, 1},
		"Resumed":   {queued(agent("A").granted(1, 1000)).next().edit(goesOn).alive(9000), false, 0, 1},
		"Mentioned": {queued(agent("A").granted(1, 1000)).next().reentered(1, 9000), false, 0, 1},
		"Stopped":   {queued(agent("A").granted(1, 1000)).stop(), true, 0, 1},
		"Released":  {queued(agent("A").granted(1, 1000).released(1, 2000)).stop(), false, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f, a := fold.New(), newAudit()
			for i, r := range test.log.records {
				r.Position, r.Stored = uint64(i+1), wall(8000)
				f.Apply(r)
				a.Add(r)
			}
			var holders []fold.Hold
			waits := 0
			for l := range f.Locks() {
				holders = append(holders, l.Holders...)
				waits += len(l.Waiters)
			}
			if len(holders) != test.holders || waits != test.waits {
				t.Fatalf("%d holders, %d requests wait: %+v", len(holders), waits, holders)
			}
			r := a.ReportAt(wall(9000))
			if len(holders) == 1 && (holders[0].Gone != test.gone || r.OpenHolds.First[0].Gone != test.gone) {
				t.Errorf("the fold says that it is gone: %v, the audit: %v; want %v", holders[0].Gone, r.OpenHolds.First[0].Gone,
					test.gone)
			}
		})
	}
}

// endedBy applies a record, and returns the holds that the fold knows no more.
func endedBy(f *fold.Fold, r events.Record) (all []fold.Hold) {
	for _, c := range f.Apply(r) {
		if c.Kind == fold.HoldEnded || c.Kind == fold.HoldForgotten {
			all = append(all, *c.Hold)
		}
	}
	return all
}
