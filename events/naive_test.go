package events

import (
	"cmp"
	"slices"

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
}

// overlaps returns the pairs of holds that may have overlapped, and the holds whose token is not
// greater than that of an earlier one.
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
		slices.SortStableFunc(log, func(a, b Record) int { return comparePlaces(&a, &b) })
		open := make(map[id]naive)
		starts := make(map[id]lockagent.StoreTime)
		last := make(map[id][]int)
		for _, r := range log {
			k := id{LockKey{r.Store, r.LockKind, r.Lock}, agent, r.Tenure, r.Token}
			tenure := id{k.LockKey, agent, r.Tenure, 0}
			if r.Kind == lockagent.EventGranted || r.Kind == lockagent.EventHeld {
				if _, again := starts[tenure]; !again || r.How == lockagent.ByStore {
					starts[tenure] = r.StoreTime
				}
				open[k] = naive{key: k.LockKey, agent: agent, shared: r.Mode == lockagent.Shared, n: max(1, r.Permits), total: r.Total, start: starts[tenure], token: r.Token}
			}
			if h, ok := open[k]; ok && r.Kind.EndsHold() && r.Count == 0 {
				h.end = r.Until
				if r.Returned != 0 {
					h.end = min(h.end, r.Returned)
				}
				if limit := r.Confirmed.Add(r.Lease); r.Reason == lockagent.LostDeadline || r.Kind == lockagent.EventExpired {
					h.end = min(h.end, limit)
				}
				all = append(all, h)
				last[tenure] = append(last[tenure], len(all)-1)
				delete(open, k)
			}
			if r.Returned != 0 && r.Reason == 0 {
				for _, i := range last[tenure] {
					all[i].end = min(all[i].end, r.Returned)
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b naive) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.token, b.token)) })
	pairs = tooMany(all)
	for i, a := range all {
		for _, b := range all[i+1:] {
			if b.start >= a.end {
				break
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
