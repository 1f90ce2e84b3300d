package events

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lockagent/lockagent"
)

// history is what a small model of locks, agents and one store has done, without
// a fault.
type history struct {
	logs  [][]Record // one for each agent and epoch
	holds map[lockagent.Name]int
}

// tenureOf is where in the history a tenure is, for those who falsify it.
type tenureOf struct {
	lock  lockagent.Name
	log   int
	start lockagent.StoreTime
	until lockagent.StoreTime // of its last hold, as an audit sees it
}

// drawHistory draws a legal history and its tenures, in the order of each lock.
func drawHistory(t *rapid.T) (history, []tenureOf) {
	type identity struct {
		agent lockagent.AgentID
		epoch uint64
	}
	identities := []identity{{"A", 1}, {"A", 2}, {"B", 1}, {"C", 1}}
	h := history{logs: make([][]Record, len(identities)), holds: make(map[lockagent.Name]int)}
	var tenures []tenureOf
	perLock := make([][][]lockagent.Event, len(identities)) // by identity and lock
	for _, lock := range []lockagent.Name{"a", "b/c"} {
		now := lockagent.StoreTime(rapid.IntRange(1000, 5000).Draw(t, "clock"))
		pass := func(what string) { now += lockagent.StoreTime(rapid.IntRange(0, 50).Draw(t, what)) }
		token := lockagent.Token(0)
		numbers := []uint64{0, 100, 0, 0} // an agent does not use one again
		rounds := rapid.IntRange(0, 8).Draw(t, "tenures")
		events := make([][]lockagent.Event, len(identities))
		for round := range rounds {
			candidates := []int{0, 2, 3}
			if round >= rounds/2 {
				candidates[0] = 1 // A has started again
			}
			i := rapid.SampledFrom(candidates).Draw(t, "agent")
			numbers[i]++
			add := func(e lockagent.Event) {
				e.Lock, e.Tenure = lock, numbers[i]
				events[i] = append(events[i], e)
			}
			pass("idle")
			start := now
			lease := lockagent.StoreTime(rapid.IntRange(100, 400).Draw(t, "lease"))
			confirmed := start
			how := lockagent.ByStore
			over := lockagent.LossReason(0)
			until := now
			for range rapid.IntRange(1, 3).Draw(t, "holds") {
				token = max(token+1, lockagent.Token(start))
				h.holds[lock]++
				add(lockagent.Event{Kind: lockagent.EventRequested})
				add(lockagent.Event{Kind: lockagent.EventGranted, Token: token, How: how, StoreTime: confirmed, Count: 1})
				how = lockagent.ByHandOff
				if rapid.Bool().Draw(t, "reenters") {
					add(lockagent.Event{Kind: lockagent.EventReentered, Token: token, Count: 2})
					add(lockagent.Event{Kind: lockagent.EventReleased, Token: token, Count: 1})
				}
				pass("held")
				if now >= confirmed+lease {
					confirmed = now // renewed in time
				}
				// What the agent knows of the store's clock is never less than
				// what it shows.
				until = now + lockagent.StoreTime(rapid.IntRange(0, 80).Draw(t, "bound"))
				kind := lockagent.EventReleased
				if rapid.IntRange(0, 4).Draw(t, "lost") == 0 {
					kind, over = lockagent.EventLost, lockagent.LostDeadline
					until = min(until, confirmed+lease)
				}
				add(lockagent.Event{Kind: kind, Reason: over, Token: token, Until: until})
				if over != 0 {
					break
				}
			}
			if over != 0 && rapid.Bool().Draw(t, "store away") {
				// It hears of nothing until the lease has run out.
				now = confirmed + lease
				if rapid.Bool().Draw(t, "asks") {
					add(lockagent.Event{Kind: lockagent.EventReturned, StoreTime: now + 10, Reason: lockagent.LostDenied})
				}
			} else {
				pass("returning")
				add(lockagent.Event{Kind: lockagent.EventReturned, StoreTime: now})
				until = min(until, now)
			}
			tenures = append(tenures, tenureOf{lock, i, start, until})
		}
		for i := range identities {
			perLock[i] = append(perLock[i], events[i])
		}
	}
	// Each agent's log is some interleaving of what it did with each lock.
	for i, id := range identities {
		add := func(e lockagent.Event) {
			e.Agent = id.agent
			e.Time = time.UnixMicro(int64(rapid.IntRange(0, 1e6).Draw(t, "wall clock"))).UTC()
			h.logs[i] = append(h.logs[i], Record{Event: e, Epoch: id.epoch, Seq: uint64(len(h.logs[i])) + 1})
		}
		add(lockagent.Event{Kind: lockagent.EventAgentStarted})
		for {
			var open []int
			for l := range perLock[i] {
				if len(perLock[i][l]) > 0 {
					open = append(open, l)
				}
			}
			if len(open) == 0 {
				break
			}
			l := rapid.SampledFrom(open).Draw(t, "next")
			add(perLock[i][l][0])
			perLock[i][l] = perLock[i][l][1:]
		}
		add(lockagent.Event{Kind: lockagent.EventAgentStopped})
	}
	return h, tenures
}

