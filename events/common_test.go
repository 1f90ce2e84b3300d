package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lockagent/lockagent"
)

// decodeAll decodes texts one after the other with one decoder, which remembers what it has seen.
func decodeAll(texts [][]byte, one func(*decoder, []Record) []Record) (all [][]Record, errs []error) {
	d := newDecoder()
	for _, text := range texts {
		d.scanner = scanner{text: text}
		records := one(d, nil)
		d.end()
		err := d.failure()
		if err != nil {
			records = nil
		}
		all, errs = append(all, records), append(errs, err)
	}
	return all, errs
}

// checkBothWays decodes texts with and without the short cut for common events.
func checkBothWays(t interface{ Errorf(string, ...any) }, texts ...[]byte) {
	got, errs := decodeAll(texts, (*decoder).event)
	want, wantErrs := decodeAll(texts, (*decoder).general)
	for i := range texts {
		if !slices.Equal(got[i], want[i]) || (errs[i] == nil) != (wantErrs[i] == nil) || errors.Is(errs[i], errUncommon) ||
			errs[i] != nil && errs[i].Error() != wantErrs[i].Error() {
			t.Errorf("%s\ngot  %+v, %v\nwant %+v, %v", texts[i], got[i], errs[i], want[i], wantErrs[i])
		}
	}
}

// commonRecord draws a record that needs no other decoder.
func commonRecord(t *rapid.T) Record {
	r := drawRecord(t)
	r.Reset, r.Process, r.Follows, r.Dropped = lockagent.Reset{}, lockagent.Process{}, Place{}, Drops{}
	r.Operator, r.Err, r.Store, r.Op, r.Permit = "", "", "store", "", ""
	// Each field may be missing.
	for _, field := range []func(){
		func() { r.Lock = "" }, func() { r.LockKind = "" }, func() { r.Mode = "" }, func() { r.Owner = "" },
		func() { r.Request = 0 }, func() { r.Tenure = 0 }, func() { r.Token = 0 }, func() { r.How = 0 },
		func() { r.Count = 0 }, func() { r.Permits = 0 }, func() { r.Total = 0 }, func() { r.Replicas = 0 }, func() { r.Holds = 0 }, func() { r.Waiters = 0 }, func() { r.Waited = 0 }, func() { r.Held = 0 },
		func() { r.Lease = 0 }, func() { r.Remaining = 0 }, func() { r.StoreTime = 0 }, func() { r.Confirmed = 0 },
		func() { r.Until = 0 }, func() { r.Returned = 0 }, func() { r.Reason = 0 }, func() { r.TraceParent = "" },
		func() { r.Time = time.Time{} },
	} {
		if rapid.Bool().Draw(t, "missing") {
			field()
		}
	}
	r.imply()
	return r
}

// TestCommonEvents holds the short cut against what was encoded: it must take all common events.
func TestCommonEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newDecoder()
		for _, want := range rapid.SliceOfN(rapid.Custom(commonRecord), 1, 4).Draw(t, "records") {
			d.scanner = scanner{text: Append(nil, want)}
			if got, ok := d.common(nil); !ok || got[0] != want {
				t.Fatalf("got  %+v\nwant %+v", got, want)
			}
		}
	})
}

// TestAgentsInTurn: an event that needs the long way does not change what the short cut takes for the agent.
func TestAgentsInTurn(t *testing.T) {
	common := Append(nil, typicalRecord(9))
	other := []byte(`{"source":"/lockagent/agent/other","specversion":"1.0","id":"1:1","type":"io.lockagent.agent.alive.v1","data":{}}`)
	checkBothWays(t, common, other, common, other)
}

