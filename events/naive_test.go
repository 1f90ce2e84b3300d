package events

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockagent/lockagent"
)

// naive is what somebody finds out about holds who looks at one record after the other, without
// an eye to speed or to what may be missing.
type naive struct {
	key        LockKey
	agent      lockagent.AgentID
	shared     bool
	n, total   int // permits
	start, end lockagent.StoreTime
	token      lockagent.Token

	// It was held for certain from the latest time at which it can have begun until the earliest at which it can have ended.
	surely, until lockagent.StoreTime
}

// inexact is by how much times may differ that somebody computes with the clocks of two machines.
func inexact(d time.Duration) time.Duration { return 10*time.Millisecond + d/1000 }

// overlaps returns the pairs of holds that may have overlapped, or of which an agent cannot tell the truth. It takes nothing for granted
// that an agent says of an end: a hold went on for as long as it was held, whatever else is said of it.
func overlaps(records []Record) (pairs [][2]naive) {
	byAgent := make(map[lockagent.AgentID][]Record)
	for _, r := range records {
		byAgent[r.Agent] = append(byAgent[r.Agent], r)
	}
	type id struct {
		LockKey
		agent  lockagent.AgentID
		tenure uint64
		token  lockagent.Token
	}
	var all []naive
	for agent, log := range byAgent {
		slices.SortStableFunc(log, func(a, b Record) int { return ComparePlaces(&a, &b) })
		open := make(map[id]naive)
		starts, grantedAt := make(map[id]lockagent.StoreTime), make(map[id]lockagent.StoreTime)
		last := make(map[id][]int)
		whole, before := false, Place{} // all records of the process are there up to a place
		for _, r := range log {
			if r.Seq == 1 {
				clear(open) // of another process
				whole = true
			} else if place := (Place{r.Epoch, r.Seq}); place != before && place != (Place{before.Epoch, before.Seq + 1}) {
				whole = false
			}
			before = Place{r.Epoch, r.Seq}
			k := id{LockKey{r.Store, r.LockKind, r.Lock}, agent, r.Tenure, r.Token}
			tenure := id{k.LockKey, agent, r.Tenure, 0}
			if r.Kind == lockagent.EventGranted || r.Kind == lockagent.EventHeld {
				if _, again := starts[tenure]; !again || r.How == lockagent.ByStore {
					starts[tenure] = r.StoreTime
				}
				grantedAt[k] = r.StoreTime
				open[k] = naive{key: k.LockKey, agent: agent, shared: r.Mode == lockagent.Shared, n: max(1, r.Permits), total: r.Total, start: starts[tenure], token: r.Token}
			}
			if h, ok := open[k]; ok && r.Kind.EndsHold() && r.Count == 0 {
				h.end, h.surely = r.Until, r.Until.Add(-r.Held)
				h.until = max(r.Confirmed.Add(-inexact(0)), grantedAt[k].Add(r.Held-inexact(r.Held)))
				if r.Returned != 0 {
					h.end = min(h.end, r.Returned)
				}
				if limit := r.Confirmed.Add(r.Lease); r.Reason == lockagent.LostDeadline || r.Kind == lockagent.EventExpired {
					h.end, h.until = min(h.end, limit), min(h.until, limit)
				}
				h.end = max(h.end, h.until)
				all = append(all, h)
				last[tenure] = append(last[tenure], len(all)-1)
				delete(open, k)
			}
			if r.Kind == lockagent.EventAlive && whole && r.Count != len(open) {
				pairs = append(pairs, [2]naive{{agent: agent, n: r.Count}, {agent: agent, n: len(open)}})
			}
			if r.Returned != 0 && r.Reason == 0 {
				for _, i := range last[tenure] {
					all[i].end = max(all[i].until, min(all[i].end, r.Returned))
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b naive) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.token, b.token)) })
	pairs = append(pairs, tooMany(all)...)
	for i, a := range all {
		for _, b := range all[i+1:] {
			if a.key == b.key && a.agent == b.agent && !a.shared && !b.shared && a.key.Kind == lockagent.PlainLock &&
				b.surely.Add(inexact(0)) < a.until && a.surely.Add(inexact(0)) < b.until {
				pairs = append(pairs, [2]naive{a, b})
			}
			if b.start >= a.end {
				continue
			}
			if a.key == b.key && a.agent != b.agent && !(a.shared && b.shared) && a.key.Kind == lockagent.PlainLock {
				pairs = append(pairs, [2]naive{a, b})
			}
		}
	}
	return pairs
}

// tooMany returns the holds of semaphores that were granted while too few permits were left, each with another one or itself.
func tooMany(all []naive) (pairs [][2]naive) {
	for i, b := range all {
		in, beside := b.n, b
		for _, a := range all[:i] {
			if a.key == b.key && a.end > b.start {
				in, beside = in+a.n, a
			}
		}
		if permitKind(b.key.Kind) && b.total != 0 && in > b.total {
			pairs = append(pairs, [2]naive{beside, b})
		}
	}
	return pairs
}
