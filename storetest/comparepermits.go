package storetest

import (
	"crypto/rand"
	"fmt"
	"slices"

	"github.com/lockagent/lockagent"
	"pgregory.net/rapid"
)

// ComparePermits is [Compare] for semaphores. Both must agree on who has permits and who waits for
// them, and on all numbers. Changes are repeated, at once and late.
func ComparePermits(t rapid.TB, kind lockagent.LockKind, model, subject [2]lockagent.Store) {
	t.Helper()
	for _, stores := range [][2]lockagent.Store{model, subject} {
		for i, s := range stores {
			defer Listen(t, s, comparedAgents[i]).Cancel()
		}
	}
	run, histories := rand.Text(), 0
	rapid.Check(t, func(t *rapid.T) {
		histories++
		h := &permitsHistory{
			name: lockagent.Name(fmt.Sprintf("compare/%s/%d", run, histories)), kind: kind,
			model: model, subject: subject, wants: make(map[lockagent.Tenure]int),
		}
		t.Repeat(map[string]func(*rapid.T){
			"acquire":      h.acquire,
			"acquire more": h.acquire,
			"release":      h.release,
			"change":       h.change,
			"":             h.takeUp,
		})
	})
}

// permitsHistory is one random sequence of calls.
type permitsHistory struct {
	name           lockagent.Name
	kind           lockagent.LockKind
	model, subject [2]lockagent.Store
	wants          map[lockagent.Tenure]int // how many permits each tenure asks for, always
	queued         []lockagent.Tenure
}

// agree makes the same call to both, and fails the history if they answer differently.
func (h *permitsHistory) agree(t *rapid.T, agent int, what string, ask func(lockagent.Store) string) string {
	t.Helper()
	of, got := ask(h.model[agent]), ask(h.subject[agent])
	t.Logf("%s = %s", what, of)
	if of != got {
		t.Fatalf("%s: the model answers %s, and the subject %s", what, of, got)
	}
	return of
}

func drawTenure(t *rapid.T) (agent int, tenure lockagent.Tenure) {
	agent = rapid.IntRange(0, 1).Draw(t, "agent")
	return agent, lockagent.Tenure{Agent: comparedAgents[agent], Number: uint64(rapid.IntRange(1, 8).Draw(t, "number"))}
}

func (h *permitsHistory) acquire(t *rapid.T) {
	agent, tenure := drawTenure(t)
	if h.wants[tenure] == 0 {
		h.wants[tenure] = rapid.IntRange(1, 4).Draw(t, "permits")
	}
	placed := slices.Contains(h.queued, tenure)
	req := lockagent.AcquireRequest{
		Name: h.name, Kind: h.kind, Tenure: tenure, Lease: minute, Permits: h.wants[tenure],
		Queue: placed || rapid.Bool().Draw(t, "queue"),
	}
	var queued bool
	what := fmt.Sprintf("Acquire(%s, %d permits, queue %t)", tenure, req.Permits, req.Queue)
	h.agree(t, agent, what, func(s lockagent.Store) string {
		reply, err := Acquire(t, s, req)
		queued = reply.Queued
		return fmt.Sprintf(
			"granted %t, queued %t, %q, %d in all, %s",
			reply.Granted, reply.Queued, reply.Holder, reply.Total, sentinel(err),
		)
	})
	if queued && !placed {
		h.queued = append(h.queued, tenure)
	}
}

func (h *permitsHistory) release(t *rapid.T) {
	agent, tenure := drawTenure(t)
	req := lockagent.ReleaseRequest{Name: h.name, Kind: h.kind, Tenure: tenure}
	h.agree(t, agent, fmt.Sprintf("Release(%s)", tenure), func(s lockagent.Store) string {
		reply, err := Release(t, s, req)
		return fmt.Sprintf("released %t, passed %t, %s", reply.Released, reply.Passed, sentinel(err))
	})
	h.queued = slices.DeleteFunc(h.queued, func(other lockagent.Tenure) bool { return other == tenure })
}

func (h *permitsHistory) change(t *rapid.T) {
	ops := []lockagent.PermitsOp{
		lockagent.ReadPermits, lockagent.TrySetPermits, lockagent.AddPermits, lockagent.DeletePermits,
	}
	if h.kind == lockagent.Permits {
		ops = append(ops, lockagent.SetPermits, lockagent.ReleasePermit, lockagent.ReleasePermit, lockagent.ExtendPermit)
	} else {
		ops = append(ops, lockagent.DrainPermits, lockagent.AddPermits)
	}
	agent, tenure := drawTenure(t)
	req := lockagent.PermitsRequest{
		Name: h.name, Kind: h.kind, Op: rapid.SampledFrom(ops).Draw(t, "op"), N: rapid.IntRange(0, 6).Draw(t, "n"),
		Change: fmt.Sprint("c", rapid.IntRange(1, 30).Draw(t, "change")), // now and then an earlier one
		ID:     tenure.PermitID(rapid.IntRange(1, 3).Draw(t, "k")), Lease: minute,
	}
	if req.Op == lockagent.AddPermits {
		req.N -= 2
	}
	h.agree(t, agent, fmt.Sprintf("%s %d %s %s", req.Op, req.N, req.ID, req.Change), func(s lockagent.Store) string {
		reply, err := Permits(t, s, req)
		reply.At = 0
		return fmt.Sprintf("%+v, %s", reply, sentinel(err))
	})
}

// takeUp renews the tenures that were queued, because some may have been passed permits. So no lease
// ends in the history.
func (h *permitsHistory) takeUp(t *rapid.T) {
	h.queued = slices.DeleteFunc(h.queued, func(tenure lockagent.Tenure) bool {
		agent := slices.Index(comparedAgents[:], tenure.Agent)
		var held bool
		h.agree(t, agent, fmt.Sprintf("Renew(%s)", tenure), func(s lockagent.Store) string {
			reply, err := Renew(t, s, lockagent.RenewRequest{
				Name: h.name, Kind: h.kind, Tenure: tenure, Lease: minute, Urgent: true,
			})
			held = reply.Held
			return fmt.Sprintf("held %t, %s", reply.Held, sentinel(err))
		})
		return held
	})
}
