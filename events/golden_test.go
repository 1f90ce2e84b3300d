package events

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events/internal/eventstest"
)

// newGolden is the variable of the environment that has the golden files written that are
// missing. Those that are there never change: they are the promise of the format.
const newGolden = "LOCKAGENT_NEW_GOLDEN"

// goldenRecord is an event as an agent records it, with the fields that its kind has.
func goldenRecord(kind lockagent.EventKind) Record {
	const at = lockagent.StoreTime(1_795_226_584_000_100)
	r := Record{
		Event: lockagent.Event{
			Kind: kind, Agent: eventstest.Agent, Time: time.Date(2026, 11, 21, 2, 3, 4, 123_456_000, time.UTC),
			Store: "5a6d2f0e-0c55-4b8e-8f6c-0d5d1a7c2b11",
		},
		Epoch: 3,
		Seq:   uint64(kind),
	}
	e := &r.Event
	name := func() { e.Lock, e.LockKind, e.Mode = "billing/invoices/42", lockagent.PlainLock, lockagent.Exclusive }
	request := func() {
		name()
		e.Owner, e.Request = "worker-7", 11
		e.TraceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	}
	tenure := func() { e.Tenure, e.Token = 12, lockagent.Token(at) }
	grant := func() {
		request()
		tenure()
		e.How, e.Waited, e.StoreTime, e.Lease, e.Count = lockagent.ByStore, 1500*time.Microsecond, at, 10*time.Second, 1
		e.Incarnation = "b8a3c1d07f6e4d7f9a385a1d6f0e2b91"
	}
	end := func() {
		request()
		tenure()
		e.Held, e.Lease, e.Confirmed, e.Until = 250*time.Millisecond, 10*time.Second, at, at+250_700
	}
	switch kind {
	case lockagent.EventRequested:
		request()
	case lockagent.EventQueued:
		request()
		e.Waiters, e.Holder = 2, "worker-3"
	case lockagent.EventGranted:
		grant()
	case lockagent.EventReentered:
		grant()
		e.Count = 2
	case lockagent.EventRenewed:
		name()
		e.Tenure, e.StoreTime, e.Lease = 12, at+3_333_000, 10*time.Second
	case lockagent.EventUncertain:
		name()
		tenure()
		e.Owner, e.Err, e.Remaining = "worker-7", "redis: connection refused", 6500*time.Millisecond
	case lockagent.EventReleased:
		end()
		e.Returned = at + 250_900
	case lockagent.EventExpired:
		end()
		e.Fixed, e.Reason = true, lockagent.LostExpired
	case lockagent.EventLost:
		end()
		e.Reason = lockagent.LostDeadline
	case lockagent.EventBroken:
		end()
		e.Reason, e.Operator = lockagent.LostBroken, "alice@ops-1"
	case lockagent.EventUnclaimed:
		end()
		e.Reason = lockagent.LostUnclaimed
	case lockagent.EventReturned:
		name()
		e.Tenure, e.Returned, e.Reason = 12, at+10_000_000, lockagent.LostDenied
	case lockagent.EventTimedOut:
		request()
		e.Waited = 2 * time.Second
	case lockagent.EventCancelled:
		request()
		e.Waited, e.Err = 2*time.Second, "context canceled"
	case lockagent.EventRefused:
		request()
		e.Err = "the store is not reachable"
	case lockagent.EventStoreReset:
		e.Reset = lockagent.Reset{
			From: "run-21", To: "run-22", Reason: "emptied", After: at, Before: at + 900_000,
			Store: "0b1f7c9e-31d2-4a57-9a0e-6a1c2d3e4f50",
		}
	case lockagent.EventGraceBegan:
		e.Grace = &lockagent.GracePeriod{
			Incarnation: "run-22", Reason: "emptied", Began: at,
			Roll: []lockagent.AgentID{"billing-1", eventstest.Agent},
		}
	case lockagent.EventGraceEnded:
		e.Grace = &lockagent.GracePeriod{
			Incarnation: "run-22", Reason: "emptied", Began: at, Ended: at + 30_000_000,
			Roll: []lockagent.AgentID{"billing-1"}, More: 1200,
		}
	case lockagent.EventAgentStarted:
		e.Process = lockagent.Process{Host: "host-42", Program: "billing", Version: "v1.2.3", PID: 4711}
		r.Follows = Place{Epoch: 2, Seq: 90210}
	case lockagent.EventAgentStopped:
	case lockagent.EventHeld:
		grant()
		end()
		e.Count = 0
		e.Returned = at + 250_900
	case lockagent.EventAlive:
		e.StoreTime, e.Confirmed, e.Lease = at+9_000_000, at+8_000_000, 30*time.Second
		e.Count, e.Sum = 5, 0x0a1b2c3d4e5f6071
	case lockagent.EventPermits:
		e.Lock, e.LockKind = "billing/printers", lockagent.Permits
		e.Op, e.Permits, e.Total, e.Permit = lockagent.ReleasePermit, 1, 12, "0af7651916cd43dd8448eb211c80319c"
		e.StoreTime = at + 1_000_000
	case lockagent.EventHolding:
		grant()
		e.Count, e.Waited, e.Held, e.Confirmed = 2, 0, 20*time.Minute, at+1_197_000_000
	case lockagent.EventDropped:
		r.Dropped[lockagent.EventRequested], r.Dropped[lockagent.EventQueued] = 9000, 1200
		r.Dropped[lockagent.EventTimedOut] = 3
	}
	return r
}

