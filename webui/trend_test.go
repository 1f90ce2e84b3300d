//go:build linux

package webui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/natslog"
)

func request(path string) *http.Request {
	return httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil)
}

// written is an event log that was written so far. It gives all that the filter selects, wherever somebody begins.
type written struct {
	Log
	records []events.Record
	last    uint64 // the position of the last record
	reads   int
	err     error
}

func (w *written) State(context.Context) (natslog.StreamState, error) {
	return natslog.StreamState{Name: "log", First: 1, Last: w.last, Now: time.Now()}, w.err
}

func (w *written) Replay(ctx context.Context, _ natslog.From, of events.Filter, visit events.Visit) error {
	w.reads++
	for i := range w.records {
		if r := w.records[i]; of.Match(&r) {
			if err := errors.Join(visit(&r, nil), ctx.Err()); err != nil {
				return err
			}
		}
	}
	return nil
}

// add adds an event that the log took so long ago.
func (w *written) add(ago time.Duration, e lockagent.Event) {
	at := time.Now().Add(-ago)
	e.Agent, e.Time = cmp.Or(e.Agent, "web-1"), at
	w.last++
	w.records = append(w.records, events.Record{Event: e, Epoch: 1, Seq: w.last, Position: w.last, Stored: at})
}

// A trend has what the log says of each minute. What it has read of a minute that is over, it does not read again.
func TestTrend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(30 * time.Second) // in the middle of a minute
		log := &written{}
		log.add(90*time.Minute, lockagent.Event{Kind: lockagent.EventAlive, Count: 99})
		log.add(10*time.Minute, lockagent.Event{Kind: lockagent.EventAlive, Count: 7})
		log.add(10*time.Minute, lockagent.Event{Kind: lockagent.EventAlive, Count: 3})
		for i := range 100 {
			log.add(5*time.Minute, lockagent.Event{
				Kind: lockagent.EventGranted, Lock: "door", Waited: time.Duration(i+1) * time.Millisecond,
			})
		}
		log.add(0, lockagent.Event{Kind: lockagent.EventHeld, Lock: "door", Waited: time.Second})
		p := &page{Config: Config{Log: log}}
		known := make(map[int64]int)
		is := p.readTrend(known)
		want := series()
		want[minutes-1-10] = 7
		if !slices.Equal(is.held, want) {
			t.Errorf("held: %v", is.held)
		}
		want = series()
		want[minutes-1-5], want[minutes-1] = 95_000, 1_000_000
		if !slices.Equal(is.waits, want) {
			t.Errorf("waits: %v", is.waits)
		}
		before := log.reads
		if again := p.readTrend(known); !slices.Equal(again.waits, is.waits) || log.reads-before != 3 {
			t.Errorf(
				"%d reads again, want one of the signs of life, and two of the last minutes: %v", log.reads-before, again.waits,
			)
		}
		if line := sparkOf("Held", is.held, number); !strings.Contains(line.Label, ": at most 7") ||
			strings.Count(line.Path, "M") != 1 {
			t.Errorf("%+v", line)
		}
		if line := sparkOf("Held", series(), number); line != nil {
			t.Errorf("nothing is known, and the line is %+v", line)
		}
	})
}

