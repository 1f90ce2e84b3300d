package lockagent

import "slices"

// LockKind says what a name stands for. In a request, the empty LockKind is [PlainLock]. One name
// stands for one kind: see [KindError].
type LockKind string

// The kinds. Each is written in the store as Redisson writes it. A log may have others.
const (
	// PlainLock is a lock with one holder at a time.
	PlainLock LockKind = "plain"
	// FairLock is a lock that is granted in the order in which its waiters came, in all
	// agents.
	//
	// Each tenure that waits has a place of its own, also beside others of its agent. A free lock is
	// for the first place whose program lives, and nobody overtakes that one: the call that frees the
	// lock, or comes upon a free lock, passes it on. Such a call may be a Release, a Break, or an
	// Acquire of another tenure, which then finds the lock busy. A place is kept by asking, see
	// [AcquireReply].AskWithin. A tenure that does not ask may lose its place, and gets the last one
	// when it asks again.
	//
	// Other programs, such as Redisson, have places in the same queue, and there are no turns for
	// outsiders. If the first place is theirs, the store tells them, and keeps the lock for them for some
	// seconds. An Acquire then finds the lock busy, without a holder. Outsiders in the reply counts such
	// programs that may be ahead. When they release the lock, and the first place is that of a tenure,
	// its agent gets a [MessageStandby] whose Remaining is 0. So does it in a store that never passes a
	// lock.
	FairLock LockKind = "fair"
	// ReadWriteLock has one holder in the mode [Exclusive], or several in the mode [Shared].
	ReadWriteLock LockKind = "readwrite"
	// FencedLock is a plain lock whose tokens other programs have, too, such as Redisson. A tenure
	// may not begin at the time of the store's clock. It begins above every token that they have had,
	// also if that is ahead of the store's clock.
	FencedLock LockKind = "fenced"
	// SpinLock is a plain lock whose waiters ask again and again: nobody is woken, and nobody has a
	// place in a queue. A subscription to it is told that it stands, and no more.
	SpinLock LockKind = "spin"
	// Semaphore has a number of permits. Redisson's side of it knows no leases.
	Semaphore LockKind = "semaphore"
	// Permits are a semaphore, each permit of which has an id and a lease.
	Permits LockKind = "permits"
	// Latch is a counter, and waiters wait until it is 0. Nobody holds it: see [Store].
	Latch LockKind = "latch"
)

var lockKinds = []LockKind{PlainLock, FairLock, ReadWriteLock, FencedLock, SpinLock, Semaphore, Permits, Latch}

// LockKinds returns every kind.
func LockKinds() []LockKind { return slices.Clone(lockKinds) }

// OrPlain is k, or [PlainLock] if k is empty.
func (k LockKind) OrPlain() LockKind {
	if k == "" {
		return PlainLock
	}
	return k
}

// Mode says beside which other holds a hold may be. In a request, the empty Mode is [Exclusive].
type Mode string

// The modes.
const (
	// Exclusive: beside none but those of the same session.
	Exclusive Mode = "exclusive"
	// Shared: beside other shared holds. Only a [ReadWriteLock] has shared holds.
	Shared Mode = "shared"
)
