package audit

import (
	"cmp"
	"reflect"
	"slices"
	"testing"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/fold"
)

// joinedStores are logs of agents of one store. B may have another name for it.
var joinedStores = map[string]func() []*story{
	"Clean": func() []*story {
		return []*story{
			agent("A").held(1, 1000, 2000).held(2, 5000, 6000).stop(),
			agent("B").held(1, 3000, 4000).of("b").held(2, 4100, 4200).stop(),
		}
	},
	"Overlap": func() []*story {
		return []*story{
			agent("A").held(1, 1000, 3000).stop(), agent("B").granted(1, 2000).released(1, 4000).returned(1, 4001).stop(),
		}
	},
	"TokenFell": func() []*story {
		return []*story{
			agent("A").held(1, 1000, 2000).stop(),
			agent("B").held(1, 3000, 4000).edit(func(r *events.Record) { r.Token = 5 }).stop(),
		}
	},
	"TokenRepeated": func() []*story {
		return []*story{
			agent("A").held(1, 5000, 6000).stop(),
			agent("B").held(1, 3000, 4000).edit(func(r *events.Record) { r.Token = lockagent.Token(clock(5000)) }).stop(),
		}
	},
	"Hole": func() []*story {
		return []*story{
			agent("A").held(1, 3000, 4000).stop(), agent("B").alive(1000).missing(2).held(1, 6000, 7000).alive(7500).stop(),
		}
	},
	"Tail": func() []*story {
		return []*story{agent("A").held(1, 3000, 4000).stop(), agent("B").held(1, 1000, 1100).alive(2000)}
	},
	"Break": func() []*story {
		return []*story{
			agent("A").granted(1, 1000).lost(lockagent.LostDenied, 1, 9000).stop(),
			agent("B").broke(1400).held(1, 1500, 2200).stop(),
		}
	},
	"Reset": func() []*story {
		emptied := lockagent.Reset{From: "x", To: "y", Reason: "emptied", After: clock(1100), Before: clock(1400)}
		return []*story{
			agent("A").on("x").granted(1, 1000).lost(lockagent.LostDenied, 1, 9000).stop(),
			agent("B").reset(emptied).edit(func(r *events.Record) { r.Time = wall(1400) }).on("y").held(1, 1500, 2200).stop(),
		}
	},
	"Step": func() []*story {
		return []*story{
			agent("A").granted(1, 300_000).released(1, 331_500).returned(1, 331_500).stop(),
			agent("B").reset(setBy(2000, 100_000, 702_000)).held(1, 330_000, 333_000).stop(),
		}
	},
	"StillHeld": func() []*story {
		return []*story{
			agent("A").held(1, 1000, 2000).stop(), agent("B").granted(1, 3000).released(1, 3400).handedOff(1, 3500).stop(),
		}
	},
	"HandOffs": func() []*story {
		return []*story{
			agent("A").held(1, 1000, 1100).stop(),
			agent("B").granted(1, 2000).reentered(1, 2100).released(1, 2200).released(1, 2300).handedOff(1, 2300).
				released(1, 2400).returned(1, 2401).stop(),
			agent("C").held(1, 2350, 2380).stop(),
		}
	},
}

// It does not matter when the log tells that two names are of one store.
func TestJoinedStores(t *testing.T) {
	for name, log := range joinedStores {
		t.Run(name, func(t *testing.T) {
			var records []events.Record
			for _, s := range log() {
				for i := range s.records {
					if r := &s.records[i]; r.Time.IsZero() && i > 0 {
						r.Time = s.records[i-1].Time
					}
				}
				records = append(records, s.records...)
			}
			slices.SortStableFunc(records, func(x, y events.Record) int { return x.Time.Compare(y.Time) })
			tells := agent("Z").reset(lockagent.Reset{Store: "s"})
			tells.stop()
			with := func(at int, store string) (report Report, state []fold.LockState) {
				all := slices.Insert(slices.Clone(records), at, tells.records...)
				for i := range all {
					switch r := &all[i]; {
					case r.Agent == "B" && r.Store != "":
						r.Store = store
					case r.Kind == lockagent.EventStoreReset && r.Agent == "Z":
						r.Reset.Store = store
					}
				}
				folded := fold.New()
				for _, r := range all {
					folded.Apply(r)
				}
				for l := range folded.Locks() {
					state = append(state, l)
				}
				slices.SortFunc(state, func(x, y fold.LockState) int { return cmp.Compare(x.Lock, y.Lock) })
				return audited(all), state
			}
			want, wantState := with(0, "s")
			for at := range len(records) + 1 {
				report, state := with(at, "t")
				if !reflect.DeepEqual(report, want) {
					t.Errorf("told before record %d:\n%v\nof one name:\n%v", at, report, want)
				}
				if !reflect.DeepEqual(state, wantState) {
					t.Errorf("told before record %d: %+v\nof one name: %+v", at, state, wantState)
				}
			}
		})
	}
}

// What was judged of two names stays judged when the log tells that they are of one store. The report says that the
// holds were not compared with each other.
func TestStoresJoinedWhenJudged(t *testing.T) {
	a, b, z := agent("A"), agent("B").at("t"), agent("Z")
	var log tape
	log.add(500, a.held(1, 1000, 2000), b.held(1, 1500, 2500), z)
	log.add(600, b.missing(1).of("b").held(3, 18_000, 19_000).of("a").reset(setBy(2000, 22_000, 24_100)),
		a.reset(resetAt("x", "y", 30_000)))
	log.live(40_000, 120_000, a, b, z)
	log.add(121_000, z.reset(lockagent.Reset{Store: "t"}))
	log.live(130_000, 200_000, a, b, z)
	log.add(200_100, a.held(2, 200_000, 200_100).stop(), b.held(4, 200_050, 200_150).stop(), z.stop())

	report := log.read(newAudit()).Report()
	wantReport(t, report, Violated, "joined: 1, missing: 1, overlap: 1",
		"the stores s and t are one, but holds of each were judged apart, up to 2026-03-01T14:01:55.000Z")
	if len(report.Stores) != 1 || report.Stores[0].Holds != 5 || report.Stores[0].Unproven != 0 ||
		report.Resets.Count != 2 || report.Locks != 2 {
		t.Errorf("%d locks, %+v, %+v", report.Locks, report.Stores, report.Resets)
	}
}
