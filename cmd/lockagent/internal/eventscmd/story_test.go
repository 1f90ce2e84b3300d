package eventscmd

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/logtest"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/fold"
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
	s := told(t, logtest.LossOf(t, logtest.Begun), newStory("orders/42", func(*hold) bool { return true }))
	var b strings.Builder
	if err := writeHistory(&b, s.name, false, s.all(), logtest.Later); err != nil {
		t.Fatal(err)
	}
	//nolint:lll // a table
	same(t, b.String(), `orders/42: 2 holds of 2 agents

FROM           UNTIL          FOR   OWNER  TOKEN  CAME                                                  ENDED            AGENT
14:03:01.000Z  14:03:05.000Z  4s    "joe"  100    from the store                                        lost (deadline)  a, shop on web-1, pid 812
14:03:05.500Z  14:03:07.000Z  1.5s  /7     200    from the store after 3.5s behind "joe" of a on web-1  released         b, shop on web-2, pid 77
`)
}

func TestHistoryOfWhatGoesOn(t *testing.T) {
	s := told(t, logtest.LossOf(t, logtest.Begun), newStory("orders/43", func(*hold) bool { return true }))
	var b strings.Builder
	if err := writeHistory(&b, s.name, false, s.all(), logtest.Begun.Add(10*time.Second)); err != nil {
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
		name: name, since: logtest.Begun.Add(time.Duration(seconds * float64(time.Second))),
		until: logtest.Begun.Add(time.Duration(seconds * float64(time.Second))),
	}
	s := newStory(name, then.keep)
	s.gaveUp = then.gaveUp
	then.finish(told(t, logtest.LossOf(t, logtest.Begun), s))
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
           from 14:03:05.500Z, from the store after 3.5s behind "joe" of a on web-1; ` +
			`until 14:03:07.000Z, for 1.5s: released
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
		same(t, stateAt(t, test.lock, test.seconds).text(logtest.Later), test.want)
	}
}

func TestStateShowsWhoWaitsLongestFirst(t *testing.T) {
	s := &logtest.Script{T: t}
	for i, waited := range []time.Duration{0, 2 * time.Second} {
		s.Add("a", logtest.Begun.Add(time.Duration(3+i)*time.Second), lockagent.Event{
			Kind: lockagent.EventQueued, Lock: "orders/42", Owner: lockagent.Owner("waited " + waited.String()),
			Request: uint64(i + 1), Waited: 2 * waited,
		})
	}
	then := &lockThen{
		name: "orders/42", since: logtest.Begun.Add(5 * time.Second), until: logtest.Begun.Add(5 * time.Second),
	}
	then.finish(told(t, s.Text.String(), newStory(then.name, then.keep)))
	if w := then.waiters; len(w) != 2 || w[0].Owner != "waited 2s" {
		t.Errorf("the waiters are %+v", w)
	}
}

