package python

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
)

// held is a hold as both programs tell of it.
type held struct {
	Lock  lockagent.Name    `json:"lock"`
	Store string            `json:"store"`
	Token lockagent.Token   `json:"token"`
	Agent lockagent.AgentID `json:"agent"`
	Owner lockagent.Owner   `json:"owner"`
	Gone  bool              `json:"gone"`
	End   int64             `json:"lease_end_us"`
}

// writer makes up the log of one agent. It forgets to tell of some ends.
type writer struct {
	t         *testing.T
	rand      *rand.Rand
	publisher *events.Publisher
	agent     lockagent.AgentID
	store     string
	open      []lockagent.Event
	tenure    uint64
}

func (w *writer) record(kind lockagent.EventKind, e lockagent.Event) {
	e.Kind, e.Agent, e.Store, e.Time = kind, w.agent, w.store, time.Now()
	if kind == lockagent.EventAgentStarted {
		e.Process = lockagent.Process{Host: "here", PID: 1}
	}
	w.publisher.Record(w.t.Context(), e)
	// Facts of one hold that come together become one record. Both kinds of logs are wanted.
	if w.rand.IntN(3) > 0 {
		if err := w.publisher.Flush(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
	}
}

// step makes up one event.
func (w *writer) step(token lockagent.Token) {
	end := func(i int) (e lockagent.Event) {
		e = w.open[i]
		w.open = slices.Delete(w.open, i, i+1)
		return e
	}
	switch n := w.rand.IntN(21); {
	case n < 9 || len(w.open) == 0:
		mode := lockagent.Exclusive
		if w.rand.IntN(3) == 0 {
			mode = lockagent.Shared
		}
		if w.rand.IntN(3) > 0 || w.tenure == 0 {
			w.tenure++
		}
		e := lockagent.Event{
			Lock: lockagent.Name(fmt.Sprintf("orders/%d", w.rand.IntN(40))), LockKind: lockagent.PlainLock, Mode: mode,
			Owner: lockagent.Owner([]string{"joe", "sue", "ann"}[w.rand.IntN(3)]), Request: uint64(token), Tenure: w.tenure, Token: token,
			How: lockagent.ByStore, Count: 1, Lease: time.Minute, Fixed: w.rand.IntN(2) == 0,
			StoreTime: lockagent.StoreTime(token), Confirmed: lockagent.StoreTime(token), Until: lockagent.StoreTime(token), Incarnation: "1",
		}
		w.open = append(w.open, e)
		w.record(lockagent.EventGranted, e)
	case n < 14:
		e := end(w.rand.IntN(len(w.open)))
		e.Count = 0
		w.record(lockagent.EventReleased, e)
	case n < 15:
		e := end(w.rand.IntN(len(w.open)))
		e.Count, e.Reason = 0, lockagent.LostDeadline
		w.record(lockagent.EventLost, e)
	case n < 16: // one grant of several
		w.record(lockagent.EventReleased, w.open[w.rand.IntN(len(w.open))])
	case n < 17:
		end(w.rand.IntN(len(w.open)))
	case n < 18:
		e := end(w.rand.IntN(len(w.open)))
		e.Count, e.Returned = 0, lockagent.StoreTime(token)
		w.record(lockagent.EventReturned, e)
	case n < 19:
		e := w.open[w.rand.IntN(len(w.open))]
		e.StoreTime, e.Confirmed, e.Lease = lockagent.StoreTime(token), 0, time.Duration(token)*time.Second
		w.record(lockagent.EventRenewed, e)
	case n < 20:
		w.record(lockagent.EventAgentStopped, lockagent.Event{})
		if w.rand.IntN(2) == 0 {
			w.record(lockagent.EventAgentStarted, lockagent.Event{})
		}
	case w.agent == "x": // after a reset the publisher tells of no renewals for a while
	default: // the store comes back empty
		before := w.store
		w.store += "'"
		w.record(lockagent.EventStoreReset, lockagent.Event{Reset: lockagent.Reset{From: before, To: w.store, Reason: "emptied", Store: before}})
	}
}

// renewals makes up two holds that are kept. Only the second one is renewed, but the agent says that
// all of them may have been.
func (w *writer) renewals(token lockagent.Token) {
	for i := range lockagent.Token(2) {
		e := lockagent.Event{
			Lock: lockagent.Name(fmt.Sprintf("kept/%d", i)), LockKind: lockagent.PlainLock, Mode: lockagent.Exclusive,
			Owner: "joe", Request: uint64(token + i), Tenure: w.tenure + 1 + uint64(i), Token: token + i, How: lockagent.ByStore,
			Count: 1, Lease: time.Minute, StoreTime: lockagent.StoreTime(token + i),
		}
		w.record(lockagent.EventGranted, e)
		if i == 1 {
			e.StoreTime += 1000
			w.record(lockagent.EventRenewed, e)
		}
	}
}

// awaitAlive returns when an agent has told of a renewal.
func awaitAlive(t *testing.T, url string, agent lockagent.AgentID) {
	t.Helper()
	reader, err := events.OpenReader(events.ReaderConfig{Connection: events.Connection{URL: url}})
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	told := errors.New("told")
	err = reader.Tail(t.Context(), events.From{}, events.Filter{}, func(r events.Record, err error) error {
		if r.Agent == agent && r.Kind == lockagent.EventAlive && r.Confirmed > 0 {
			return told
		}
		return err
	})
	if !errors.Is(err, told) {
		t.Fatal(err)
	}
}

// The fold in Python and that of package events say the same of one log, whatever is in it.
func TestSameAsPackageEvents(t *testing.T) {
	python := interpreter(t)
	for range 2 {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 0))
		url := natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"}).URL()
		var writers []*writer
		for _, agent := range []lockagent.AgentID{"x", "y", "z"} {
			p, err := events.NewPublisher(events.Config{
				Connection: events.Connection{URL: url}, Agent: agent, Renewals: true, Heartbeat: 100 * time.Millisecond,
			})
			if err != nil {
				t.Fatal(err)
			}
			w := &writer{t: t, rand: random, publisher: p, agent: agent, store: "s"}
			w.record(lockagent.EventAgentStarted, lockagent.Event{})
			writers = append(writers, w)
		}
		for i := range 300 {
			writers[random.IntN(len(writers))].step(lockagent.Token(i + 1))
		}
		writers[0].renewals(300)
		awaitAlive(t, url, writers[0].agent)
		for _, w := range writers {
			if err := w.publisher.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}

		want := heldNow(t, url)
		cmd := exec.CommandContext(t.Context(), python, "holders.py", "--nats", url, "--once", "--json")
		cmd.Stderr = t.Output()
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		var got []held
		if err := json.Unmarshal(out, &got); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for i := range got {
			got[i].Store = "" // which of its identities stands for a store is not the same
		}
		sorted(got)
		if !slices.Equal(got, want) || len(want) == 0 {
			t.Errorf("Python says\n%v\npackage events says\n%v", got, want)
		}
	}
}

// heldNow is what package events says.
func heldNow(t *testing.T, url string) (all []held) {
	t.Helper()
	reader, err := events.OpenReader(events.ReaderConfig{Connection: events.Connection{URL: url}})
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	fold := events.NewFold(events.FoldConfig{})
	err = reader.Replay(t.Context(), events.From{}, events.Filter{}, func(r events.Record, err error) error {
		fold.Apply(r)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for l := range fold.Locks() {
		for _, h := range l.Now() {
			all = append(all, held{Lock: h.Lock, Token: h.Token, Agent: h.Agent, Owner: h.Owner, Gone: h.Gone, End: int64(h.LeaseEnd())})
		}
	}
	sorted(all)
	return all
}

func sorted(all []held) {
	slices.SortFunc(all, func(a, b held) int {
		return cmp.Or(cmp.Compare(a.Lock, b.Lock), cmp.Compare(a.Token, b.Token), cmp.Compare(a.Agent, b.Agent))
	})
}
