package lockstate

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/lockagent/lockagent"
)

// Small worlds have few requests. They are to find them by their ids all the same.
func init() { fewRequests = 1 }

// clone is a deep copy.
func (t table) clone() table {
	t.slots, t.ids, t.sessions = slices.Clone(t.slots), maps.Clone(t.ids), maps.Clone(t.sessions)
	t.reentering, t.byEnd, t.byLease = slices.Clone(t.reentering), slices.Clone(t.byEnd), slices.Clone(t.byLease)
	return t
}

// idsOf are the requests of a list, from the first one. The links back have to agree.
func (t *table) idsOf(l list, k thread) (there []RequestID, problem string) {
	var back []RequestID
	t.walk(l.first, k, func(x *slot) bool {
		there = append(there, x.ID)
		return len(there) <= len(t.slots)
	})
	t.walkBack(l.last, k, func(x *slot) bool {
		back = append(back, x.ID)
		return len(back) <= len(t.slots)
	})
	slices.Reverse(back)
	if !slices.Equal(there, back) || len(there) != l.len() {
		return nil, fmt.Sprintf("list %d has %v one way and %v the other, and counts %d", k, there, back, l.n)
	}
	return there, ""
}

// wrong compares a table with the plain lists of the requests that wait, and of the grants. It is empty if nothing is
// wrong.
func (t *table) wrong() string {
	if t.len() == 0 && len(t.ids)+len(t.sessions)+len(t.reentering)+len(t.byEnd)+len(t.byLease) == 0 &&
		t.tries == (list{}) && t.writers == 0 && t.exclusive == 0 && t.kept == 0 && t.unclaimed == 0 {
		return "" // most often, and the worlds are many
	}
	waiting, problem := t.idsOf(t.waiting, ofAll)
	if problem != "" {
		return problem
	}
	held, problem := t.idsOf(t.held, ofAll)
	if problem != "" {
		return problem
	}
	sessions := make(map[lockagent.Owner][2][]RequestID)
	var tries []RequestID
	var fixed []*slot
	var writers, exclusive, kept int32
	var unclaimed slotID
	for i, id := range slices.Concat(waiting, held) {
		x := t.find(id)
		if x == nil || x.held != (i >= len(waiting)) {
			return fmt.Sprintf("request %d is %+v", id, x)
		}
		if x.Session {
			of := sessions[x.Owner]
			if x.held {
				of[1] = append(of[1], id)
			} else {
				of[0] = append(of[0], id)
			}
			sessions[x.Owner] = of
		}
		switch {
		case x.held && x.fixed != 0:
			fixed = append(fixed, x)
		case x.held:
			kept++
		case x.Try:
			tries = append(tries, id)
		}
		switch {
		case x.Mode != Exclusive:
		case x.held:
			exclusive++
		default:
			writers++
		}
		if x.held && x.claimBy != 0 && unclaimed == 0 {
			unclaimed = x.id
		}
	}
	if !slices.IsSorted(waiting) {
		return fmt.Sprintf("%v wait, out of turn", waiting)
	}
	if got, problem := t.idsOf(t.tries, ofTries); problem != "" || !slices.Equal(got, tries) {
		return fmt.Sprintf("%v do not wait for the lock, want %v; %s", got, tries, problem)
	}
	if writers != t.writers {
		return fmt.Sprintf("%d requests that wait are exclusive, and the count is %d", writers, t.writers)
	}
	if exclusive != t.exclusive || kept != t.kept || unclaimed != t.unclaimed {
		return fmt.Sprintf("%d grants are exclusive, %d kept and slot %d is not claimed, but the counts are %d, %d, %d",
			exclusive, kept, unclaimed, t.exclusive, t.kept, t.unclaimed)
	}
	var both []lockagent.Owner
	for o, of := range sessions {
		got := t.sessions[o]
		waiting, problem := t.idsOf(got.waiting, ofSession)
		held, more := t.idsOf(got.held, ofSession)
		if problem+more != "" || !slices.Equal(waiting, of[0]) || !slices.Equal(held, of[1]) {
			return fmt.Sprintf("session %s waits %v and holds %v, want %v; %s%s", o, waiting, held, of, problem, more)
		}
		if len(of[0]) > 0 && len(of[1]) > 0 {
			both = append(both, o)
		}
	}
	if got := slices.Sorted(slices.Values(t.reentering)); len(t.sessions) != len(sessions) ||
		!slices.Equal(got, slices.Sorted(slices.Values(both))) {
		return fmt.Sprintf("knows sessions %v, of which %v hold and wait, want %v, %v", t.sessions, got, sessions, both)
	}
	for _, sorted := range []struct {
		got     []slotID
		compare func(x, y *slot) int
	}{{t.byEnd, compareEnds}, {t.byLease, compareLeases}} {
		slices.SortFunc(fixed, sorted.compare)
		if !slices.EqualFunc(sorted.got, fixed, func(i slotID, x *slot) bool { return i == x.id }) {
			return fmt.Sprintf("the fixed leases are %v, want %v", sorted.got, fixed)
		}
	}
	spare := 0
	for x := t.at(t.spare); x != nil; x = t.at(x.links[ofAll].after) {
		if *x != (slot{id: x.id, links: x.links}) {
			return fmt.Sprintf("a slot without a request has %+v", *x)
		}
		spare++
	}
	if spare+t.len() != len(t.slots) || t.ids != nil && len(t.ids) != t.len() {
		return fmt.Sprintf("of %d slots %d are free, %d have requests, and %d ids are known",
			len(t.slots), spare, t.len(), len(t.ids))
	}
	return ""
}

