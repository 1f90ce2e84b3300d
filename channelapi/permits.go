package channelapi

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/actor"
)

// Semaphore is a handle of a number of permits, with the options of its requests. Programs with
// Redisson's RSemaphore share it. Make one with [Locks.Semaphore]; the zero Semaphore is of no use.
//
// Somebody has to set the number of permits once: see [Semaphore.TrySetPermits]. Until then
// requests wait.
//
// Permits that were acquired here have a lease, which the agent keeps. So they come back if this
// process dies, with the next call of any agent to the semaphore: agents that have permits or wait for some make such
// calls by themselves. Permits that a program with Redisson has taken have none: if that program dies,
// [Semaphore.AddPermits] brings them back.
type Semaphore struct{ permits }

// Permits are a handle of a semaphore, each permit of which has an id and a lease, with the options
// of its requests. Programs with Redisson's RPermitExpirableSemaphore share it. Make one with
// [Locks.Permits]; the zero Permits are of no use.
//
// Somebody has to set the number of permits once: see [Permits.TrySetPermits] and
// [Permits.SetPermits]. Until then requests wait.
type Permits struct{ permits }

// Semaphore returns a handle of the semaphore with that name. Options and errors are as for
// [Locks.Lock].
func (l *Locks) Semaphore(name string, opts ...Option) *Semaphore {
	return &Semaphore{newPermits(l, name, lockagent.Semaphore, opts)}
}

// Permits returns a handle of the semaphore with that name, whose permits have ids and leases. Options
// and errors are as for [Locks.Lock].
func (l *Locks) Permits(name string, opts ...Option) *Permits {
	return &Permits{newPermits(l, name, lockagent.Permits, opts)}
}

// permits is what both kinds of semaphores have.
type permits struct{ of handle }

func newPermits(l *Locks, name string, kind lockagent.LockKind, opts []Option) permits {
	return permits{newHandle(l, nil, name, &actor.Request{Kind: kind}, opts)}
}

// requesting is a handle whose requests are for n permits.
func (p *permits) requesting(n int) *handle {
	h, req := p.of, p.of.request()
	req.Permits = n
	h.req = &req
	if n < 1 && h.wrong() == nil {
		h.err = &OptionError{
			Option: "number of permits", Reason: fmt.Sprintf("%d is less than 1; ask for one or more", n),
		}
	}
	return &h
}

// Name is the name of the semaphore.
func (p *permits) Name() Name { return p.of.name }

// Acquire asks for n permits and waits for the grant, as [Lock.Acquire] does. It gets all of them
// or none. [Grant.Release] gives all of them back. A request for many permits is not kept out by
// requests for few that come later.
//
// A request for more permits than there are waits, because somebody may add some. Bound the wait if nobody will. The
// store knows how many [Permits] there are. So such a request has no place in the queue, until there are enough. A
// [Semaphore] has permits that only Redisson knows of, so there all who come later wait behind it.
//
// If somebody deletes the semaphore meanwhile, or the store loses it, the error is [ErrDeleted].
func (p *permits) Acquire(ctx context.Context, n int) (Grant, error) {
	return p.requesting(n).Acquire(ctx)
}

// AcquireAsync is Acquire for select. The channel is like that of [Lock.AcquireAsync]: the permits
// of a grant that nobody receives go back.
func (p *permits) AcquireAsync(ctx context.Context, n int) <-chan Grant {
	return p.requesting(n).AcquireAsync(ctx)
}

// TryAcquire is Acquire with [Try]: it returns a [*HeldError] if n permits are not free, or are for
// requests that came earlier, and a [*GraceError] if the store waits for the holders of before.
func (p *permits) TryAcquire(ctx context.Context, n int) (Grant, error) {
	return p.requesting(n).TryAcquire(ctx)
}

// Turns is [Lock.Turns] with n permits.
func (p *permits) Turns(ctx context.Context, n int) <-chan Grant { return p.requesting(n).Turns(ctx) }

// Do is [Lock.Do] with n permits.
func (p *permits) Do(ctx context.Context, n int, work func(context.Context, Grant) error) error {
	return p.requesting(n).Do(ctx, work)
}

// DoAsync is [Lock.DoAsync] with n permits.
func (p *permits) DoAsync(ctx context.Context, n int, work func(context.Context, Grant) error) <-chan error {
	return p.requesting(n).DoAsync(ctx, work)
}