// goldenBatch are records of one lock, none of which can be in a table.
func goldenBatch() (records []Record) {
	for i, kind := range []lockagent.EventKind{lockagent.EventQueued, lockagent.EventGranted, lockagent.EventReleased} {
		r := goldenRecord(kind)
		r.Seq = uint64(i) + 100
		records = append(records, r)
	}
	return records
}

// goldenHolds are two holds that follow each other: a table.
func goldenHolds() []Record {
	first := goldenRecord(lockagent.EventHeld)
	first.TraceParent = ""
	second := first
	second.Seq++
	second.Time = first.Time.Add(time.Second)
	second.Owner, second.Request, second.Token, second.How = "worker-8", 13, first.Token+1, lockagent.ByHandOff
	return []Record{first, second}
}

// addedFields are records with fields that were added later.
func addedFields() map[string]Record {
	step := goldenRecord(lockagent.EventStoreReset)
	replicas, several := goldenRecord(lockagent.EventHeld), goldenRecord(lockagent.EventHeld)
	asked, started := goldenRecord(lockagent.EventHeld), goldenRecord(lockagent.EventAgentStarted)
	resumed := started
	resumed.Count, resumed.Sum = 2, 0x00f1e2d3c4b5a697
	r := &step.Reset
	*r = lockagent.Reset{
		From: r.From, To: r.From, Reason: "clock stepped", After: r.After, Before: r.Before + 600_000_000,
		Step: -300 * time.Millisecond,
	}
	replicas.Replicas = 2
	several.Holds = 64
	asked.Who = lockagent.Process{
		Host: "db3", Program: "backup.sh", PID: 4711, User: "root", Command: "backup.sh --full /srv",
	}.Who()
	started.Process.User, started.Process.Command = "billing", "billing --all"
	return map[string]Record{
		"step": step, "replicas": replicas, "several": several, "who": asked, "user": started, "resumed": resumed,
	}
}

// golden returns a golden file without its indentation.
func golden(t *testing.T, name string, now []byte) []byte {
	t.Helper()
	file := filepath.Join("testdata", "v1", name+".json")
	if _, err := os.Stat(file); err != nil && os.Getenv(newGolden) != "" {
		var text bytes.Buffer
		if err := json.Indent(&text, now, "", "  "); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, append(text.Bytes(), '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; write the file of a new kind once with %s=1", err, newGolden)
	}
	var line bytes.Buffer
	if err := json.Compact(&line, text); err != nil {
		t.Fatal(err)
	}
	return line.Bytes()
}

// TestGolden holds the format against files that never change.
func TestGolden(t *testing.T) {
	for _, kind := range lockagent.EventKinds() {
		t.Run(kind.String(), func(t *testing.T) {
			want := goldenRecord(kind)
			now := Append(nil, want)
			text := golden(t, kind.String(), now)
			if !bytes.Equal(now, text) {
				t.Errorf("wrote %s\nwant  %s", now, text)
			}
			if got, err := Decode(text); err != nil || !got.Equal(&want) {
				t.Errorf("read %+v, %v\nwant %+v", got, err, want)
			}
		})
	}
	for name, want := range map[string][]Record{"batch": goldenBatch(), "holds": goldenHolds()} {
		t.Run(name, func(t *testing.T) {
			now := AppendBatch(nil, want)
			text := golden(t, name, now)
			if !bytes.Equal(now, text) {
				t.Errorf("wrote %s\nwant  %s", now, text)
			}
			var got []Record
			err := DecodeMessage(BatchContentType, text, func(r Record) error {
				got = append(got, r)
				return nil
			})
			if err != nil || !slices.EqualFunc(got, want, equal) {
				t.Errorf("read %+v, %v\nwant %+v", got, err, want)
			}
		})
	}
	for name, want := range addedFields() {
		t.Run(name, func(t *testing.T) {
			now := Append(nil, want)
			text := golden(t, name, now)
			if got, err := Decode(text); err != nil || !got.Equal(&want) || !bytes.Equal(now, text) {
				t.Errorf("read %+v, %v\nwant %+v\nwrote %s", got, err, want, now)
			}
		})
	}
	t.Run("NoOthers", func(t *testing.T) {
		files, err := filepath.Glob("testdata/v1/*.json")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			name := strings.TrimSuffix(filepath.Base(file), ".json")
			if _, ok := lockagent.ParseEventKind(name); !ok &&
				!slices.Contains([]string{"batch", "holds", "step", "replicas", "several", "who", "user", "resumed"},
					name) {
				t.Errorf("%s is of no kind", file)
			}
		}
	})
}
