package python

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/fold"
	"github.com/lockagent/lockagent/events/natslog"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
)

// told is what both programs tell.
type told struct {
	Holds []held `json:"holds"`
	Left  []held `json:"left"`
}

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
	publisher *natslog.Publisher
	agent     lockagent.AgentID
	epoch     uint64
	store     string
	open      []lockagent.Event
	tenure    uint64
}

// begin begins a life of the agent, which goes on with some holds of the one before.
func (w *writer) begin(url string, holds int) {
	w.t.Helper()
	w.epoch++
	var err error
	w.publisher, err = natslog.NewPublisher(natslog.Config{
		Connection: natslog.Connection{URL: url}, Agent: w.agent, Epoch: w.epoch, Renewals: true,
		Heartbeat: 100 * time.Millisecond, Linger: time.Second,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.record(lockagent.EventAgentStarted, lockagent.Event{Count: holds})
}

func (w *writer) end() {
	w.t.Helper()
	if err := w.publisher.Close(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

func (w *writer) record(kind lockagent.EventKind, e lockagent.Event) {
	w.t.Helper()
	w.queue(kind, e)
	// Facts of one hold that come together become one record. Both kinds of logs are wanted.
	if w.rand.IntN(3) > 0 {
		w.flush()
	}
}

// queue records an event that may be under way together with the next one.
func (w *writer) queue(kind lockagent.EventKind, e lockagent.Event) {
	e.Kind, e.Agent, e.Store, e.Time = kind, w.agent, w.store, time.Now()
	if kind == lockagent.EventAgentStarted {
		e.Process = lockagent.Process{Host: "here", PID: 1}
	}
	w.publisher.Record(w.t.Context(), e)
}

func (w *writer) flush() {
	w.t.Helper()
	if err := w.publisher.Flush(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// step makes up one event.
func (w *writer) step(token lockagent.Token) {
	end := func(i int) (e lockagent.Event) {
		e = w.open[i]
		w.open = slices.Delete(w.open, i, i+1)
		return e
	}
	switch n := w.rand.IntN(23); {
	case n < 9 || len(w.open) == 0:
		mode := lockagent.Exclusive
		if w.rand.IntN(3) == 0 {
			mode = lockagent.Shared
		}
		if w.rand.IntN(3) > 0 || w.tenure == 0 {
			w.tenure++
		}
		e := lockagent.Event{
			Lock: w.order(), LockKind: lockagent.PlainLock, Mode: mode,
			Owner: lockagent.Owner([]string{"joe", "sue", "ann"}[w.rand.IntN(3)]), Request: uint64(token), Tenure: w.tenure,
			Token: token, How: []lockagent.How{lockagent.ByStore, lockagent.ByHandOff}[w.rand.IntN(2)], Count: 1,
			Lease: []time.Duration{lockagent.PassLease, time.Minute}[w.rand.IntN(2)], Fixed: w.rand.IntN(2) == 0,
			StoreTime: lockagent.StoreTime(token), Confirmed: lockagent.StoreTime(token), Until: lockagent.StoreTime(token),
			Incarnation: "1",
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
		e := end(w.rand.IntN(len(w.open)))
		w.closed(e)
		if w.rand.IntN(4) == 0 {
			e.Count, e.Returned = 0, lockagent.StoreTime(token)
			w.record(lockagent.EventReturned, e)
		}
	case n < 21:
		w.record(lockagent.EventAgentStopped, lockagent.Event{})
		if w.rand.IntN(2) == 0 {
			w.record(lockagent.EventAgentStarted, lockagent.Event{})
		}
	case n < 22:
		w.table(w.order(), token)
	case w.agent == "x": // after a reset the publisher tells of no renewals for a while
	default: // the store comes back empty
		before := w.store
		w.store += "'"
		w.record(lockagent.EventStoreReset, lockagent.Event{
			Reset: lockagent.Reset{From: before, To: w.store, Reason: "emptied", Store: before},
		})
	}
}

// order makes up the name of a lock.
func (w *writer) order() lockagent.Name {
	return lockagent.Name(fmt.Sprintf("orders/%d", w.rand.IntN(40)))
}

// table makes up short holds of one lock, which the log has as one event.
func (w *writer) table(name lockagent.Name, token lockagent.Token) {
	for i := range 3 + lockagent.Token(w.rand.IntN(3)) {
		w.tenure++
		e := lockagent.Event{
			Lock: name, LockKind: lockagent.PlainLock, Mode: lockagent.Exclusive, Owner: "ann", Request: uint64(token + i),
			Tenure: w.tenure, Token: token + i, How: lockagent.ByStore, Count: 1, Lease: time.Minute,
			StoreTime: lockagent.StoreTime(token + i), Incarnation: "1",
		}
		w.queue(lockagent.EventGranted, e)
		e.Count, e.Confirmed = 0, e.StoreTime
		w.queue(lockagent.EventReleased, e)
	}
	w.flush()
}

// forgotten makes up a hold of which only a table says that it is over.
func (w *writer) forgotten(token lockagent.Token) {
	w.grant("forgotten/1", token, lockagent.ByStore, false)
	w.flush()
	w.table("forgotten/1", token+1)
}

// grant makes up a hold of a lock that nobody else wants.
func (w *writer) grant(name lockagent.Name, token lockagent.Token, how lockagent.How, fixed bool) lockagent.Event {
	w.tenure++
	e := lockagent.Event{
		Lock: name, LockKind: lockagent.PlainLock, Mode: lockagent.Exclusive, Owner: "joe", Request: uint64(token),
		Tenure: w.tenure, Token: token, How: how, Count: 1, Lease: time.Minute, Fixed: fixed,
		StoreTime: lockagent.StoreTime(token),
	}
	w.record(lockagent.EventGranted, e)
	return e
}

// renewals makes up holds of which only the last one is renewed. But the agent says of all of them that they may
// have been, unless the store has granted a fixed lease.
func (w *writer) renewals(token lockagent.Token) {
	w.grant("kept/1", token, lockagent.ByStore, false)
	w.grant("kept/2", token+1, lockagent.ByHandOff, true)
	w.grant("kept/3", token+2, lockagent.ByStore, true)
	e := w.grant("kept/4", token+3, lockagent.ByStore, false)
	renewed := e
	renewed.StoreTime += 1000
	w.record(lockagent.EventRenewed, renewed)
	e.Confirmed, e.Lease, e.Held = e.StoreTime+2000, 2*time.Minute, time.Minute
	w.record(lockagent.EventHolding, e)
}

// older makes up a hold that goes on, of which the log does not have the grant.
func (w *writer) older(token lockagent.Token) {
	w.tenure++
	w.record(lockagent.EventHolding, lockagent.Event{
		Lock: "older/1", LockKind: lockagent.PlainLock, Mode: lockagent.Exclusive, Owner: "joe", Request: uint64(token),
		Tenure: w.tenure, Token: token, Count: 1, Lease: time.Minute, StoreTime: lockagent.StoreTime(token),
		Confirmed: lockagent.StoreTime(token) + 500, Held: time.Minute,
	})
}

// closed ends a hold because its agent closes its locks. If the lease is fixed, it may stay.
func (w *writer) closed(e lockagent.Event) {
	e.Count, e.Reason, e.Lease = 0, lockagent.LostClosed, time.Hour
	e.Confirmed = lockagent.StoreTime(time.Now().UnixMicro())
	w.record(lockagent.EventLost, e)
}

// survivor makes up a hold that goes on when its agent has stopped, and a lease that stays.
func (w *writer) survivor(token lockagent.Token) {
	w.closed(w.grant("left/3", token+2, lockagent.ByStore, true))
	w.grant("left/1", token, lockagent.ByStore, true)
	e := w.grant("left/2", token+1, lockagent.ByStore, true)
	w.record(lockagent.EventAgentStopped, lockagent.Event{})
	w.record(lockagent.EventUncertain, e)
}

// awaitAlive returns when an agent has told of a renewal.
func awaitAlive(t *testing.T, url string, agent lockagent.AgentID) {
	t.Helper()
	reader, err := natslog.OpenReader(natslog.ReaderConfig{Connection: natslog.Connection{URL: url}})
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	told := errors.New("told")
	err = reader.Tail(t.Context(), natslog.From{}, events.Filter{}, func(r *events.Record, err error) error {
		if r.Agent == agent && r.Kind == lockagent.EventAlive && r.Confirmed > 0 {
			return told
		}
		return err
	})
	if !errors.Is(err, told) {
		t.Fatal(err)
	}
}

// The fold in Python and that of package audit say the same of one log, whatever is in it.
func TestSameAsPackageEvents(t *testing.T) {
	python := interpreter(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	url := natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"}).URL()
	var writers []*writer
	for _, agent := range []lockagent.AgentID{"x", "y", "z"} {
		w := &writer{t: t, rand: random, agent: agent, store: "s"}
		w.begin(url, 0)
		writers = append(writers, w)
	}
	for i := range 300 {
		writers[random.IntN(len(writers))].step(lockagent.Token(10*i + 1))
	}
	writers[0].renewals(3000)
	writers[2].older(3100)
	awaitAlive(t, url, writers[0].agent)
	// Each lives once more. Only y goes on with its holds.
	for i, w := range writers {
		w.end()
		w.begin(url, i%2)
	}
	for i := range 30 {
		writers[random.IntN(len(writers))].step(lockagent.Token(10*i + 4000))
	}
	writers[1].forgotten(5000)
	writers[0].survivor(6000)
	for _, w := range writers {
		w.end()
	}

	if tables(t, url) == 0 {
		t.Error("the log has no table")
	}
	want := heldNow(t, url)
	cmd := exec.CommandContext(t.Context(), python, "holders.py", "--nats", url, "--once", "--json")
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var got told
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, all := range [][]held{got.Holds, got.Left} {
		for i := range all {
			all[i].Store = "" // which of its identities stands for a store is not the same
		}
		sorted(all)
	}
	if !slices.Equal(got.Holds, want.Holds) || !slices.Equal(got.Left, want.Left) || len(want.Holds) == 0 ||
		len(want.Left) == 0 {
		t.Errorf("Python says\n%v\npackage audit says\n%v", got, want)
	}
}

// tables returns how many messages have tables.
func tables(t *testing.T, url string) (n int) {
	t.Helper()
	stream, err := jetStream(t, url).Stream(t.Context(), natslog.DefaultStream)
	if err != nil {
		t.Fatal(err)
	}
	for position := range stream.CachedInfo().State.LastSeq {
		m, err := stream.GetMsg(t.Context(), position+1)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(m.Data), `"type":"io.lockagent.lock.holds.v1"`) {
			n++
		}
	}
	return n
}

// heldNow is what package audit says.
func heldNow(t *testing.T, url string) (all told) {
	t.Helper()
	reader, err := natslog.OpenReader(natslog.ReaderConfig{Connection: natslog.Connection{URL: url}})
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	folded := fold.New()
	err = reader.Replay(t.Context(), natslog.From{}, events.Filter{}, func(r *events.Record, err error) error {
		folded.Apply(*r)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	of := func(h *fold.Hold) held {
		return held{Lock: h.Lock, Token: h.Token, Agent: h.Agent, Owner: h.Owner, Gone: h.Gone, End: int64(h.LeaseEnd())}
	}
	for l := range folded.Locks() {
		for _, h := range l.Now() {
			all.Holds = append(all.Holds, of(&h))
		}
		for _, h := range l.Left {
			all.Left = append(all.Left, of(&h))
		}
	}
	sorted(all.Holds)
	sorted(all.Left)
	return all
}

func sorted(all []held) {
	slices.SortFunc(all, func(a, b held) int {
		return cmp.Or(cmp.Compare(a.Lock, b.Lock), cmp.Compare(a.Token, b.Token), cmp.Compare(a.Agent, b.Agent))
	})
}
