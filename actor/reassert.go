package actor

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockagent/lockagent"
)

// Reassert gives the locks of the snapshot to a store that has forgotten everything, such as one in the memory of the process that
// ended. Every tenure that serves a hold begins anew, for what is left of its lease. The store must be one that no other agent
// uses. Call Reassert before [Resume].
//
// A store that has numbers of permits must have them before.
func (s *AgentSnapshot) Reassert(store lockagent.Store) error {
	passed, known := s.age()
	if !known {
		return nil // no hold goes on
	}
	var errs []error
	for i := range s.Locks {
		n := &s.Locks[i]
		for j := range n.Tenures {
			t := &n.Tenures[j]
			left := t.Until.Sub(s.Taken.At) - passed
			if len(t.Grants) == 0 || left < lockagent.MinLease {
				continue
			}
			answer := make(chan error, 1)
			store.Acquire(context.Background(), lockagent.AcquireRequest{
				Name: n.Name, Kind: n.Kind.OrPlain(), Mode: modeOf(t.Mode), Tenure: lockagent.Tenure{Agent: s.Agent, Number: t.Number},
				Lease: left, Permits: t.Grants[0].Request.Permits, Floor: max(n.Floor, t.Last),
			}, func(r lockagent.AcquireReply, err error) {
				if err == nil && !r.Granted {
					err = fmt.Errorf("%w: %s has it", lockagent.ErrHeld, r.Holder)
				}
				answer <- err
			})
			if err := <-answer; err != nil {
				errs = append(errs, fmt.Errorf("actor: lock %q, which was held, is not held again: %w", n.Name, err))
			}
		}
	}
	return errors.Join(errs...)
}
