package actor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
)

// The deadlines in a journal are lower bounds. While its file could not be written, the agent went on to renew what was held, and owners rely
// on deadlines that the journal does not have. The ends of fixed leases are known.

// Reassert gives the locks of the snapshot to a store that has forgotten everything, such as one in the memory of the process that
// ended. Every tenure that serves a hold begins anew: for a whole lease if it was kept, also if its deadline in the snapshot has passed, because
// nobody else can have been granted the lock. Otherwise it begins for what is left of the fixed lease. The store must be one that no other agent
// uses. Call Reassert before [Resume], which goes on from the snapshot as it is then. lease and margin are those of the [Config]; a lease of 0 is that
// which the tenure had.
//
// A store that has numbers of permits must have them before.
func (s *AgentSnapshot) Reassert(store lockagent.Store, lease, margin time.Duration) error {
	var errs []error
	for _, late := range []bool{false, true} { // those come first that are known to be held
		for i := range s.Locks {
			n := &s.Locks[i]
			for j := range n.Tenures {
				t := &n.Tenures[j]
				now, known := s.now()
				left := t.Until.Sub(now)
				anew := leaseOf(t, lease, now)
				length := max(left, anew)
				if !known || len(t.Grants) == 0 || (left < lockagent.MinLease) != late || length < lockagent.MinLease {
					continue // without a known time, no hold goes on
				}
				answer := make(chan error, 1)
				store.Acquire(context.Background(), lockagent.AcquireRequest{
					Name: n.Name, Kind: n.Kind.OrPlain(), Mode: modeOf(t.Mode), Tenure: lockagent.Tenure{Agent: s.Agent, Number: t.Number},
					Lease: length, Permits: t.Grants[0].Request.Permits, Floor: max(n.Floor, t.Last),
				}, func(r lockagent.AcquireReply, err error) {
					if err == nil && !r.Granted {
						err = fmt.Errorf("%w: %s has it", lockagent.ErrHeld, r.Holder)
					}
					answer <- err
				})
				switch err := <-answer; {
				case err == nil && anew > 0:
					s.confirmed(t, length, margin, now)
				case err != nil && !late:
					errs = append(errs, fmt.Errorf("actor: lock %q, which was held, is not held again: %w", n.Name, err))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// confirmPause is between two calls for a tenure whose store does not answer.
const confirmPause = 250 * time.Millisecond

// Confirm asks the store for each tenure that serves a hold, and has less than half of its lease left in the snapshot of a journal. What the
// store still has goes on with a whole lease: the agent before may have renewed it without the journal. Call Confirm before [Resume], which goes on
// from the snapshot as it is then, and releases what has run out in it. lease and margin are as for [AgentSnapshot.Reassert].
//
// While the store does not answer, Confirm tries again, until no owner can rely on a lease of the agent before, or ctx ends.
func (s *AgentSnapshot) Confirm(ctx context.Context, store lockagent.Store, lease, margin time.Duration) {
	begin, longest := time.Now(), time.Duration(0)
	settled := make(map[*lockstate.SavedTenure]bool)
	for {
		now, known := s.now()
		if !known {
			return // no hold goes on
		}
		var (
			calls sync.WaitGroup
			mu    sync.Mutex // guards settled, and the tenures
			open  int
		)
		for i := range s.Locks {
			n := &s.Locks[i]
			for j := range n.Tenures {
				t := &n.Tenures[j]
				length := leaseOf(t, lease, now)
				mu.Lock()
				skip := settled[t] || length < lockagent.MinLease || t.Deadline.Sub(now) > length/2
				if !skip {
					open++
				}
				mu.Unlock()
				if skip {
					continue
				}
				longest = max(longest, t.Lease, lease)
				calls.Add(1)
				store.Renew(ctx, lockagent.RenewRequest{
					Name: n.Name, Kind: n.Kind.OrPlain(), Mode: modeOf(t.Mode), Tenure: lockagent.Tenure{Agent: s.Agent, Number: t.Number},
					Lease: length, Urgent: true,
				}, func(r lockagent.RenewReply, err error) {
					defer calls.Done()
					mu.Lock()
					defer mu.Unlock()
					if err == nil && r.Held {
						s.confirmed(t, length, margin, now)
					}
					if err == nil || lockagent.Definite(err) && !errors.Is(err, lockagent.ErrTooFewReplicas) {
						settled[t] = true
						open--
					}
				})
			}
		}
		calls.Wait()
		if open == 0 || time.Since(begin) > longest {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(confirmPause):
		}
	}
}

// now is the present time on the clock of the snapshot. It reports false if nobody knows it.
func (s *AgentSnapshot) now() (lockstate.Instant, bool) {
	passed, known := s.age()
	return s.Taken.At + lockstate.Instant(passed), known
}

// leaseOf is the lease that the holds of a tenure need from now on, or 0. kept is the length of a kept lease, if that of the tenure is shorter.
func leaseOf(t *lockstate.SavedTenure, kept time.Duration, now lockstate.Instant) (lease time.Duration) {
	for i := range t.Grants {
		if g := &t.Grants[i]; g.Fixed == 0 {
			lease = max(lease, t.Lease, kept)
		} else if g.Fixed > max(now, t.Deadline) { // the lease of the tenure was shorter
			lease = max(lease, min(g.Fixed.Sub(now)*2, lockagent.MaxLease)) // half of it is always trusted
		}
	}
	return lease
}

// confirmed notes that the store has given a tenure a lease, by a call that was sent at the instant sent.
func (s *AgentSnapshot) confirmed(t *lockstate.SavedTenure, lease, margin time.Duration, sent lockstate.Instant) {
	trusted := lockstate.Trust(lease)
	if margin != 0 {
		trusted = lease - min(margin, lease/2)
	}
	now, _ := s.now()
	t.Sent, t.Lease = sent, lease
	t.Deadline = max(t.Deadline, sent+lockstate.Instant(trusted))
	t.Until = max(t.Until, now+lockstate.Instant(lease))
}
