package events

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// TestFactKeepsAll sets one field of an event after the other, and both alone and beside all others.
func TestFactKeepsAll(t *testing.T) {
	full := fullRecord(lockagent.EventGranted).Event
	typ := reflect.TypeFor[lockagent.Event]()
	for i := range typ.NumField() {
		name := typ.Field(i).Name
		value := reflect.ValueOf(full).Field(i)
		switch name {
		case "Agent", "Link":
			continue // the log has no Link, and the packer knows the agent
		}
		if value.IsZero() {
			t.Fatalf("the full record has no %s", name)
		}
		var alone lockagent.Event
		reflect.ValueOf(&alone).Elem().Field(i).Set(value)
		var f fact
		var got lockagent.Event
		f.set(&alone, nil)
		if f.event(&got); got != alone {
			t.Errorf("%s: got %+v", name, got)
		}
		// A fact like this one has the same names, or others.
		all := full
		all.Agent = ""
		var second fact
		second.set(&all, &f)
		if second.event(&got); got != all {
			t.Errorf("all, behind %s: got %+v", name, got)
		}
		second.set(&alone, &second)
		if second.event(&got); got != alone {
			t.Errorf("%s, behind all: got %+v", name, got)
		}
		second.set(&all, nil)
		reflect.ValueOf(&all).Elem().Field(i).SetZero()
		second.set(&all, &second)
		if second.event(&got); got != all {
			t.Errorf("all but %s, behind all: got %+v", name, got)
		}
	}
}

// TestSize makes batches with the largest numbers, and texts whose bytes take six.
func TestSize(t *testing.T) {
	const most = math.MaxInt64
	agent := lockagent.AgentID(strings.Repeat("a", 64))
	p := newPacker(agent, most, "lockagent.v1")
	for _, k := range lockagent.EventKinds() {
		if Urgent(k) || k == lockagent.EventAlive {
			continue // is in no batch
		}
		for _, text := range []string{"", "\x01", "\x01\x01\x01\x01\x01\x01\x01", strings.Repeat("\x01", 100)} {
			e := lockagent.Event{
				Kind: k, Time: time.Unix(lastSecond, 999_999_999), Store: text, Lock: lockagent.Name(text), LockKind: lockagent.LockKind(text),
				Mode: lockagent.Mode(text), Owner: lockagent.Owner(text), Request: most, Tenure: most, Token: most, How: lockagent.ByHandOff,
				Count: most, Permits: most, Total: most, Replicas: most, Holds: most, Op: lockagent.PermitsOp(text), Permit: lockagent.PermitID(text), Waiters: most, Waited: math.MinInt64, Held: math.MinInt64, Lease: math.MinInt64, Fixed: true, Remaining: math.MinInt64,
				StoreTime: math.MinInt64, Until: math.MinInt64, Confirmed: math.MinInt64 + 1, Returned: math.MinInt64, Incarnation: text,
				Holder: text, Operator: text, Reason: lockagent.LostUnclaimed, Err: text, TraceParent: text,
			}
			p.last = math.MaxUint64 - 2*maxBatch
			all := slices.Repeat([]lockagent.Event{e}, maxBatch)
			m := p.pack(itemsOf(all...), Drops{}, 0, time.Time{})[0]
			if bytes := len(p.encode(nil, m)); bytes > 2*m.size || bytes > 2*maxBatchBytes {
				t.Errorf("%v with texts of %d bytes: %d bytes for %d records, and the size is said to be %d", k, len(text), bytes, len(m.items), m.size)
			}
		}
	}
}

// TestFactsShareNames: the names of a lock lie in memory once.
func TestFactsShareNames(t *testing.T) {
	e := fullRecord(lockagent.EventGranted).Event
	var first, second, third fact
	first.set(&e, nil)
	e.Token++
	second.set(&e, &first)
	e.Mode = lockagent.Shared
	third.set(&e, &second)
	if first.common != second.common || second.common == third.common || second.common.Mode == third.common.Mode {
		t.Errorf("%+v, %+v, %+v", *first.common, *second.common, *third.common)
	}
}
