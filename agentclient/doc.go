// Package agentclient has the locks of the daemon of this host: [Dial] returns the same [channelapi.Locks] as an agent
// in the process would be behind. So everything that package channelapi says holds for them as well.
//
// # Usage
//
//	locks, err := agentclient.Dial(ctx, "") // the daemon of this host
//	if err != nil {
//		return err
//	}
//	defer locks.Close()
//	err = locks.Lock("orders/42").Do(ctx, func(ctx context.Context, g channelapi.Grant) error {
//		return ship(ctx, g.Token())
//	})
//
// # Guarantees
//
// A hold ends with this process: the daemon releases it at once, however the process ends. The daemon tells a deadline
// with each hold, and renews it. If the daemon is silent or stopped, the hold ends at its deadline in this process, by
// a clock that both share. That clock also counts the time for which the machine is suspended.
//
// If the daemon starts anew, the client connects again, and goes on with its claims: they keep lock, token and place.
// What the new daemon says counts. Without a daemon a hold ends at its deadline.
//
// A grant that the application drops without a release is given back, once the garbage collector has found that out.
//
// # Not guaranteed
//
// Another process may be granted a lock that was broken a moment before the holder here has learned of it. As with any
// lock that has a lease, only a resource that checks the token is safe from that.
//
// # What differs from locks in process
//
//   - The settings of the store and the leases are those of the daemon.
//   - [channelapi.Lock.Break] needs the right of an operator. The holder is told the name of the user, and then what
//     the caller said.
//   - An error that matches [channelapi.ErrStoreUnavailable] may also mean that the daemon does not answer.
//   - A change of a semaphore or a latch whose answer was lost is not repeated. The error tells that nobody knows
//     whether it was made.
//   - Requests of this process for one plain or fenced lock share claims: the lock goes from one to the next without
//     the daemon, for up to 64 holds or 2 ms. So other processes get their turn between such runs. A request that waits
//     for longer than 50 ms asks for a claim of its own. The error of one that waited for less names the holder of whom
//     the daemon told when the claim was asked for. Readers of the daemon see claims: not everybody who waits for less
//     than that, and not each hold.
//   - An extension that is asked for while the daemon is away is made when it is back, unless the hold ends before.
//   - A request that waits goes on waiting while the daemon is away, until its context ends or its wait passes. A
//     request with [channelapi.Try] does not.
package agentclient
