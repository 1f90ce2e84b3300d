package saved

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
)

// The deadlines in a journal are lower bounds. While its file could not be written, the agent went on to renew what was
// held, and owners rely on deadlines that the journal does not have. The ends of fixed leases are known.

// Reassert gives the locks to a store that has forgotten everything, such as one in the memory of the process that
// ended. Every tenure that serves a hold begins anew: for a whole lease if it was kept, also if its deadline has
// passed, because nobody else can have been granted the lock. Otherwise it begins for what is left of the fixed lease.
// The store must be one that no other agent uses. Call Reassert before another agent goes on with the locks. lease and
// margin are those of that agent; a lease of 0 is that which the tenure had.
//
// A store that has numbers of permits must have them before.
func (a *Agent) Reassert(store lockagent.Store, lease, margin time.Duration) error {
	var errs []error
	for _, late := range []bool{false, true} { // those come first that are known to be held
		for i := range a.Locks {
			l := &a.Locks[i]
			holders := l.holders()
			for j := range l.Tenures {
				t := &l.Tenures[j]
				now, known := a.now()
				left := t.Until.Sub(now)
				held := holders[t.Number]
				anew := leaseOf(t, held, lease, now)
				length := max(left, anew)
				if !known || len(held) == 0 || (left < lockagent.MinLease) != late || length < lockagent.MinLease {
					continue // without a known time, no hold goes on
				}
				answer, at := make(chan error, 1), lockagent.StoreTime(0)
				store.Acquire(context.Background(), lockagent.AcquireRequest{
					Name: l.Name, Kind: l.Kind, Mode: modeOf(t.Mode),
					Tenure: lockagent.Tenure{Agent: a.ID, Number: t.Number}, Lease: length, Permits: held[0].Permits,
					Floor: max(l.Floor, t.Last),
				}, func(r lockagent.AcquireReply, err error) {
					if err == nil && !r.Granted {
						err = fmt.Errorf("%w: %s has it", lockagent.ErrHeld, r.Holder)
					}
					at = r.At
					answer <- err
				})
				switch err := <-answer; {
				case err == nil && anew > 0:
					a.confirmed(t, at, length, margin, now)
				case err != nil && !late:
					errs = append(errs, fmt.Errorf("lock %q, which was held, is not held again: %w", l.Name, err))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// confirmPause is between two calls for a tenure whose store does not answer.
const confirmPause = 250 * time.Millisecond

// Confirm asks the store for each tenure that serves a hold, and has less than half of its lease left in the journal.
// What the store still has goes on with a whole lease: the agent before may have renewed it without the journal. Call
// Confirm before another agent goes on with the locks: it releases what has run out. lease and margin are as for
// [Agent.Reassert].
//
// While the store does not answer, Confirm tries again, until no owner can rely on a lease of the agent before, or ctx
// ends.
func (a *Agent) Confirm(ctx context.Context, store lockagent.Store, lease, margin time.Duration) {
	begin, longest := time.Now(), time.Duration(0)
	settled := make(map[*lockstate.SavedTenure]bool)
	for {
		now, known := a.now()
		if !known {
			return // no hold goes on
		}
		var (
			calls sync.WaitGroup
			mu    sync.Mutex // guards settled, and the tenures
			open  int
		)
		for i := range a.Locks {
			l := &a.Locks[i]
			holders := l.holders()
			for j := range l.Tenures {
				t := &l.Tenures[j]
				length := leaseOf(t, holders[t.Number], lease, now)
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
				permits, total := 0, 0
				if held := holders[t.Number]; len(held) > 0 {
					permits, total = held[0].Permits, held[0].Total
				}
				calls.Add(1)
				store.Renew(ctx, lockagent.RenewRequest{
					Name: l.Name, Kind: l.Kind, Mode: modeOf(t.Mode),
					Tenure: lockagent.Tenure{Agent: a.ID, Number: t.Number}, Lease: length, Urgent: true,
					Last: t.Last, Permits: permits, Total: total,
				}, func(r lockagent.RenewReply, err error) {
					defer calls.Done()
					mu.Lock()
					defer mu.Unlock()
					if err == nil && r.Held {
						a.confirmed(t, r.At, length, margin, now)
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

// now is the present time on the clock of the agent. It reports false if nobody knows it.
func (a *Agent) now() (lockstate.Instant, bool) {
	passed, known := a.Age()
	return a.Taken.At + lockstate.Instant(passed), known
}

// holders are the requests that hold the lock, by their tenures.
func (l *Lock) holders() map[uint64][]*Request {
	all := make(map[uint64][]*Request)
	for i := range l.Requests {
		if r := &l.Requests[i]; r.Tenure != 0 {
			all[r.Tenure] = append(all[r.Tenure], r)
		}
	}
	return all
}

// leaseOf is the lease that the holders of a tenure need from now on, or 0. kept is the length of a kept lease, if that
// of the tenure is shorter.
func leaseOf(
	t *lockstate.SavedTenure, holders []*Request, kept time.Duration, now lockstate.Instant,
) (lease time.Duration) {
	for _, r := range holders {
		if r.Fixed == 0 {
			lease = max(lease, t.Lease, kept)
		} else if r.Fixed > max(now, t.Deadline) { // the lease of the tenure was shorter
			lease = max(lease, min(r.Fixed.Sub(now)*2, lockagent.MaxLease)) // half of it is always trusted
		}
	}
	return lease
}

func modeOf(m lockstate.Mode) lockagent.Mode {
	if m == lockstate.Shared {
		return lockagent.Shared
	}
	return lockagent.Exclusive
}

// confirmed notes that the store has given a tenure a lease, by a call that was sent at the instant sent.
func (a *Agent) confirmed(
	t *lockstate.SavedTenure, at lockagent.StoreTime, lease, margin time.Duration, sent lockstate.Instant,
) {
	trusted := lockstate.Trust(lease)
	if margin != 0 {
		trusted = lease - min(margin, lease/2)
	}
	now, _ := a.now()
	t.Sent, t.Replied, t.Lease, t.StoreTime = sent, now, lease, at
	t.Deadline = max(t.Deadline, sent+lockstate.Instant(trusted))
	t.Until = max(t.Until, now+lockstate.Instant(lease))
}