// The fleet has the holders and waiters of all hosts, and says how old that is. It goes on showing it while the hub
// does not answer.
func TestFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(30 * time.Second)
		who := lockagent.Process{Host: "web-1", Program: "pg_dump", PID: 7, User: "ann", Command: "pg_dump shop"}.Who()
		log := &written{}
		log.add(2*time.Minute, lockagent.Event{
			Kind: lockagent.EventGranted, Lock: "gone", Agent: "web-3", Token: 3, Tenure: 1, Lease: time.Hour, StoreTime: 1,
		})
		log.add(20*time.Second, lockagent.Event{
			Kind: lockagent.EventGranted, Lock: "door", Token: 12345678901, Tenure: 1, Who: who,
		})
		log.add(10*time.Second, lockagent.Event{
			Kind: lockagent.EventQueued, Lock: "door", Agent: "web-2", Request: 9,
			Who: lockagent.Process{Host: "web-2", Program: "make", User: "bob"}.Who(),
		})
		p := &page{Config: Config{Hub: log, Access: nothing{}}}
		shown := func() *lockList {
			t.Helper()
			list, err := p.fleetList(request("/fleet?sort=name"))
			if err != nil {
				t.Fatal(err)
			}
			return list
		}
		is := shown()
		if len(is.Rows) != 2 || is.Fleet.Err != nil || is.Fleet.Age() != 0 || is.Queues != 1 {
			t.Fatalf("%+v, %+v", is.Rows, is.Fleet)
		}
		door, gone := is.Rows[0], is.Rows[1]
		if door.Holder.By() != "7 · ann@web-1" || door.Holder.Headline() != "pg_dump shop" ||
			door.Holder.Age() != 20*time.Second {
			t.Errorf("%+v", door.Holder)
		}
		if door.Longest.By() != "bob@web-2" || door.Waiting != 1 || gone.State != stateSilent ||
			gone.Holder.Expires.IsZero() {
			t.Errorf("%+v, %+v", door.Longest, gone)
		}
		if h := p.elsewhere("door", "web-1:1"); h == nil || h.User != "ann" {
			t.Errorf("%+v", h)
		}
		for name, holder := range map[lockagent.Name]string{"door": "web-4:1", "desk": "web-1:1", "gone": "somebody"} {
			if h := p.elsewhere(name, holder); h != nil {
				t.Errorf("%s, which %s has: %+v", name, holder, h)
			}
		}

		log.err = errors.New("the hub is away")
		time.Sleep(time.Minute)
		if is = shown(); len(is.Rows) != 2 || !errors.Is(is.Fleet.Err, log.err) || is.Fleet.Age() != time.Minute {
			t.Errorf("%d rows, %+v", len(is.Rows), is.Fleet)
		}
		log.err = nil
		log.add(0, lockagent.Event{Kind: lockagent.EventReleased, Lock: "door", Token: 12345678901, Tenure: 1})
		time.Sleep(time.Minute)
		if is = shown(); len(is.Rows) != 2 || is.Rows[0].Holder != nil || is.Fleet.Err != nil || is.Fleet.Age() != 0 {
			t.Errorf("%+v, %+v", is.Rows, is.Fleet)
		}
	})
}

// A page of the fleet that is open for days does not grow: of agents that have crashed, it knows what they held and
// waited for until nothing was heard of them for an hour. An agent that goes on has a lock for as long as it tells so:
// of another one, the end is missing in the log.
func TestFleetForgetsTheDead(t *testing.T) {
	const hours, perHour = 12, 6
	synctest.Test(t, func(t *testing.T) {
		log := &written{}
		p := &page{Config: Config{Hub: log, Access: nothing{}}}
		log.add(0, lockagent.Event{Kind: lockagent.EventGranted, Lock: "kept", Token: 1, Tenure: 1})
		log.add(0, lockagent.Event{Kind: lockagent.EventGranted, Lock: "over", Token: 1, Tenure: 1})
		log.add(0, lockagent.Event{Kind: lockagent.EventQueued, Lock: "wanted", Request: 1})
		most := 0
		for i := range hours * perHour {
			agent := lockagent.AgentID(fmt.Sprint("job-", i))
			name := lockagent.Name(fmt.Sprint("job/", i))
			log.add(0, lockagent.Event{Kind: lockagent.EventGranted, Lock: name, Agent: agent, Token: 3, Tenure: 1})
			log.add(0, lockagent.Event{Kind: lockagent.EventQueued, Lock: name + "/next", Agent: agent, Request: 1})
			log.add(0, lockagent.Event{Kind: lockagent.EventAlive})
			log.add(0, lockagent.Event{Kind: lockagent.EventHolding, Lock: "kept", Token: 1, Tenure: 1})
			known := p.fleetNow()
			if known.Err != nil {
				t.Fatal(known.Err)
			}
			most = max(most, len(known.rows))
			log.records = nil // which nobody reads again
			time.Sleep(time.Hour / perHour)
		}
		if n := 2*perHour + 3; most < n || most > n+2 {
			t.Errorf("it has known %d locks, want about %d", most, n)
		}
		for name, want := range map[string]bool{"kept": true, "wanted": true, "over": false} {
			if slices.ContainsFunc(p.fleetNow().rows, func(row lockRow) bool { return row.Name == name }) != want {
				t.Errorf("%s is known: %t", name, !want)
			}
		}
	})
}

// Without a hub the fleet says how to get one.
func TestFleetWithoutAHub(t *testing.T) {
	h := New(Config{Look: nothing{}, Access: nothing{}})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, request("/fleet"))
	if text := w.Body.String(); !strings.Contains(text, "lockagent serve --nats URL") {
		t.Errorf("%s", text)
	}
}
