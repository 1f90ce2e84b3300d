package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/lockagent/lockagent/simulate/plan"
)

// The operations of the histories. A client begins a hold, and ends it.
type (
	beginning struct{ holder }
	ending    struct{ client int }
	excused   struct { // a fault excuses that others hold the lock beside those that have it
		outsiders bool // only beside outsiders
	}
)

// holder is a client that holds a lock.
type holder struct {
	client   int
	shared   bool
	outsider bool
	permits  int
	weak     bool // others may hold the lock at the same time: a fault excuses it
}

// modelOf is what a lock promises. Its state is a []holder, in the order of the clients.
func modelOf(l plan.Lock) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return []holder(nil) },
		Step: func(state, input, _ any) (bool, any) {
			holders := slices.Clone(state.([]holder))
			switch in := input.(type) {
			case beginning:
				if !in.weak && !fits(l, holders, in.holder) {
					return false, state
				}
				i, _ := slices.BinarySearchFunc(holders, in.client, byClient)
				return true, slices.Insert(holders, i, in.holder)
			case ending:
				i, holds := slices.BinarySearchFunc(holders, in.client, byClient)
				if !holds {
					return false, state
				}
				return true, slices.Delete(holders, i, i+1)
			default:
				for i, h := range holders {
					holders[i].weak = h.weak || h.outsider || !in.(excused).outsiders
				}
				return true, holders
			}
		},
		Equal:             func(a, b any) bool { return slices.Equal(a.([]holder), b.([]holder)) },
		DescribeOperation: func(input, _ any) string { return fmt.Sprintf("%T %+v", input, input) },
	}
}

func byClient(h holder, client int) int { return h.client - client }

// fits reports whether somebody may hold the lock beside the others.
func fits(l plan.Lock, others []holder, h holder) bool {
	permits := h.permits
	for _, other := range others {
		if other.weak {
			continue
		}
		permits += other.permits
		if !l.Counted() && !(h.shared && other.shared) {
			return false
		}
	}
	return !l.Counted() || permits <= l.Permits
}

// patience is how long the checker looks for an order of one lock's history.
const patience = 10 * time.Second

// judgeHistories looks for an order of what the clients did that a lock allows.
func (v *verdict) judgeHistories(o *outcome) {
	for _, l := range o.plan.Locks {
		switch porcupine.CheckOperationsTimeout(modelOf(l), historyOf(o, l), patience) {
		case porcupine.Illegal:
			v.wrong = append(
				v.wrong, fmt.Sprintf("history: no order of what the clients did is one that the lock %s allows", l.Name),
			)
		case porcupine.Unknown:
			v.unsure = append(
				v.unsure, fmt.Sprintf("history: no order of what the clients did with %s was found in time", l.Name),
			)
		}
	}
}

// historyOf returns what the clients did with a lock.
func historyOf(o *outcome, l plan.Lock) (history []porcupine.Operation) {
	add := func(client int, from, to time.Duration, what any) {
		history = append(history, porcupine.Operation{ClientId: client, Input: what, Call: int64(from), Return: int64(to)})
	}
	for _, h := range o.holds {
		if h.Lock != l.Name {
			continue
		}
		outsider := o.plan.IsOutsider(h.Client)
		weak := slices.ContainsFunc(o.plan.Faults, func(f plan.Fault) bool {
			return (excuses(f) || outsider && forgets(f)) && h.Granted >= f.At && h.Granted <= f.End()+memory(o.plan)
		})
		add(h.Client, h.Asked, h.Granted, beginning{holder{h.Client, h.Shared, outsider, h.Permits, weak}})
		add(h.Client, h.Ending, h.Ended, ending{h.Client})
	}
	for _, f := range o.plan.Faults {
		if excuses(f) || forgets(f) && o.plan.Shared(l.Name) {
			add(0, f.At, f.At, excused{outsiders: !excuses(f)})
		}
	}
	return history
}
