package channelapi

import (
	"context"

	"github.com/lockagent/lockagent"
)

// Latch is a handle of one latch: a count that anybody may count down, and waiters that wait until
// it is 0. Nobody holds a latch. Make a handle with [Locks.Latch]; the zero Latch is of no use.
//
// A latch is open as long as nobody has set it, and again when it was counted down to 0 or deleted.
// A latch never expires.
type Latch struct {
	locks *Locks
	name  Name
}

// Latch returns a handle of the latch with that name. A handle needs no closing. If the name is wrong,
// every use of the handle returns the error.
func (l *Locks) Latch(name string) *Latch { return &Latch{locks: l, name: Name(name)} }

// Name is the name of the latch.
func (l *Latch) Name() Name { return l.name }

// Set closes the latch for as many calls of [Latch.CountDown]. count is between 1 and
// [lockagent.MaxLatch]. The error is [ErrLatchSet] if the latch is closed already: its count stays.
func (l *Latch) Set(ctx context.Context, count int64) error {
	return confirmed(ctx, l.SetAsync(ctx, count))
}

// SetAsync is [Latch.Set] for select. The channel has capacity 1, delivers one value, is then closed by
// the agent, and needs no reader. The same holds for the other channels of a Latch.
//
// While the store cannot be reached, the agent tries again for up to 45 s, or until ctx ends. However
// often it tries, the latch changes once. The error is then [ErrStoreUnavailable], or the cause
// of ctx: the change may have been made.
func (l *Latch) SetAsync(ctx context.Context, count int64) <-chan error {
	return then(l.ask(
		ctx, lockagent.LatchRequest{Op: lockagent.LatchSet, Count: count},
	), func(r lockagent.LatchReply, err error) error {
		if err == nil && !r.Changed {
			return ErrLatchSet
		}
		return err
	})
}

// CountDown takes one from the count. It returns what is left. When nothing is left, the latch is open,
// and all waiters go on. The error is [ErrNoLatch] if the latch was open before.
func (l *Latch) CountDown(ctx context.Context) (left int64, err error) {
	return answer(ctx, l.CountDownAsync(ctx))
}

// CountDownAsync is [Latch.CountDown] for select. See [Latch.SetAsync] for what it does while the store cannot
// be reached.
func (l *Latch) CountDownAsync(ctx context.Context) <-chan Result[int64] {
	return then(l.ask(
		ctx, lockagent.LatchRequest{Op: lockagent.LatchDown},
	), func(r lockagent.LatchReply, err error) Result[int64] {
		if err == nil && !r.Changed {
			err = ErrNoLatch
		}
		return Result[int64]{Value: r.Count, Err: err}
	})
}

// Count returns how often the latch has to be counted down until it is open. It is 0 if the latch is
// open.
func (l *Latch) Count(ctx context.Context) (int64, error) { return answer(ctx, l.CountAsync(ctx)) }

// CountAsync is [Latch.Count] for select.
func (l *Latch) CountAsync(ctx context.Context) <-chan Result[int64] {
	return then(l.ask(
		ctx, lockagent.LatchRequest{Op: lockagent.LatchRead},
	), func(r lockagent.LatchReply, err error) Result[int64] {
		return Result[int64]{Value: r.Count, Err: err}
	})
}

// Delete deletes the latch. It reports whether the latch was closed. Its waiters end with
// [ErrLatchGone]. (Redisson's waiters go on waiting.)
func (l *Latch) Delete(ctx context.Context) (bool, error) { return answer(ctx, l.DeleteAsync(ctx)) }

// DeleteAsync is [Latch.Delete] for select. See [Latch.SetAsync] for what it does while the store cannot be
// reached.
func (l *Latch) DeleteAsync(ctx context.Context) <-chan Result[bool] {
	return then(l.ask(
		ctx, lockagent.LatchRequest{Op: lockagent.LatchDelete},
	), func(r lockagent.LatchReply, err error) Result[bool] {
		return Result[bool]{Value: r.Changed, Err: err}
	})
}

// Await waits until the latch is open. The end of ctx ends the wait, with a [*WaitError]. If
// the latch disappears without being counted down, because somebody deleted it, it expired, or the store
// lost its data, the error is [ErrLatchGone]. Await never hangs on a lost message: the agent looks at
// the latch from time to time.
func (l *Latch) Await(ctx context.Context) error {
	// The agent watches ctx, and answers with an error that tells more than the cause of ctx.
	return <-l.AwaitAsync(ctx)
}

// AwaitAsync is [Latch.Await] for select. It waits until ctx ends, also if nobody reads the channel.
func (l *Latch) AwaitAsync(ctx context.Context) <-chan error {
	if l.locks == nil {
		return delivered[error](errNoHandle)
	}
	return l.locks.agent.Await(ctx, l.name, l.locks.newOwner(), 0)
}

// then delivers what f makes of the answer.
func then[T any](answered <-chan Result[lockagent.LatchReply], f func(lockagent.LatchReply, error) T) <-chan T {
	return async(func() T {
		r := <-answered
		return f(r.Value, r.Err)
	})
}

func (l *Latch) ask(ctx context.Context, req lockagent.LatchRequest) <-chan Result[lockagent.LatchReply] {
	req.Name = l.name
	err := error(errNoHandle)
	if l.locks != nil {
		err = lockagent.CauseOf(ctx)
	}
	if err != nil {
		return delivered(Result[lockagent.LatchReply]{Err: err})
	}
	return l.locks.agent.Latch(ctx, req)
}
