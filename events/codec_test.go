package events

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events/internal/eventstest"
)

func TestEncoding(t *testing.T) {
	r := Record{
		Event: lockagent.Event{
			Kind: lockagent.EventGranted, Agent: "host-42",
			Time: time.Date(2026, 11, 21, 2, 3, 4, 5678, time.FixedZone("", 3600)),
			Lock: "orders/42", LockKind: lockagent.PlainLock, Mode: lockagent.Shared, Owner: "w", Token: 7,
			How: lockagent.ByStore, Waited: 1500 * time.Nanosecond, StoreTime: 99, Count: 1,
		},
		Epoch: 2,
		Seq:   5,
	}
	const want = `{"specversion":"1.0","id":"2:5","source":"/lockagent/agent/host-42",` +
		`"type":"io.lockagent.lock.granted.v1","subject":"orders/42","time":"2026-11-21T01:03:04.000005Z",` +
		`"data":{"lock":"orders/42","kind":"plain","mode":"shared","owner":"w","token":7,"how":"store","count":1,` +
		`"waited_us":1,"store_time_us":99}}`
	if got := string(Append(nil, r)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := string(Append([]byte("x"), r)); got != "x"+want {
		t.Errorf("appended %s", got)
	}
}

// equal is [Record.Equal] for package slices.
func equal(a, b Record) bool { return a.Equal(&b) }

func TestRoundTripOfEveryKind(t *testing.T) {
	for _, kind := range lockagent.EventKinds() {
		t.Run(kind.String(), func(t *testing.T) {
			for _, want := range []Record{
				fullRecord(kind),
				{Event: lockagent.Event{Kind: kind, Agent: "a"}, Epoch: 1, Seq: 1},
			} {
				text := Append(nil, want)
				got, err := Decode(text)
				if err != nil || !got.Equal(&want) {
					t.Errorf("%s\ngot  %+v, %v\nwant %+v", text, got, err, want)
				}
			}
		})
	}
}

// TestFullRecordIsFull keeps the tests above honest when a field is added.
func TestFullRecordIsFull(t *testing.T) {
	var check func(name string, v reflect.Value)
	check = func(name string, v reflect.Value) {
		if v.IsZero() {
			t.Errorf("%s is not set", name)
		}
		if v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[time.Time]() &&
			v.Type() != reflect.TypeFor[lockagent.Who]() {
			for i := range v.NumField() {
				check(name+"."+v.Type().Field(i).Name, v.Field(i))
			}
		}
		if v.Type() == reflect.TypeFor[*lockagent.GracePeriod]() {
			check(name, v.Elem())
		}
	}
	r := fullRecord(lockagent.EventGranted)
	// Those that are not part of the encoded event, and what takes the place of all others.
	r.Position, r.Stored, r.Origin, r.Link, r.OtherVersion, r.Raw = 1, r.Time, "host.1", "link", true, "{}"
	check("Record", reflect.ValueOf(r))
	check("Who", reflect.ValueOf(r.Who.Process()))
}

// lossReasons returns every reason there is.
func lossReasons() (all []lockagent.LossReason) {
	for r := lockagent.LossReason(1); r.String() != "unknown"; r++ {
		all = append(all, r)
	}
	return all
}

// TestHeldConfirmedAtItsGrant: most holds were never renewed, and their records say so without a field.
func TestHeldConfirmedAtItsGrant(t *testing.T) {
	for _, k := range []lockagent.EventKind{lockagent.EventHeld, lockagent.EventReleased} {
		for _, renewed := range []bool{false, true} {
			r := fullRecord(k)
			if r.Confirmed = r.StoreTime; renewed {
				r.Confirmed++
			}
			text := Append(nil, r)
			want := renewed || k != lockagent.EventHeld
			if has := bytes.Contains(text, []byte(`"confirmed_us"`)); has != want {
				t.Errorf("%v, renewed %v: %s", k, renewed, text)
			}
			// A program that passes the record on may say it twice.
			twice := fmt.Appendf(nil, `%s,"confirmed_us":%d}}`, bytes.TrimSuffix(text, []byte("}}")), r.Confirmed)
			if has := bytes.Contains(text, []byte(`"confirmed_us"`)); has {
				twice = text
			}
			for _, text := range [][]byte{text, twice} {
				if got, err := Decode(text); err != nil || got.Confirmed != r.Confirmed {
					t.Errorf("%v, renewed %v: confirmed at %d, %v", k, renewed, got.Confirmed, err)
				}
			}
		}
	}
}

func drawWho(t *rapid.T) lockagent.Who {
	text := func(name string) string { return rapid.String().Draw(t, name) }
	return lockagent.Process{
		Host: text("their host"), Program: text("their program"), PID: rapid.Int().Draw(t, "their pid"),
		User: text("their user"), Command: text("their command"),
	}.Who()
}

func drawGrace(t *rapid.T) *lockagent.GracePeriod {
	at := func(name string) lockagent.StoreTime { return lockagent.StoreTime(rapid.Int64().Draw(t, name)) }
	g := &lockagent.GracePeriod{
		Incarnation: rapid.String().Draw(t, "grace of"), Reason: rapid.String().Draw(t, "grace for"),
		Began: at("grace began"),
		Ended: at("grace ended"), More: rapid.Int().Draw(t, "more on the roll"),
	}
	for _, agent := range rapid.SliceOfN(rapid.String(), 0, 3).Draw(t, "roll") {
		g.Roll = append(g.Roll, lockagent.AgentID(agent))
	}
	return g
}

// drawRecord draws any record that can be told exactly and that the schema allows.
func drawRecord(t *rapid.T) Record {
	text := func(name string) string { return rapid.String().Draw(t, name) }
	something := func(name string) string { return rapid.StringN(1, -1, -1).Draw(t, name) }
	us := func(name string) time.Duration {
		return time.Duration(rapid.Int64Range(-9e15, 9e15).Draw(t, name)) * time.Microsecond
	}
	number := func(name string) uint64 { return rapid.Uint64Range(1, math.MaxUint64).Draw(t, name) }
	at := func(name string) lockagent.StoreTime { return lockagent.StoreTime(rapid.Int64().Draw(t, name)) }
	var when time.Time
	if rapid.Bool().Draw(t, "timed") {
		when = time.UnixMicro(rapid.Int64Range(-62167219200e6, 253402300799e6).Draw(t, "time")).UTC()
	}
	r := Record{
		Event: lockagent.Event{
			Kind:     rapid.SampledFrom(lockagent.EventKinds()).Draw(t, "kind"),
			Agent:    lockagent.AgentID(rapid.StringMatching(`[A-Za-z0-9_-]{1,64}`).Draw(t, "agent")),
			Time:     when,
			Store:    text("store"),
			Lock:     lockagent.Name(something("lock")),
			LockKind: lockagent.LockKind(something("lock kind")),
			Mode:     lockagent.Mode(something("mode")),
			Owner:    lockagent.Owner(something("owner")),
			Request:  number("request"),
			Tenure:   number("tenure"),
			Token:    lockagent.Token(rapid.Uint64Range(1, uint64(lockagent.MaxToken)).Draw(t, "token")),
			How: rapid.SampledFrom([]lockagent.How{lockagent.ByStore, lockagent.ByHandOff, lockagent.ByRest}).
				Draw(t, "how"),
			Count:       rapid.IntRange(0, math.MaxInt).Draw(t, "count"),
			Sum:         rapid.Uint64().Draw(t, "sum"),
			Permits:     rapid.Int().Draw(t, "permits"),
			Total:       rapid.Int().Draw(t, "total"),
			Op:          lockagent.PermitsOp(something("op")),
			Permit:      lockagent.PermitID(text("permit")),
			Replicas:    rapid.IntRange(0, math.MaxInt).Draw(t, "replicas"),
			Holds:       rapid.IntRange(0, math.MaxInt).Draw(t, "holds"),
			Waiters:     rapid.IntRange(0, math.MaxInt).Draw(t, "waiters"),
			Waited:      us("waited"),
			Held:        us("held"),
			Lease:       us("lease"),
			Fixed:       rapid.Bool().Draw(t, "fixed"),
			Remaining:   us("remaining"),
			StoreTime:   at("store time"),
			Until:       at("until"),
			Confirmed:   at("confirmed"),
			Returned:    at("returned"),
			Incarnation: text("incarnation"),
			Holder:      text("holder"),
			Operator:    text("operator"),
			Reason:      rapid.SampledFrom(lossReasons()).Draw(t, "reason"),
			Err:         text("err"),
			Reset: lockagent.Reset{
				From: text("from"), To: text("to"), Reason: something("why"), After: at("after"), Before: at("before"),
				Store: text("reset store"),
				Step:  us("step"),
			},
			Process: lockagent.Process{
				Host: text("host"), Program: text("program"), Version: text("version"),
				PID: rapid.IntRange(1, math.MaxInt).Draw(t, "pid"), User: text("user"), Command: text("command"),
			},
			Grace:       drawGrace(t),
			Who:         drawWho(t),
			TraceParent: text("traceparent"),
		},
		Epoch:   rapid.Uint64Range(1, MaxEpoch).Draw(t, "epoch"),
		Seq:     rapid.Uint64Range(1, MaxSeq).Draw(t, "seq"),
		Follows: Place{Epoch: number("follows epoch"), Seq: number("follows seq")},
	}
	for _, k := range lockagent.EventKinds() {
		r.Dropped[k] = rapid.Uint32().Draw(t, "dropped")
	}
	r.Dropped[1]++
	r.imply()
	return r
}

func TestRoundTripOfAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawRecord(t)
		text := Append(nil, want)
		if !json.Valid(text) || strings.ContainsAny(string(text), "\n\r") {
			t.Fatalf("not one line of JSON: %s", text)
		}
		got, err := Decode(text)
		if err != nil || !got.Equal(&want) {
			t.Fatalf("%s\ngot  %+v, %v\nwant %+v", text, got, err, want)
		}
	})
}

