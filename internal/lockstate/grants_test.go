package lockstate

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/lockagent/lockagent"
)

// Small worlds have few grants. They are to have an index all the same.
func init() { fewGrants = 1 }

// wrong compares the counts, the links and the index of the grants with the list of all of them. It
// is empty if nothing is wrong.
func (g grants) wrong() string {
	if g.n == 0 && g.oldest == 0 && g.youngest == 0 && g.exclusive == 0 && g.kept == 0 && g.unclaimed == 0 && (g.index == nil || len(g.index.requests) == 0) {
		return "" // most often, and the worlds are many
	}
	var list []cell
	var exclusive, kept int32
	var unclaimed cell
	for i, x := range g.all {
		list = append(list, i)
		if x.request.Mode == Exclusive {
			exclusive++
		}
		if x.fixed == 0 {
			kept++
		}
		if x.claimBy != 0 && unclaimed == 0 {
			unclaimed = i
		}
	}
	var back []cell
	for i := range g.backward {
		back = append(back, i)
	}
	slices.Reverse(back)
	switch {
	case !slices.Equal(list, back):
		return fmt.Sprintf("there are grants %v one way and %v the other", list, back)
	case len(list) != g.len() || exclusive != g.exclusive || kept != g.kept || unclaimed != g.unclaimed:
		return fmt.Sprintf("of grants %v %d are exclusive, %d kept and %d is not claimed, but the counts are %d, %d, %d, %d",
			list, exclusive, kept, unclaimed, g.n, g.exclusive, g.kept, g.unclaimed)
	}
	plain := g
	plain.index = nil
	for i, x := range g.all {
		o := x.request.Owner
		switch a, b := g.session(o), plain.session(o); {
		case g.find(x.request.ID) != i || plain.find(x.request.ID) != i:
			return fmt.Sprintf("grant %d is not found", x.request.ID)
		case a != b || x.request.Session && !slices.Equal(g.owned(o), plain.owned(o)):
			return fmt.Sprintf("%s holds %v %v by the index, and %v %v in truth", o, a, g.owned(o), b, plain.owned(o))
		}
	}
	for k := range orderings {
		a, b := g.top(k), plain.top(k)
		if (a == 0) != (b == 0) || a != 0 && (k.before(g.at(a), g.at(b)) || k.before(g.at(b), g.at(a))) {
			return fmt.Sprintf("grant %d is the first by ordering %d, not %d", b, k, a)
		}
	}
	if x := g.index; x != nil && (len(x.requests) != g.len() || len(x.heaps[longest]) != g.len()-int(g.kept)) {
		return fmt.Sprintf("the index has %d requests and %d fixed leases of %d grants", len(x.requests), len(x.heaps[longest]), g.len())
	}
	return ""
}

// owned are the grants of an owner.
func (g *grants) owned(o lockagent.Owner) (list []cell) {
	g.ofOwner(o, func(i cell) bool {
		list = append(list, i)
		return true
	})
	return list
}

// A lock that many held once costs no more memory than others do when nobody holds it, and has no index when few do.
func TestGrantsGiveBackRoom(t *testing.T) {
	defer func(few int) { fewGrants = few }(fewGrants)
	fewGrants = 8
	var g grants
	for id := range RequestID(100) {
		g.add(grant{request: Request{ID: id + 1, Owner: "ann", Mode: Shared, Session: true}})
	}
	for id := range RequestID(96) {
		if g.index == nil {
			t.Errorf("%d grants have no index", g.len())
		}
		g.remove(g.find(id + 1))
	}
	if g.index != nil {
		t.Errorf("%d grants have an index", g.len())
	}
	for id := range RequestID(4) {
		g.remove(g.find(id + 97))
	}
	if cap(g.cells) > retainedGrants || retainedGrants > 16 {
		t.Errorf("no grants have room for %d", cap(g.cells))
	}
}

// The grants are compared with a slice, which has nothing that could disagree.
func TestGrantsAreAListWithAnIndex(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var g grants
		var model []grant
		next := RequestID(0)
		some := func(t *rapid.T) RequestID {
			if len(model) == 0 {
				t.Skip("there is no grant for this action, so another one is drawn")
			}
			return rapid.SampledFrom(model).Draw(t, "grant").request.ID
		}
		of := func(id RequestID) *grant {
			return &model[slices.IndexFunc(model, func(x grant) bool { return x.request.ID == id })]
		}
		remove := func(id RequestID) {
			g.remove(g.find(id))
			model = slices.DeleteFunc(model, func(x grant) bool { return x.request.ID == id })
		}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				for range rapid.SampledFrom([]int{1, 1, 3, 50}).Draw(t, "many") {
					next++
					x := grant{request: Request{ID: next, Owner: someOwner.Draw(t, "owner"), Mode: Mode(rapid.IntRange(0, 1).Draw(t, "mode")), Session: rapid.Bool().Draw(t, "session")}}
					if !x.request.Session {
						x.request.Owner = alone(x.request.Owner, next)
					}
					x.claimBy = Instant(rapid.IntRange(0, 1).Draw(t, "unclaimed"))
					if rapid.Bool().Draw(t, "fixed") {
						x.request.Lease = someSpan.Draw(t, "lease")
						x.fixed = Instant(someSpan.Draw(t, "end"))
					}
					g.add(x)
					model = append(model, x)
				}
			},
			"remove": func(t *rapid.T) { remove(some(t)) },
			"claimed": func(t *rapid.T) {
				id := some(t)
				g.claimed(g.find(id))
				of(id).claimBy = 0
			},
			"extend": func(t *rapid.T) {
				id := some(t)
				if x := of(id); x.fixed != 0 {
					x.fixed = Instant(someSpan.Draw(t, "end"))
					g.extend(g.find(id), x.fixed, 0)
				}
			},
			"removeMany": func(t *rapid.T) {
				for range min(len(model), rapid.SampledFrom([]int{5, 40, 1000}).Draw(t, "many")) {
					remove(model[0].request.ID)
				}
			},
			"": func(t *rapid.T) {
				if problem := g.wrong(); problem != "" {
					t.Fatal(problem)
				}
				if g.len() != len(model) {
					t.Fatalf("%d grants, want %d", g.len(), len(model))
				}
				i := 0
				for _, x := range g.all {
					if want := model[i]; x.request != want.request || x.fixed != want.fixed || x.claimBy != want.claimBy {
						t.Fatalf("grant %+v, want %+v", *x, want)
					}
					i++
				}
				for _, k := range []ordering{endsFirst, endsLast, longest} {
					fixed := slices.DeleteFunc(slices.Clone(model), func(x grant) bool { return x.fixed == 0 })
					if top := g.top(k); top != 0 {
						best := slices.MinFunc(fixed, func(x, y grant) int {
							switch {
							case k.before(&x, &y):
								return -1
							case k.before(&y, &x):
								return 1
							}
							return 0
						})
						if k.before(&best, g.at(top)) {
							t.Fatalf("%+v comes before %+v by ordering %d", best, *g.at(top), k)
						}
					}
				}
			},
		})
	})
}