// The table is compared with two slices, which have nothing that could disagree.
func TestTableIsTwoListsOfRequests(t *testing.T) {
	for _, few := range []int{1, 8} {
		t.Run(fmt.Sprint("few are ", few), func(t *testing.T) {
			defer func(few int) { fewRequests = few }(fewRequests)
			fewRequests = few
			rapid.Check(t, anyTable)
		})
	}
}

func anyTable(t *rapid.T) {
	var of table
	var waiting, held []slot
	next := RequestID(0)
	some := func(t *rapid.T, among []slot) int {
		if len(among) == 0 {
			t.Skip("there is no request for this action, so another one is drawn")
		}
		return rapid.IntRange(0, len(among)-1).Draw(t, "which")
	}
	many := rapid.SampledFrom([]int{1, 1, 3, 50})
	grantOne := func(t *rapid.T, i int) {
		x := &waiting[i]
		x.held, x.queued = true, false
		x.claimBy = Instant(rapid.IntRange(0, 1).Draw(t, "unclaimed"))
		if x.Lease = 0; rapid.Bool().Draw(t, "fixed") {
			x.Lease, x.fixed = someSpan.Draw(t, "lease"), Instant(someSpan.Draw(t, "end"))
		}
		got := of.findWaiter(x.ID)
		got.Lease = x.Lease
		of.grant(got, x.grant)
		held = append(held, *x)
		waiting = slices.Delete(waiting, i, i+1)
	}
	remove := func(list *[]slot, i int) {
		of.remove(of.find((*list)[i].ID))
		*list = slices.Delete(*list, i, i+1)
	}
	t.Repeat(map[string]func(*rapid.T){
		"arrive": func(t *rapid.T) {
			for range many.Draw(t, "many") {
				next += RequestID(rapid.IntRange(1, 3).Draw(t, "gap"))
				r := Request{
					ID: next, Owner: someOwner.Draw(t, "owner"), Mode: Mode(rapid.IntRange(0, 1).Draw(t, "mode")),
					Try: rapid.Bool().Draw(t, "try"), Session: rapid.Bool().Draw(t, "session"),
				}
				if !r.Session {
					r.Owner = alone(r.Owner, next)
				}
				of.arrive(r)
				waiting = append(waiting, slot{Request: r})
			}
		},
		"queued": func(t *rapid.T) {
			i := some(t, waiting)
			waiting[i].queued = true
			of.find(waiting[i].ID).queued = true
		},
		"grant": func(t *rapid.T) { grantOne(t, some(t, waiting)) },
		"grantMany": func(t *rapid.T) {
			for range min(len(waiting), many.Draw(t, "many")) {
				grantOne(t, 0)
			}
		},
		"removeWaiter": func(t *rapid.T) { remove(&waiting, some(t, waiting)) },
		"removeGrant":  func(t *rapid.T) { remove(&held, some(t, held)) },
		"removeMany": func(t *rapid.T) {
			for range rapid.SampledFrom([]int{5, 40, 1000}).Draw(t, "many") {
				switch {
				case len(waiting) > 0:
					remove(&waiting, 0)
				case len(held) > 0:
					remove(&held, 0)
				}
			}
		},
		"claimed": func(t *rapid.T) {
			i := some(t, held)
			held[i].claimBy = 0
			of.claimed(of.find(held[i].ID))
		},
		"extend": func(t *rapid.T) {
			if x := &held[some(t, held)]; x.fixed != 0 {
				x.fixed, x.own = Instant(rapid.SampledFrom([]int{0, 7, 8}).Draw(t, "end")), 9
				of.extend(of.find(x.ID), x.fixed, x.own)
			}
		},
		"forgetGrants": func(t *rapid.T) {
			if rapid.IntRange(0, 9).Draw(t, "sure") == 0 {
				of.forgetGrants()
				held = nil
			}
		},
		"trim": func(*rapid.T) { of.trim() },
		"": func(t *rapid.T) {
			if problem := of.wrong(); problem != "" {
				t.Fatal(problem)
			}
			compareTable(t, &of, waiting, held)
			if cap(of.slots) > retainedSlots && of.len() <= cap(of.slots)/4 {
				t.Fatalf("room for %d, of %d requests", cap(of.slots), of.len())
			}
		},
	})
}