// PermitsStatus describes a semaphore at one moment. It may be out of date when the caller reads
// it.
type PermitsStatus struct {
	// Exists is false if nobody has set the number of permits, or the semaphore was deleted.
	Exists bool
	// Free is the number of permits that are free. It is negative if permits were removed that
	// are taken.
	Free int
	// Taken is the number of permits that are taken. Of a [Semaphore] it leaves out those that
	// programs with Redisson have taken: the store does not know of them.
	Taken int
}

// Total is the number of all permits that the store knows of.
func (s PermitsStatus) Total() int { return s.Free + s.Taken }

// Status asks the store for the numbers of the semaphore.
func (p *permits) Status(ctx context.Context) (PermitsStatus, error) {
	return answer(ctx, p.StatusAsync(ctx))
}

// StatusAsync is Status for select. The channel is like that of [Lock.StatusAsync].
func (p *permits) StatusAsync(ctx context.Context) <-chan Result[PermitsStatus] {
	read := lockagent.PermitsRequest{Op: lockagent.ReadPermits}
	return operate(ctx, p, read, func(r lockagent.PermitsReply) (PermitsStatus, error) {
		return PermitsStatus{Exists: r.Exists, Free: r.Free, Taken: r.Taken}, nil
	})
}

// TrySetPermits sets the number of free permits, unless the semaphore exists. It reports whether it
// did. It is for the start of a program: whoever is first sets the number.
//
// TrySetPermits and the other methods that change a number make sure that the change counts once,
// also if the store is silent for a while. If ctx ends first, they return the cause of ctx. If the
// store is silent for too long, the error is [ErrStoreUnavailable]. In both cases the change may have
// taken effect. If the store waits for the holders of before, so does the change: usually for less than a second. If
// the store has refused the change for half a minute, the error is a [*GraceError], and nothing has changed.
func (p *permits) TrySetPermits(ctx context.Context, n int) (bool, error) {
	return answer(ctx, p.TrySetPermitsAsync(ctx, n))
}

// TrySetPermitsAsync is TrySetPermits for select. The channel is like that of [Lock.StatusAsync].
func (p *permits) TrySetPermitsAsync(ctx context.Context, n int) <-chan Result[bool] {
	return operate(ctx, p, lockagent.PermitsRequest{Op: lockagent.TrySetPermits, N: n}, done)
}

// AddPermits adds n permits, or removes some if n is negative. It returns the number of permits that
// are free then. That is negative if permits were removed that are taken: nobody is granted any until
// enough came back. AddPermits creates the semaphore if it does not exist. It is an [OptionError], and the number
// does not change, if there would be more than [lockagent.MaxPermits], free or taken, or fewer than -MaxPermits.
func (p *permits) AddPermits(ctx context.Context, n int) (free int, err error) {
	return answer(ctx, p.AddPermitsAsync(ctx, n))
}

// AddPermitsAsync is AddPermits for select. The channel is like that of [Lock.StatusAsync].
func (p *permits) AddPermitsAsync(ctx context.Context, n int) <-chan Result[int] {
	add := lockagent.PermitsRequest{Op: lockagent.AddPermits, N: n}
	return operate(ctx, p, add, func(r lockagent.PermitsReply) (int, error) { return r.Free, nil })
}

// Delete deletes the semaphore. It reports whether it existed. All holders lose their permits: they
// learn of it by their next renewal. All requests that wait end with [ErrDeleted].
func (p *permits) Delete(ctx context.Context) (bool, error) { return answer(ctx, p.DeleteAsync(ctx)) }

// DeleteAsync is Delete for select. The channel is like that of [Lock.StatusAsync].
func (p *permits) DeleteAsync(ctx context.Context) <-chan Result[bool] {
	return operate(ctx, p, lockagent.PermitsRequest{Op: lockagent.DeletePermits}, done)
}

// Drain removes all permits that are free, and returns how many they were.
func (s *Semaphore) Drain(ctx context.Context) (int, error) { return answer(ctx, s.DrainAsync(ctx)) }

// DrainAsync is [Semaphore.Drain] for select. The channel is like that of [Lock.StatusAsync].
func (s *Semaphore) DrainAsync(ctx context.Context) <-chan Result[int] {
	drain := lockagent.PermitsRequest{Op: lockagent.DrainPermits}
	return operate(ctx, &s.permits, drain, func(r lockagent.PermitsReply) (int, error) { return r.N, nil })
}

