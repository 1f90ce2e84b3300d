package events

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lockagent/lockagent"
)

func TestPattern(t *testing.T) {
	for _, test := range []struct {
		pattern string
		fit     []string
		others  []string
	}{
		{"orders/42", []string{"orders/42"}, []string{"orders", "orders/42/x", "orders/43", ""}},
		{
			"orders/*",
			[]string{"orders/42", "orders/", "orders/*", "orders/>"},
			[]string{"orders", "orders/42/x", "x/42"},
		},
		{"orders/>", []string{"orders/42", "orders/42/x", "orders/"}, []string{"orders", "x/orders/42"}},
		{"*/42/>", []string{"orders/42/x", "/42/"}, []string{"orders/42", "42/x"}},
		{"*/42", []string{"orders/42", "bills/42"}, []string{"42", "a/b/42", "orders/43"}},
		{"*", []string{"orders", "*"}, []string{"orders/42", ""}},
		{">", []string{"orders", "orders/42", "/"}, []string{""}},
		{"a b*/>", []string{"a b*/x"}, []string{"a bc/x"}},
		{"a//b", []string{"a//b"}, []string{"a/b", "a/x/b"}},
	} {
		f := Filter{Pattern: test.pattern}
		if err := f.Validate(); err != nil {
			t.Errorf("%q: %v", test.pattern, err)
		}
		for _, name := range test.fit {
			if !f.matches(name) {
				t.Errorf("%q does not fit %q", name, test.pattern)
			}
		}
		for _, name := range test.others {
			if f.matches(name) {
				t.Errorf("%q fits %q", name, test.pattern)
			}
		}
	}
}

// TestSubjectsOfAFilter: the subject of each record that a filter selects is among those of
// the filter, and only among one of them.
func TestSubjectsOfAFilter(t *testing.T) {
	part := rapid.SampledFrom([]string{"a", "b", "", "*", "é", "=", "-", strings.Repeat("long", 150)})
	name := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(part, 1, 20).Draw(t, "parts"), "/")
	})
	pattern := rapid.Custom(func(t *rapid.T) string {
		parts := rapid.SliceOfN(rapid.OneOf(part, rapid.Just("*")), 1, 20).Draw(t, "parts")
		return strings.Join(append(parts, rapid.SampledFrom([][]string{nil, {">"}}).Draw(t, "rest")...), "/")
	})
	agent := rapid.SampledFrom([]lockagent.AgentID{"x", "y", "z"})
	kind := rapid.SampledFrom(lockagent.EventKinds())
	rapid.Check(t, func(t *rapid.T) {
		f := Filter{
			Agents: rapid.SliceOfN(agent, 0, 2).Draw(t, "agents"),
			Kinds:  rapid.SliceOfN(kind, 0, 3).Draw(t, "kinds"),
		}
		// Kinds of which none has consequences are refused.
		f.Urgent = (len(f.Kinds) == 0 || slices.ContainsFunc(f.Kinds, Urgent)) && rapid.Bool().Draw(t, "urgent")
		switch rapid.IntRange(0, 2).Draw(t, "by") {
		case 1:
			f.Lock = lockagent.Name(name.Draw(t, "lock"))
		case 2:
			f.Pattern = pattern.Draw(t, "pattern")
		}
		if err := f.Validate(); err != nil {
			t.Fatal(err)
		}
		subjects := f.Subjects("p.q")
		for i, a := range subjects {
			if len(a) > 1024 {
				t.Fatalf("a subject of %d bytes", len(a))
			}
			for _, b := range subjects[i+1:] {
				if overlap(strings.Split(a, "."), strings.Split(b, ".")) {
					t.Fatalf("%q overlaps %q", a, b)
				}
			}
		}
		r := Record{Event: lockagent.Event{Kind: kind.Draw(t, "kind"), Agent: agent.Draw(t, "agent")}}
		r.Lock = lockagent.Name(
			rapid.OneOf(name, rapid.Just(strings.NewReplacer("*", "a", ">", "b/c").Replace(f.Pattern))).Draw(t, "name"),
		)
		if f.Lock != "" && rapid.Bool().Draw(t, "that lock") {
			r.Lock = f.Lock
		}
		selected := f.selects(&r) && (len(f.Agents) == 0 || slices.Contains(f.Agents, r.Agent))
		subject := strings.Split(string(AppendSubject(nil, "p.q", r.Agent, r.Kind, r.Lock)), ".")
		found := slices.ContainsFunc(subjects, func(s string) bool { return overlap(strings.Split(s, "."), subject) })
		if selected && !found {
			t.Fatalf("%+v selects %v of %q, but %q does not", f, r.Kind, r.Lock, subjects)
		}
	})
}