// TestBothWays changes one byte of common events: both ways of decoding must agree about them.
func TestBothWays(t *testing.T) {
	var golden [][]byte
	for _, kind := range lockagent.EventKinds() {
		golden = append(golden, Append(nil, goldenRecord(kind)))
	}
	checkBothWays(t, golden...)
	typical := string(Append(nil, typicalRecord(9)))
	for _, change := range [][2]string{
		{`"handoff"`, `"magic"`},
		{`"incarnation"`, `"reason":"bored","incarnation"`},
		{`,"count":0`, ``},
		{`"subject":"billing`, `"subject":"shipping`},
		{`"id":"3:`, `"id":"10000000000:`},
		{`"id":"3:9"`, `"id":"3:10000000000000000"`},
		{`"id":"3:9"`, `"id":"3:09"`},
		{`T02:03:04.`, `T02:03:60.`},
		{`"waited_us":150`, `"waited_us":9223372036854775807`},
		{`"request":9`, `"request":99999999999999999999`},
		{`"request":9`, `"request":1.8446744073709551616e19`},
		{`"request":9`, `"request":18446744073709551615`},
	} {
		changed := strings.Replace(typical, change[0], change[1], 1)
		if changed == typical {
			t.Fatalf("%q is not in %s", change[0], typical)
		}
		checkBothWays(t, []byte(typical), []byte(changed), []byte(typical))
	}
	rapid.Check(t, func(t *rapid.T) {
		text := Append(nil, commonRecord(t))
		bad := append([]byte(nil), text...)
		i := rapid.IntRange(0, len(bad)-1).Draw(t, "at")
		bad[i] = rapid.SampledFrom([]byte("\x00\n \"\\,:{}[]0159-.enatz\xff")).Draw(t, "byte")
		checkBothWays(t, text, bad, text)
		cut := rapid.IntRange(i, len(bad)).Draw(t, "cut")
		checkBothWays(t, text, append(append([]byte(nil), text[:i]...), text[cut:]...), text)
	})
}

// FuzzBothWays holds both ways of decoding against each other, and against encoding/json.
func FuzzBothWays(f *testing.F) {
	for _, kind := range lockagent.EventKinds() {
		f.Add(Append(nil, goldenRecord(kind)), Append(nil, typicalRecord(uint64(kind))))
	}
	// Empty texts, before there was any.
	f.Add([]byte(`{"specversion":"1.0","id":"1:1","source":"","type":"io.lockagent.lock.held.v1","data":{"store":"","count":0}}`),
		[]byte(`{"specversion":"1.0","id":"1:1","source":"/lockagent/agent/a","type":"","data":{"store":"","count":0}}`))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		checkBothWays(t, first, second, first)
		var r Record
		if err := newDecoder().decode(second, &r); err == nil && r.Raw == "" {
			checkMeaning(t, second, &r)
		}
	})
}

// checkMeaning holds a record against what encoding/json finds in its text.
func checkMeaning(t *testing.T, text []byte, r *Record) {
	found, told := plainJSON(t, text), plainJSON(t, Append(nil, *r))
	for _, name := range []string{"specversion", "id", "source", "type", "traceparent"} {
		if a, b := found[name], told[name]; a != b && !(a == nil || a == "") {
			t.Errorf("%s: %s is %v, but was taken for %v", text, name, a, b)
		}
	}
	data, _ := found["data"].(map[string]any)
	again, _ := told["data"].(map[string]any)
	for _, name := range fieldNames.plain[:fieldReset] {
		if a, b := data[name], again[name]; !sameJSON(a, b) {
			t.Errorf("%s: %s is %v, but was taken for %v", text, name, a, b)
		}
	}
}

func plainJSON(t *testing.T, text []byte) (values map[string]any) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&values); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return values
}

// sameJSON reports whether two plain values are the same, or both zero.
func sameJSON(a, b any) bool {
	number := func(v any) *big.Rat {
		n, ok := v.(json.Number)
		if !ok {
			return nil
		}
		rat, _ := new(big.Rat).SetString(string(n))
		return rat
	}
	if x, y := number(a), number(b); x != nil && y != nil {
		return x.Cmp(y) == 0
	} else if x != nil || y != nil {
		return (x == nil || x.Sign() == 0) && (y == nil || y.Sign() == 0) && (a == nil || b == nil)
	}
	empty := func(v any) bool { return v == nil || v == "" || v == false }
	return a == b || empty(a) && empty(b)
}
