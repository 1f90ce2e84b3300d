package lockagent

import "time"

// Queue is a layer of a [Store]: its locks have queues. A store with a Queue has [Messages], too.
//
// A store may have a queue for each lock: the tenures that wait for the lock, in the order of their arrival. A
// Release then passes the lock to one of them at the same instant, and sends a message to the agent of that tenure
// alone. A store without a queue never reports that it queued a tenure or passed a lock. Its Release wakes all
// waiters: it calls wake for each Subscribe to the lock, and all of them try again.
//
// An Acquire that asks for a place and finds the lock busy gives its tenure a place. Another Acquire of that tenure
// keeps the place. The tenure loses the place when
//
//   - an Acquire of the tenure is granted;
//   - a Release passes the lock to the tenure;
//   - the tenure is released;
//   - the agent of the tenure no longer listens.
//
// A Release passes the lock to the first tenure in the queue whose agent listens. The tenures before that one lose
// their places. If no agent in the queue listens, the lock is free and all waiters are woken. The lease of a pass is
// [PassLease]. The next tenure in the queue gets a [MessageStandby].
//
// Outsiders are programs that do not know of the queue, such as Redisson. They wait for wake-ups. While outsiders
// wait, some releases are for them: such a Release frees the lock, wakes all waiters, and keeps the lock from agents
// for a moment. For outsiders that poll the store may do so when agents have contended for long, also at an Acquire.
//
// Only a Release passes a lock. Break, the end of a lease, a reset and a downgrade do not. A reset empties the queue.
// The queue reserves nothing: an Acquire that finds the lock free is granted, whoever waits.
//
// Without a Queue, the fields of requests, replies and messages that name it are zero, and all waiters are woken by
// wake. Nobody tells a holder that other agents wait, see [Grant.Wanted].
//
// # In an AcquireRequest
//
// Queue asks for a place in the queue if the lock is busy. Subscribe to the lock before that, or the
// place may be lost. After one request with Queue, all requests of that tenure have it. A [SpinLock] and a [Latch] give
// no places.
//
// Arrived is the At of the first reply to the tenure that was Queued, or 0. If that was of several tenures, each has a
// time of its own. A [FairLock] that has lost the place of the tenure puts it just before the first tenure that came
// later, also if the Acquire ends with a [*GraceError].
//
// # In an AcquireReply
//
// Queued says that the tenure has a place in the queue, by this request or an earlier one. From now on a Release may
// pass the lock to the tenure. Only if not granted.
//
// AskWithin is above 0 if another Acquire of the tenure has to follow within that time. The tenure may keep its place
// only by asking. Or another program has the lock, and may release it without a wake-up. Then the first tenure that
// waits asks, and the others need not. An agent wakes those who
// wait. So nobody has to ask if the holder's identity is of [NewAgentID]. Or the tenure is the first that waits for
// permits, and another program may delete the semaphore without a wake-up. Only if queued.
//
// While the store keeps the lock for outsiders, Holder is empty, and Remaining is until the store no longer does.
//
// Outsiders is the number of outsiders that wait, if the request asked for a place or for a tenure that may rest. The
// store may not see all of them.
//
// Contested says of a tenure that was granted: an agent that listens is among the first in the queue, and cannot have
// the lock while this tenure has it. Only if the request asked for a place. A tenure that began without a place is told
// of those who waited before by a [MessageWanted], when they try again.
//
// # In a RenewRequest and its reply
//
// Watched says that a holder wants to know whether others wait. It costs the store some commands.
//
// Contested says that others wait who cannot have the lock while this tenure has it: an agent that listens is among the
// first in the queue, or outsiders wait. The reply says so of a shared tenure, and of any tenure that is Watched. Of a
// [SpinLock] it never does: nothing shows who waits. Beside a shared tenure other readers have the lock, too. So only
// exclusive tenures and outsiders count there, who keep later readers out. Of a semaphore those count who wait for more
// permits than are free.
//
// # In a ReleaseRequest and its reply
//
// Trace is the W3C trace context of the release if it is sampled, or empty. A pass carries it to the next holder. The
// agent leaves it empty, and a store that traces calls adds it.
//
// Passed says that the Release passed the lock to a tenure in the queue, which begins at the At of the reply or later.
// The Release woke nobody then, and Others is 0.
type Queue interface {
	// Queues reports whether locks have queues. A store may have them on some of its servers only. It never blocks, and
	// the answer does not change.
	Queues() bool
}

// PassLease is the lease of a tenure that begins by a pass. It is long enough for the
// message to arrive, and for the agent to renew a long hold in time. Most holds are over
// before. It is short because an agent that hangs keeps the lock from the others for as
// long.
const PassLease = 2 * time.Second