// compareTable compares what a table tells with the plain lists.
func compareTable(t *rapid.T, of *table, waiting, held []slot) {
	id := func(x *slot) RequestID {
		if x == nil {
			return 0
		}
		return x.ID
	}
	first := func(list []slot, match func(*slot) bool) RequestID {
		for i := range list {
			if match(&list[i]) {
				return list[i].ID
			}
		}
		return 0
	}
	all := func(*slot) bool { return true }
	backward := slices.Clone(held)
	slices.Reverse(backward)
	for what, c := range map[string][2]RequestID{
		"head":      {id(of.head()), first(waiting, all)},
		"first try": {id(of.firstTry()), first(waiting, func(x *slot) bool { return x.Try })},
		"oldest":    {id(of.oldest()), first(held, all)},
		"youngest":  {id(of.youngest()), first(backward, all)},
		"unclaimed": {id(of.firstUnclaimed()), first(held, func(x *slot) bool { return x.claimBy != 0 })},
		"no such":   {id(of.find(0)), 0},
	} {
		if c[0] != c[1] {
			t.Fatalf("%s is %d, want %d", what, c[0], c[1])
		}
	}
	if len(waiting) > 0 && of.last() != waiting[len(waiting)-1].ID || len(waiting) == 0 && of.last() != 0 {
		t.Fatalf("last is %d", of.last())
	}
	same := func(got *slot, want *slot) bool {
		return got != nil && got.Request == want.Request && got.grant == want.grant &&
			got.queued == want.queued && got.held == want.held
	}
	i := 0
	for x := range of.waiters {
		if !same(x, &waiting[i]) || of.findWaiter(x.ID) != x || of.findGrant(x.ID) != nil {
			t.Fatalf("%+v waits, want %+v", x, waiting[i])
		}
		i++
	}
	j := 0
	for x := range of.grants {
		if !same(x, &held[j]) || of.findGrant(x.ID) != x || of.findWaiter(x.ID) != nil {
			t.Fatalf("%+v holds, want %+v", x, held[j])
		}
		j++
	}
	if i != len(waiting) || j != len(held) {
		t.Fatalf("%d wait and %d hold, want %d, %d", i, j, len(waiting), len(held))
	}
	ids := func(list []slot, match func(*slot) bool) (ids []RequestID) {
		for i := range list {
			if match(&list[i]) {
				ids = append(ids, list[i].ID)
			}
		}
		return ids
	}
	for _, o := range append(ownersOf(held), ownersOf(waiting)...) {
		its := func(x *slot) bool { return x.Owner == o }
		var waits, holds []RequestID
		of.waitersOf(o, func(x *slot) bool {
			waits = append(waits, x.ID)
			return true
		})
		of.grantsOf(o, func(x *slot) bool {
			holds = append(holds, x.ID)
			return true
		})
		if want := ids(waiting, its); !slices.Equal(waits, want) || of.waits(o) != (len(want) > 0) {
			t.Fatalf("%s waits with %v, want %v", o, waits, want)
		}
		if want := ids(backward, its); !slices.Equal(holds, want) || of.holds(o) != (len(want) > 0) {
			t.Fatalf("%s holds with %v, want %v", o, holds, want)
		}
		r := Request{Owner: o, Session: true}
		inSession := len(ids(held, func(x *slot) bool { return x.Owner == o && x.Session }))
		if got := of.holdsBeside(&r); got != inSession {
			t.Fatalf("session %s holds %d, want %d", o, got, inSession)
		}
		for r.Mode = range Mode(2) {
			anyMode := !slices.ContainsFunc(held, func(x slot) bool { return x.Mode == Exclusive })
			lone := inSession == len(held) // otherwise no exclusive grant stands beside others
			if got, want := of.again(&r) != nil, inSession > 0 && (r.Mode == Shared || !anyMode); lone && got != want {
				t.Fatalf("%s may hold again: %t, want %t", o, got, want)
			}
			if got, want := of.upgrades(&r), inSession > 0 && r.Mode == Exclusive && anyMode; got != want {
				t.Fatalf("%s upgrades: %t, want %t", o, got, want)
			}
		}
	}
	if len(waiting) > 0 {
		upto := waiting[len(waiting)/2].ID
		var tries []RequestID
		for x := range of.triesUpto(upto) {
			tries = append(tries, x.ID)
		}
		want := ids(waiting, func(x *slot) bool { return x.Try && x.ID <= upto })
		if !slices.Equal(tries, want) {
			t.Fatalf("%v do not wait for the lock, want %v", tries, want)
		}
	}
	holds := func(o lockagent.Owner) bool {
		return first(held, func(x *slot) bool { return x.Session && x.Owner == o }) != 0
	}
	match := func(r *Request) bool { return r.Mode == Shared }
	want := ids(waiting, func(x *slot) bool { return x.Session && holds(x.Owner) && match(&x.Request) })
	got := of.firstReentry(match)
	if (got == nil) != (len(want) == 0) || got != nil && !slices.Contains(want, got.ID) {
		t.Fatalf("re-entry %d, want one of %v", id(got), want)
	}
	fixed := slices.DeleteFunc(slices.Clone(held), func(x slot) bool { return x.fixed == 0 })
	if len(fixed) == 0 {
		if of.endsFirst() != nil || of.endsLast() != nil || of.longest() != nil {
			t.Fatal("there is a fixed lease where all are kept")
		}
		return
	}
	ends := func(x, y slot) int { return compareEnds(&x, &y) }
	leases := func(x, y slot) int { return compareLeases(&x, &y) }
	if a, b, c := slices.MinFunc(fixed, ends), slices.MaxFunc(fixed, ends), slices.MaxFunc(fixed, leases); //
	of.endsFirst().ID != a.ID || of.endsLast().ID != b.ID || of.longest().ID != c.ID {
		t.Fatalf("ends %d to %d, longest %d, want %d, %d, %d",
			of.endsFirst().ID, of.endsLast().ID, of.longest().ID, a.ID, b.ID, c.ID)
	}
}