func TestHolders(t *testing.T) {
	folded := fold.New()
	err := events.ReadLines(strings.NewReader(logtest.LossOf(t, logtest.Begun)), func(r *events.Record, err error) error {
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
		now := logtest.Begun.Add(after)
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

// crashed is the log of a lock whose holder crashes. Its lease is over after five seconds, and half a
// minute after the grant the next agent holds the lock.
func crashed(t *testing.T, more ...lockagent.Event) string {
	s := &logtest.Script{T: t}
	at := func(seconds int) time.Time { return logtest.Begun.Add(time.Duration(seconds) * time.Second) }
	granted := func(seconds int, owner lockagent.Owner) lockagent.Event {
		now := at(seconds).UnixMicro()
		return lockagent.Event{
			Kind: lockagent.EventGranted, Lock: "orders/42", Owner: owner, Request: 1, Tenure: 1,
			Token: lockagent.Token(now),
			How:   lockagent.ByStore, Count: 1, Lease: 5 * time.Second, StoreTime: lockagent.StoreTime(now),
		}
	}
	for _, agent := range []lockagent.AgentID{"a", "b"} {
		s.Add(agent, at(0), lockagent.Event{
			Kind: lockagent.EventAgentStarted, Process: lockagent.Process{Host: "web-" + string(agent), PID: 7},
		})
	}
	s.Add("a", at(1), granted(1, "joe"))
	s.Add("b", at(31), granted(31, "sue"))
	for _, e := range more {
		s.Add("b", at(40), e)
	}
	return s.Text.String()
}

func (s *lockThen) of(t *testing.T, log string) string {
	t.Helper()
	all := newStory(s.name, s.keep)
	s.finish(told(t, log, all))
	return s.text(logtest.Later)
}

// A hold that has no end is over when its lease is, or when another agent is granted the lock. So one
// lock does not have two holders.
func TestStoryOfACrash(t *testing.T) {
	released := lockagent.Event{
		Kind: lockagent.EventReleased, Lock: "orders/42", Owner: "sue", Request: 1, Tenure: 1,
		Token: lockagent.Token(logtest.Begun.Add(31 * time.Second).UnixMicro()), Held: 9 * time.Second,
	}
	for log, held := range map[string]string{crashed(t): "31.000Z -", crashed(t, released): "31.000Z 14:03:40.000Z"} {
		s := told(t, log, newStory("orders/42", func(*hold) bool { return true }))
		var b strings.Builder
		if err := writeHistory(&b, s.name, false, s.all(), logtest.Later); err != nil {
			t.Fatal(err)
		}
		text := strings.Join(strings.Fields(b.String()), " ")
		for _, want := range []string{
			`14:03:01.000Z - ? "joe" `, " over by 14:03:06.000Z; its end is missing in the log a on web-a", held,
		} {
			if !strings.Contains(text, want) {
				t.Errorf("the history does not have %q:\n%s", want, b.String())
			}
		}
		for seconds, want := range map[int]string{
			3: `held by "joe"`, 10: `free nobody held it before "joe"`, 35: `held by "sue"`,
		} {
			then := &lockThen{
				name: "orders/42", since: logtest.Begun.Add(time.Duration(seconds) * time.Second),
				until: logtest.Begun.Add(time.Duration(seconds) * time.Second),
			}
			text := strings.Join(strings.Fields(then.of(t, log)), " ")
			if !strings.Contains(text, want) || strings.Count(text, "held by") > 1 {
				t.Errorf("after %d s the state is\n%s, want %q", seconds, text, want)
			}
		}
	}
}

// The last holds of a lock are those that began last, in whichever store. They stand in the order of each store.
func TestLastHoldsOfTwoStores(t *testing.T) {
	const lock = "orders/42"
	for _, n := range []int{6, 600} { // more than the story keeps at once
		for last, want := range map[int][]string{1: {"1"}, 2: {"1", "2"}, 3: {"1", "1", "2"}, 4: {"1", "1", "2", "2"}} {
			s := newStory(lock, func(*hold) bool { return true })
			s.most = last
			for i := range n { // in turn, and in store 1 at last
				store, token := fmt.Sprint(2-i%2), lockagent.Token(100*(2-i%2)*n+i)
				at := logtest.Begun.Add(time.Duration(i) * time.Second)
				hold := lockagent.Event{
					Agent: "a", Store: store, Lock: lock, Owner: "joe", Tenure: uint64(i + 1), Token: token, Time: at,
				}
				granted, released := hold, hold
				granted.Kind, granted.How, granted.Count = lockagent.EventGranted, lockagent.ByStore, 1
				released.Kind, released.Held, released.Time = lockagent.EventReleased, time.Second, at.Add(time.Second)
				for j, e := range []lockagent.Event{granted, released} {
					if err := s.visit(&events.Record{Event: e, Epoch: 1, Seq: uint64(2*i + j + 1)}, nil); err != nil {
						t.Fatal(err)
					}
				}
			}
			var stores []string
			for _, h := range s.latest(s.all()) {
				stores = append(stores, h.Store)
				if before := logtest.Begun.Add(time.Duration(n-last) * time.Second); h.From.Before(before) {
					t.Errorf("the last %d of %d begin at %v, and this one at %v", last, n, before, h.From)
				}
			}
			if !slices.Equal(stores, want) {
				t.Errorf("the last %d of %d are of the stores %q, want %q", last, n, stores, want)
			}
		}
	}
}

// A history of which only the last holds are wanted keeps no others.
func TestHistoryKeepsWhatIsWanted(t *testing.T) {
	all := newStory("orders/42", func(*hold) bool { return true })
	last := newStory("orders/42", func(*hold) bool { return true })
	last.most = 3
	for i := range uint64(500) {
		r := events.Record{Epoch: 1, Seq: i + 1, Event: lockagent.Event{
			Kind: lockagent.EventHeld, Agent: "a", Lock: "orders/42", Owner: "joe", Tenure: i + 1, Token: lockagent.Token(i + 1),
			Time: logtest.Begun,
		}}
		for _, s := range []*story{all, last} {
			if err := s.visit(&r, nil); err != nil {
				t.Fatal(err)
			}
		}
		if len(last.past) > 200 {
			t.Fatalf("it keeps %d holds", len(last.past))
		}
	}
	got, want := last.all(), all.all()
	if !slices.Equal(got[len(got)-3:], want[len(want)-3:]) {
		t.Errorf("the last are %v, want %v", got[len(got)-3:], want[len(want)-3:])
	}
}
