package events

import (
	"reflect"
	"testing"

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