func ownersOf(list []slot) (owners []lockagent.Owner) {
	for i := range list {
		if !slices.Contains(owners, list[i].Owner) {
			owners = append(owners, list[i].Owner)
		}
	}
	return owners
}

func filled(n int) *table {
	t := new(table)
	for id := range RequestID(n) {
		t.arrive(Request{ID: id + 1, Owner: "ann"})
	}
	return t
}

func TestTableGivesMemoryBackAfterABurst(t *testing.T) {
	defer func(few int) { fewRequests = few }(fewRequests)
	fewRequests = 8
	const burst = 10_000
	t.Run("when it is empty", func(t *testing.T) {
		of := filled(burst)
		for id := range RequestID(burst) {
			of.remove(of.find(id + 1))
		}
		if cap(of.slots) > retainedSlots || of.ids != nil {
			t.Errorf("keeps room for %d, and knows %d ids", cap(of.slots), len(of.ids))
		}
	})
	t.Run("but keeps what little it needs all the time", func(t *testing.T) {
		of := filled(10)
		before := cap(of.slots)
		for id := range RequestID(10) {
			of.remove(of.find(id + 1))
		}
		if got := cap(of.slots); got != before {
			t.Errorf("keeps room for %d, want %d", got, before)
		}
	})
	t.Run("when few are left", func(t *testing.T) {
		of := filled(burst)
		for id := range RequestID(burst - 10) {
			of.remove(of.find(id + 1))
		}
		for id := range RequestID(burst) { // it never empties
			of.arrive(Request{ID: burst + id + 1})
			of.remove(of.head())
		}
		if got := cap(of.slots); got > 4*of.len()+3 {
			t.Errorf("keeps room for %d, of %d requests", got, of.len())
		}
	})
	t.Run("and has no map of a few", func(t *testing.T) {
		of := filled(fewRequests + 1)
		if of.ids == nil {
			t.Errorf("%d requests have no map", of.len())
		}
		for of.len() > fewRequests/2 {
			of.remove(of.head())
		}
		if of.ids != nil {
			t.Errorf("%d requests have a map", of.len())
		}
	})
}

// findWaiter is the slot of a request that waits, or nil.
func (t *table) findWaiter(id RequestID) *slot {
	if x := t.find(id); x != nil && !x.held {
		return x
	}
	return nil
}