// SetPermits sets the number of all permits: those that are free and those that are taken. If more
// than n are taken, nobody is granted any until enough came back.
func (p *Permits) SetPermits(ctx context.Context, n int) error {
	return confirmed(ctx, p.SetPermitsAsync(ctx, n))
}

// SetPermitsAsync is [Permits.SetPermits] for select. The channel has capacity 1, delivers one value, is
// then closed by the agent, and needs no reader.
func (p *Permits) SetPermitsAsync(ctx context.Context, n int) <-chan error {
	return changed(ctx, p, lockagent.PermitsRequest{Op: lockagent.SetPermits, N: n})
}

// ReleaseID gives back one permit, whoever has it. The error is [ErrNoPermit] if no such permit is
// taken. To give back a grant of this process, use [Grant.Release].
//
// The ids of a grant are [lockagent.Grant.PermitIDs]. They are the text that Redisson has. If somebody
// releases one of them, the whole grant is lost: its holder learns of that by its next renewal.
func (p *Permits) ReleaseID(ctx context.Context, id PermitID) error {
	return confirmed(ctx, p.ReleaseIDAsync(ctx, id))
}

// ReleaseIDAsync is [Permits.ReleaseID] for select. The channel is like that of [Permits.SetPermitsAsync].
func (p *Permits) ReleaseIDAsync(ctx context.Context, id PermitID) <-chan error {
	return changed(ctx, p, lockagent.PermitsRequest{Op: lockagent.ReleasePermit, ID: id})
}

// ExtendID starts the lease of one permit anew, whoever has it. It ends when d has passed, unless it ends
// later already. A permit that Java took without a lease gets one. The error is
// [ErrNoPermit] if no such permit is taken. It is for permits that another program took. The
// agent extends the leases of its grants by itself, and [Grant.Extend] extends a fixed one.
func (p *Permits) ExtendID(ctx context.Context, id PermitID, d time.Duration) error {
	return confirmed(ctx, p.ExtendIDAsync(ctx, id, d))
}

// ExtendIDAsync is [Permits.ExtendID] for select. The channel is like that of [Permits.SetPermitsAsync].
func (p *Permits) ExtendIDAsync(ctx context.Context, id PermitID, d time.Duration) <-chan error {
	return changed(ctx, p, lockagent.PermitsRequest{Op: lockagent.ExtendPermit, ID: id, Lease: d})
}

func done(r lockagent.PermitsReply) (bool, error) { return r.Done, nil }

// changed makes a change whose only outcome is an error.
func changed(ctx context.Context, p *Permits, req lockagent.PermitsRequest) <-chan error {
	reply := operate(ctx, &p.permits, req, done)
	return async(func() error {
		r := <-reply
		if r.Err == nil && !r.Value { // only an id can be unknown
			return ErrNoPermit
		}
		return r.Err
	})
}

// graceFor bounds the time for which a change waits for the end of a grace period.
const graceFor = 30 * time.Second

// operate reads or changes the numbers of a semaphore. read makes the value of the reply. A change that a grace period
// refuses has no effect, so it is made again.
func operate[T any](
	ctx context.Context, p *permits, req lockagent.PermitsRequest, read func(lockagent.PermitsReply) (T, error),
) <-chan Result[T] {
	err := p.of.wrong()
	if err == nil {
		err = lockagent.CauseOf(ctx)
	}
	if err != nil {
		return delivered(Result[T]{Err: err})
	}
	req.Name, req.Kind = p.of.name, p.of.req.Kind
	reply := p.of.locks.agent.Permits(ctx, req)
	return async(func() (out Result[T]) {
		r := <-reply
		for until := time.Now().Add(graceFor); errors.Is(r.Err, ErrGrace) && time.Now().Before(until); {
			select {
			case <-time.After(actor.GraceRetry):
				r = <-p.of.locks.agent.Permits(ctx, req)
			case <-ctx.Done():
				return Result[T]{Err: lockagent.CauseOf(ctx)}
			}
		}
		if out.Err = r.Err; r.Err == nil {
			out.Value, out.Err = read(r.Value)
		}
		return out
	})
}