// overlap reports whether some subject has both forms.
func overlap(a, b []string) bool {
	switch {
	case len(a) == 0 || len(b) == 0:
		return len(a) == len(b)
	case a[0] == ">" || b[0] == ">":
		return true
	case a[0] != b[0] && a[0] != "*" && b[0] != "*":
		return false
	}
	return overlap(a[1:], b[1:])
}

func TestSubjectsOfSomeFilters(t *testing.T) {
	lost, granted := []lockagent.EventKind{lockagent.EventLost}, []lockagent.EventKind{lockagent.EventGranted}
	for name, test := range map[string]struct {
		filter Filter
		want   []string
	}{
		"All":     {Filter{}, []string{"p.>"}},
		"Owner":   {Filter{Owner: "w"}, []string{"p.>"}},
		"Agents":  {Filter{Agents: []lockagent.AgentID{"b", "a", "b"}}, []string{"p.a.*.>", "p.b.*.>"}},
		"Lock":    {Filter{Lock: "a/b"}, []string{"p.*.*.a.b"}},
		"Below":   {Filter{Pattern: "a/>"}, []string{"p.*.*.=-.*", "p.*.*.a.>"}},
		"Parts":   {Filter{Pattern: "a/*/c"}, []string{"p.*.*.=-.*", "p.*.*.a.*.c"}},
		"Lost":    {Filter{Kinds: lost}, []string{"p.*.lost.>"}},
		"Granted": {Filter{Kinds: granted}, []string{"p.*.lock.>"}},
		"Together": {
			Filter{Agents: []lockagent.AgentID{"a"}, Lock: "x", Kinds: append(lost, granted...)},
			[]string{"p.a.lock.x", "p.a.lost.x"},
		},
		"UrgentOf": {Filter{Urgent: true, Kinds: append(lost, granted...)}, []string{"p.*.lost.>"}},
		"Urgent": {Filter{Urgent: true, Lock: "x"}, []string{
			"p.*.agentstarted.x", "p.*.agentstopped.x", "p.*.broken.x", "p.*.dropped.x", "p.*.expired.x",
			"p.*.gracebegan.x", "p.*.graceended.x", "p.*.lost.x",
			"p.*.storereset.x", "p.*.uncertain.x", "p.*.unclaimed.x",
		}},
	} {
		if got := test.filter.Subjects("p"); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

func TestSelection(t *testing.T) {
	held := Record{Event: lockagent.Event{Kind: lockagent.EventHeld, Owner: "w", Lock: "a"}}
	returned := held
	returned.Returned = 1
	for name, test := range map[string]struct {
		filter Filter
		record Record
		want   bool
	}{
		"Granted":      {Filter{Kinds: []lockagent.EventKind{lockagent.EventGranted}}, held, true},
		"Released":     {Filter{Kinds: []lockagent.EventKind{lockagent.EventReleased}}, held, true},
		"Held":         {Filter{Kinds: []lockagent.EventKind{lockagent.EventHeld}}, held, true},
		"NotReturned":  {Filter{Kinds: []lockagent.EventKind{lockagent.EventReturned}}, held, false},
		"Returned":     {Filter{Kinds: []lockagent.EventKind{lockagent.EventReturned}}, returned, true},
		"OtherKind":    {Filter{Kinds: []lockagent.EventKind{lockagent.EventQueued}}, held, false},
		"UnknownKind":  {Filter{Kinds: lockagent.EventKinds()}, Record{}, false},
		"Owner":        {Filter{Owner: "w"}, held, true},
		"OtherOwner":   {Filter{Owner: "v"}, held, false},
		"NotUrgent":    {Filter{Urgent: true}, held, false},
		"Urgent":       {Filter{Urgent: true}, Record{Event: lockagent.Event{Kind: lockagent.EventLost}}, true},
		"OtherLock":    {Filter{Lock: "b"}, held, false},
		"OtherPattern": {Filter{Pattern: "a/>"}, held, false},
	} {
		if got := test.filter.selects(&test.record); got != test.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestBadFilter(t *testing.T) {
	for name, f := range map[string]Filter{
		"Agent":          {Agents: []lockagent.AgentID{"a", "*"}},
		"NoAgent":        {Agents: []lockagent.AgentID{""}},
		"Kind":           {Kinds: []lockagent.EventKind{0}},
		"LockAndPattern": {Lock: "a", Pattern: "b"},
		"Rest":           {Pattern: "a/>/b"},
		"UrgentKinds":    {Urgent: true, Kinds: []lockagent.EventKind{lockagent.EventGranted}},
	} {
		if err := f.Validate(); !errors.Is(err, lockagent.ErrBadOption) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