// TestEqual changes each field of a grace period. What a pointer points to counts, and not where it points.
func TestEqual(t *testing.T) {
	for name, change := range map[string]func(*lockagent.GracePeriod){
		"Incarnation": func(g *lockagent.GracePeriod) { g.Incarnation += "x" },
		"Reason":      func(g *lockagent.GracePeriod) { g.Reason += "x" },
		"Began":       func(g *lockagent.GracePeriod) { g.Began++ },
		"Ended":       func(g *lockagent.GracePeriod) { g.Ended++ },
		"Roll":        func(g *lockagent.GracePeriod) { g.Roll = g.Roll[1:] },
		"More":        func(g *lockagent.GracePeriod) { g.More++ },
	} {
		one, two := fullRecord(lockagent.EventGraceBegan), fullRecord(lockagent.EventGraceBegan)
		if one == two || !one.Equal(&two) {
			t.Fatalf("%+v\nis another record than\n%+v", one, two)
		}
		if change(two.Grace); one.Equal(&two) {
			t.Errorf("another %s makes no other record", name)
		}
		if two.Grace = nil; one.Equal(&two) || two.Equal(&one) || !two.Equal(&two) {
			t.Errorf("%s: a record without a grace period is equal to one with it", name)
		}
	}
	one, two := fullRecord(lockagent.EventGranted), fullRecord(lockagent.EventGranted)
	if two.Count++; one.Equal(&two) {
		t.Error("another count makes no other record")
	}
}

