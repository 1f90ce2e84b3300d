package lockagent

import "slices"

// LockKind says what a name stands for. In a request, the empty LockKind is [PlainLock]. One name
// stands for one kind: see [KindError].
//
// All kinds have the calls of a [Store], and the same rules hold for them, unless the comment of the kind says
// otherwise. If what the store has under the name shows that the name is in use as another kind, Acquire, Break and
// Inspect end with a [*KindError].
//
// A tenure that has the lock shows the kind to every Acquire, Break and Inspect of another tenure, also if it was
// passed the lock. Three holders may show none: a program that is no agent, an agent whose identity is not of
// [NewAgentID], and an agent of an earlier version. Then plain, fair, fenced and spin locks may look alike to a
// store. Those who wait show nothing. Nor need a latch that is closed, or a semaphore of which nobody has permits.
type LockKind string

// The kinds. Each is written in the store as Redisson writes it. A log may have others.
const (
	// PlainLock is a lock with one holder at a time.
	PlainLock LockKind = "plain"
	// FairLock is a lock that is granted in the order in which its waiters came, in all
	// agents.
	//
	// Each tenure that waits has a place of its own, also beside others of its agent. A free lock is
	// for the first place whose program lives. Nobody overtakes that one: the call that frees the
	// lock, or comes upon a free lock, passes it on. Such a call may be a Release, a Break, or an
	// Acquire of another tenure, which then finds the lock busy. A place is kept by asking, see
	// [AcquireReply].AskWithin. A tenure that does not ask may lose its place. When it asks again, it
	// gets one by the time when it came, see [Queue].
	//
	// Other programs, such as Redisson, have places in the same queue, and there are no turns for
	// outsiders. If the first place is theirs, the store tells them, and keeps the lock for them for some
	// seconds. An Acquire then finds the lock busy, without a holder. Outsiders in the reply counts such
	// programs that may be ahead. When they release the lock, and the first place is that of a tenure,
	// its agent gets a [MessageStandby] whose AskAfter is 0. So does it in a store that never passes a
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
	//
	// Contends in a request says that the agent found the lock busy before, or returned it while requests
	// waited. So the store knows when those that poll need a turn. A store without such programs need not
	// look at it.
	SpinLock LockKind = "spin"
	// Semaphore has a number of permits. Redisson's side of it knows no leases.
	Semaphore LockKind = "semaphore"
	// Permits are a semaphore, each permit of which has an id and a lease.
	Permits LockKind = "permits"
	// Latch is a counter, and waiters wait until it is 0. Nobody holds it: see [Counters].
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

// Mode says beside which other holds a hold may be. In a request, the empty Mode is [Exclusive]. A store without
// [ReadWriteLock] has exclusive tenures only, and need not look at the Mode.
//
// A tenure has a [Mode]. A [ReadWriteLock] is held by one tenure of the mode [Exclusive], or by several of the mode
// [Shared]. Each of them has a lease of its own, and ends by itself. The lock is free when the last one has ended.
// All other locks have exclusive tenures only.
//
// Tenures that share a lock take their tokens side by side, so two of their holds may have the same token. The time T
// of a tenure is greater than every T before, and greater than all tokens of the tenures that have ended.
//
// The Holder in a reply is any of those that share the lock, and Remaining is what is left of the lease that ends last.
//
// A tenure is released also if others still share the lock. Nobody is woken then.
//
// An Acquire for a shared tenure is also granted if only shared tenures have the lock: it joins them. It does not
// join them while an exclusive tenure has a place ahead of it in the queue, and the agent of that one listens. Nor
// does it while outsiders wait, because they may want the lock for themselves. So readers who come and go in many
// agents do not keep a writer out.
//
// Another program may end the lock while tenures share it. Then they are over.
//
// A shared tenure never becomes exclusive. An exclusive tenure becomes shared by a Renew that asks for it: the
// downgrade. An Acquire of a tenure that has the lock does not change its mode.
//
// When a lock is passed to a shared tenure, it is also passed to the shared tenures that follow in the queue, up to
// the first exclusive one. A store may pass the lock to the first few of them only, and wake the others.
//
// All waiters are woken when a lock that is held becomes open for readers: by a downgrade, or because an exclusive
// tenure that waited ahead of them was released. The shared tenures then ask, and join.
type Mode string

// The modes.
const (
	// Exclusive: beside none but those of the same session.
	Exclusive Mode = "exclusive"
	// Shared: beside other shared holds. Only a [ReadWriteLock] has shared holds.
	Shared Mode = "shared"
)
