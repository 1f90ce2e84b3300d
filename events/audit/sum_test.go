package audit

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/internal/logtest"
)

// asOne reports whether a test takes a field as a whole.
func asOne(v reflect.Value) bool {
	return v.Type() == reflect.TypeFor[time.Time]() || v.Type() == reflect.TypeFor[lockagent.Who]()
}

// TestSumSeesEachField clears each field of a record: its sum must change, but for the fields
// that are the identity of the record or are not in the log.
func TestSumSeesEachField(t *testing.T) {
	r := logtest.FullRecord(lockagent.EventGranted)
	r.Position, r.Stored, r.Link, r.OtherVersion, r.Raw = 1, r.Time, "link", true, "{}"
	was := sum(&r)
	var check func(name string, v reflect.Value)
	check = func(name string, v reflect.Value) {
		if v.Kind() == reflect.Struct && !asOne(v) {
			for i := range v.NumField() {
				check(name+"."+v.Type().Field(i).Name, v.Field(i))
			}
			return
		}
		before := reflect.New(v.Type()).Elem()
		before.Set(v)
		v.SetZero()
		// Raw says the last one, too
		same := slices.Contains([]string{
			".Event.Agent", ".Event.Link", ".Epoch", ".Seq", ".Position", ".Stored", ".Origin", ".OtherVersion",
		}, name)
		if (sum(&r) == was) != same {
			t.Errorf("%s: the sum is the same: %v", name, !same)
		}
		v.Set(before)
	}
	check("", reflect.ValueOf(&r).Elem())
	if sum(&r) != was {
		t.Error("the record has changed")
	}
}

// TestSumSeesOneField sets each field of an empty record alone.
func TestSumSeesOneField(t *testing.T) {
	full := logtest.FullRecord(lockagent.EventGranted)
	full.Raw = "{}"
	var r events.Record
	empty := sum(&r)
	seen := map[uint32]string{empty: "nothing"}
	alone := func(name string, field, value reflect.Value) {
		field.Set(value)
		if s := sum(&r); seen[s] != "" {
			t.Errorf("%s has the sum of %s", name, seen[s])
		} else {
			seen[s] = name
		}
		field.SetZero()
	}
	var each func(name string, field, value reflect.Value)
	each = func(name string, field, value reflect.Value) {
		switch {
		case slices.Contains([]string{
			".Event.Agent", ".Event.Link", ".Epoch", ".Seq", ".Position", ".Stored", ".Origin", ".OtherVersion",
		}, name):
		case field.Kind() == reflect.Struct && !asOne(field):
			for i := range field.NumField() {
				each(name+"."+field.Type().Field(i).Name, field.Field(i), value.Field(i))
			}
		case field.Kind() == reflect.Array:
			for i := range field.Len() {
				alone(fmt.Sprint(name, i), field.Index(i), reflect.ValueOf(uint32(7)))
			}
		default:
			alone(name, field, value)
		}
	}
	each("", reflect.ValueOf(&r).Elem(), reflect.ValueOf(full))
}

// TestSumOfTexts: neither the length of a text nor where it ends is taken for a part of it.
func TestSumOfTexts(t *testing.T) {
	seen := make(map[uint32]string)
	for _, owner := range []string{
		"", "a", "\x01", "\x00", "\x00\x00", "abcdefg", "abcdefg\x0f", "abcdefg\x00", "abcdefgh", "abcdefgi\x00",
		"abcdefgh\x00",
		"abcdefghijklmnop", "abcdefghijklmnop\x00", "abcdefghijklmno\x00", "abcdefghijklmno", "abcdefghijklmnopq",
	} {
		r := events.Record{Event: lockagent.Event{Owner: lockagent.Owner(owner)}}
		if s := sum(&r); seen[s] != "" {
			t.Errorf("%q has the sum of %q", owner, seen[s])
		} else {
			seen[s] = fmt.Sprintf("%q", owner)
		}
	}
}

// TestSumSeesWho changes each field of who asked for the lock.
func TestSumSeesWho(t *testing.T) {
	full := logtest.FullRecord(lockagent.EventGranted).Who.Process()
	seen := make(map[uint32]string)
	see := func(name string, p lockagent.Process) {
		r := events.Record{Event: lockagent.Event{Who: p.Who()}}
		if s := sum(&r); seen[s] != "" {
			t.Errorf("%s has the sum of %s", name, seen[s])
		} else {
			seen[s] = name
		}
	}
	see("nothing", lockagent.Process{})
	see("all", full)
	for i := range reflect.ValueOf(full).NumField() {
		p := full
		reflect.ValueOf(&p).Elem().Field(i).SetZero()
		see("all without "+reflect.TypeOf(full).Field(i).Name, p)
		p = lockagent.Process{}
		reflect.ValueOf(&p).Elem().Field(i).Set(reflect.ValueOf(full).Field(i))
		see(reflect.TypeOf(full).Field(i).Name, p)
	}
}

// TestSumSeesGrace changes each field of a grace period, and the order of its agents.
func TestSumSeesGrace(t *testing.T) {
	seen := make(map[uint32]string)
	for name, change := range map[string]func(*lockagent.GracePeriod){
		"all":         func(*lockagent.GracePeriod) {},
		"Incarnation": func(g *lockagent.GracePeriod) { g.Incarnation += "x" },
		"Reason":      func(g *lockagent.GracePeriod) { g.Reason += "x" },
		"Began":       func(g *lockagent.GracePeriod) { g.Began++ },
		"Ended":       func(g *lockagent.GracePeriod) { g.Ended++ },
		"Roll":        func(g *lockagent.GracePeriod) { g.Roll = g.Roll[1:] },
		"Order":       func(g *lockagent.GracePeriod) { slices.Reverse(g.Roll) },
		"More":        func(g *lockagent.GracePeriod) { g.More++ },
		"nothing":     func(g *lockagent.GracePeriod) { *g = lockagent.GracePeriod{} },
	} {
		r := logtest.FullRecord(lockagent.EventGraceBegan)
		change(r.Grace)
		if s := sum(&r); seen[s] != "" {
			t.Errorf("%s has the sum of %s", name, seen[s])
		} else {
			seen[s] = name
		}
	}
}