func TestTextThatIsNotUTF8(t *testing.T) {
	r := fullRecord(lockagent.EventLost)
	r.Err = "a\xffb\xc3"
	got, err := Decode(Append(nil, r))
	if err != nil || got.Err != "a\ufffdb\ufffd" {
		t.Errorf("got %q, %v", got.Err, err)
	}
}

func TestTimesThatHaveNoText(t *testing.T) {
	for _, when := range []time.Time{
		{}, time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC),
	} {
		r := fullRecord(lockagent.EventLost)
		r.Time = when
		got, err := Decode(Append(nil, r))
		if err != nil || !got.Time.IsZero() {
			t.Errorf("%v: got %v, %v", when, got.Time, err)
		}
	}
}

func TestSubjectIsLeftOutIfNotAllowed(t *testing.T) {
	for name, want := range map[lockagent.Name]bool{
		"a": true, "a b": true, "é/ü": true, "\U0001f600": true,
		"": false, " ": false, "a\n": false, "\x7f": false, "\u0085": false, "\ufdd0": false, "\ufffe": false,
		"\U0010ffff": false,
	} {
		r := Record{Event: lockagent.Event{Kind: lockagent.EventQueued, Agent: "a", Lock: name}, Epoch: 1, Seq: 1}
		text := Append(nil, r)
		if got := strings.Contains(string(text), `"subject":`); got != want {
			t.Errorf("%q: %s", name, text)
		}
		if got, err := Decode(text); err != nil || got != r {
			t.Errorf("%q: got %+v, %v", name, got, err)
		}
	}
}

func TestAppendAllocatesNothing(t *testing.T) {
	r := fullRecord(lockagent.EventGranted)
	b := Append(nil, r)
	if n := testing.AllocsPerRun(100, func() { b = Append(b[:0], r) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// fullRecord has every field set, whatever its kind.
func fullRecord(kind lockagent.EventKind) Record {
	r := Record{Event: eventstest.Full(kind), Epoch: 3, Seq: 9, Follows: Place{Epoch: 2, Seq: 26}}
	for _, k := range lockagent.EventKinds() {
		r.Dropped[k] = uint32(k)
	}
	return r
}