// arrival is the records of a history as they might stand in a stream: shuffled,
// and some of them twice.
func (h history) arrival(t *rapid.T) []Record {
	all := slices.Concat(h.logs...)
	for range rapid.IntRange(0, 3).Draw(t, "repetitions") {
		all = append(all, rapid.SampledFrom(all).Draw(t, "repeated"))
	}
	return rapid.Permutation(all).Draw(t, "arrival")
}

func TestLegalHistoriesAreProven(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, _ := drawHistory(t)
		report := audited(h.arrival(t))
		if report.Verdict != Proven || len(report.Explained) > 0 || len(report.OpenHolds) > 0 || len(report.OpenEnds) > 0 {
			t.Fatalf("%v", report)
		}
		if report.Grants != h.holds["a"]+h.holds["b/c"] || report.Locks != len(h.holds) || report.Agents != 3 {
			t.Fatalf("%v", report)
		}
	})
}

func TestMissingEventIsNamed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, _ := drawHistory(t)
		i := rapid.IntRange(0, len(h.logs)-1).Draw(t, "log")
		n := rapid.IntRange(0, len(h.logs[i])-2).Draw(t, "event")
		gone := h.logs[i][n]
		h.logs[i] = slices.Delete(h.logs[i], n, n+1)
		report := audited(h.arrival(t))
		want := Gap{gone.Agent, gone.Epoch, Range{gone.Seq, gone.Seq}}
		if report.Verdict != Incomplete || !slices.Equal(report.Gaps, []Gap{want}) {
			t.Fatalf("without %+v:\n%v", gone, report)
		}
	})
}

func TestEarlierGrantIsFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, tenures := drawHistory(t)
		// Two tenures of a lock that follow each other on different agents.
		var pairs [][2]tenureOf
		for i := 1; i < len(tenures); i++ {
			a, b := tenures[i-1], tenures[i]
			if a.lock == b.lock && a.log != b.log && a.until > a.start {
				pairs = append(pairs, [2]tenureOf{a, b})
			}
		}
		if len(pairs) == 0 {
			return
		}
		pair := rapid.SampledFrom(pairs).Draw(t, "pair")
		first, second := pair[0], pair[1]
		moved := first.start + lockagent.StoreTime(rapid.Int64Range(0, int64(first.until-first.start)-1).Draw(t, "moved to"))
		for i, r := range h.logs[second.log] {
			if r.Kind == lockagent.EventGranted && r.Lock == second.lock && r.How == lockagent.ByStore && r.StoreTime == second.start {
				h.logs[second.log][i].StoreTime = moved
			}
		}
		report := audited(h.arrival(t))
		found := slices.ContainsFunc(report.Violations, func(v Violation) bool {
			return v.Kind == Overlap && v.Lock == first.lock && v.First.End > v.Second.Start && v.Second.Start == moved
		})
		if report.Verdict != Violated || !found {
			t.Fatalf("%v moved to %d, into %v:\n%v", second, moved, first, report)
		}
	})
}

func TestFalseTokenIsFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, _ := drawHistory(t)
		type at struct{ log, i int }
		var grants []at
		for l, log := range h.logs {
			for i, r := range log {
				if r.Kind == lockagent.EventGranted && r.Lock == "a" {
					grants = append(grants, at{l, i})
				}
			}
		}
		if len(grants) < 2 {
			return
		}
		pick := rapid.Permutation(grants).Draw(t, "which")
		from, to := h.logs[pick[0].log][pick[0].i], h.logs[pick[1].log][pick[1].i]
		// The whole hold has the token of another.
		for i := range h.logs[pick[1].log] {
			if r := &h.logs[pick[1].log][i]; r.Lock == "a" && r.Token == to.Token {
				r.Token = from.Token
			}
		}
		report := audited(h.arrival(t))
		found := slices.ContainsFunc(report.Violations, func(v Violation) bool {
			return v.Kind == TokenRepeated && v.Second.Token == from.Token
		})
		if report.Verdict != Violated || !found {
			t.Fatalf("token %d instead of %d:\n%v", from.Token, to.Token, report)
		}
	})
}
