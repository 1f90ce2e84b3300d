// Package channelapi is the package that applications import: locks and sessions, with
// results that come on channels made for select.
//
// # Usage
//
// Open the locks of a process once, over a store. At the end, shut the locks down and then
// close the store:
//
//	store, err := redisstore.Open(ctx, "redis://localhost:6379")
//	...
//	defer store.Close()
//	locks, err := channelapi.New(channelapi.Config{Store: store})
//	...
//	defer locks.Close() // or locks.Shutdown(ctx), which lets the holders finish
//
// Most programs need only [Lock.Do]. It acquires a lock, runs a function under the lock, and
// releases it. The function gets a context that ends when the lock is lost. Do then returns
// the loss:
//
//	lock := locks.Lock("orders/"+id, channelapi.Wait(5*time.Second))
//	err := lock.Do(ctx, func(ctx context.Context, g channelapi.Grant) error {
//		return charge(ctx, id, g.Token())
//	})
//	switch {
//	case errors.Is(err, channelapi.ErrStoreUnavailable): // 503: nobody knows who holds it
//	case errors.Is(err, channelapi.ErrTimeout): // 409: somebody else holds it
//	case errors.Is(err, channelapi.ErrLost): // somebody else may have worked at the same time
//	}
//
// The first two are [*WaitError] values. They name the holder, or tell how long the store has
// been silent.
//
// # Channels
//
// A method such as Acquire waits for its outcome. AcquireAsync returns at once, and the
// outcome comes on a channel. So a select can wait for a lock and for something else:
//
//	ctx, cancel := context.WithCancel(ctx)
//	defer cancel() // gives the request back, or the grant
//	select {
//	case g := <-lock.AcquireAsync(ctx):
//		if err := g.Err(); err != nil {
//			return err // the lock is not held
//		}
//		...
//		return g.Release(context.WithoutCancel(ctx))
//	case <-quit:
//		return nil
//	}
//
// A select in a loop would make a new request in each iteration. Call [Lock.Turns] once,
// before the loop:
//
//	turns := lock.Turns(ctx)
//	for {
//		select {
//		case g := <-turns:
//			if err := g.Err(); err != nil {
//				return err // there are no more turns
//			}
//			...
//			if err := g.Release(context.WithoutCancel(ctx)); err != nil {
//				log.Print(err)
//			}
//		case <-tick:
//		}
//	}
//
// [DoAll] and [All] take several locks. [First] takes the first that is free.
//
// # Sessions
//
// A request without a session has an owner of its own. So a second request for a lock waits
// for the first, in the same goroutine, too. Only the [Grant] can release such a hold.
//
// A [Session] is an owner with a name. It may acquire a lock again that it holds already
// (re-entry), from any goroutine. There is no other re-entrancy. A [SessionLock] can release
// the lock without the grant.
//
// # Kinds of locks
//
// Every kind below makes a [Lock], so all that is said here of locks is true of it. A name stands for one
// kind: see [KindError].
//
//   - [Locks.Lock]: one holder at a time.
//   - [Locks.FairLock]: the same, in the order in which requests came, from all processes.
//   - [Locks.ReadLock] and [Locks.WriteLock]: many readers or one writer.
//   - [Locks.FencedLock]: its tokens grow together with those of Redisson's RFencedLock.
//   - [Locks.SpinLock]: who waits asks again and again, as with Redisson's RSpinLock.
//
// A [Session] has them all. Semaphores and latches are no Locks, and sessions do not have them:
//
//   - [Locks.Semaphore] and [Locks.Permits]: several permits at once.
//   - [Locks.Latch]: a count, and waiters that wait until it is 0.
//
// # Semaphores
//
// A [Semaphore] and [Permits] have a number of permits, and their methods take how many a request
// wants. Somebody sets the number once:
//
//	workers := locks.Semaphore("workers")
//	_, err := workers.TrySetPermits(ctx, 10) // does nothing if it is set
//	...
//	err = workers.Do(ctx, 3, func(ctx context.Context, g channelapi.Grant) error { ... })
//
// A grant has all of its permits until its release. Each of the Permits also has an id, by which
// another process can give it back.
//
// # Releasing
//
// Release returns a [*LostError] if the hold had been lost: the work may have overlapped
// with the work of another holder. So check the error of Release. A deferred Release throws
// it away; Do does not.
//
// The context of the work may have ended before the release. Release with such a context
// releases the lock, but does not wait for the outcome. So give it another context:
// context.WithoutCancel(ctx) has the values of ctx, such as a trace.
//
// # Guarantees
//
// Every channel of one outcome has capacity 1, delivers one value, is then closed by the
// sender, and needs no reader. A grant that nobody received goes back when the context of
// its request ends, or after Config.Claim. So a program may leave the select and forget the
// channel, but must end the context. [FirstAsync] and [AllAsync] close their channels only
// when no grant can go back any more.
//
// A grant's context ends before anybody else can be granted the lock. There are three
// exceptions: the process did not run, the store forgot the lock and has no grace period, see [lockagent.Grace], or
// another process deleted or broke it. The context then ends as soon as this process learns of the loss.
//
// # Not guaranteed
//
// A process that is suspended for longer than its lease goes on with the work until it
// notices. Pass [lockagent.Grant.Token] with every write. Let the resource refuse tokens
// smaller than the greatest it has seen.
//
// Callers that acquire several locks, one after the other, can wait for each other in a
// circle. All and DoAll wait for the locks of one call in the order of the names. That does
// not help if the caller holds other locks already.
//
// A nil context is a mistake in the program: the call may panic, as those of package context do. It does so in the
// goroutine of its caller, and nothing is acquired. Pass [context.Background] to a call that nothing bounds.
//
// # Concurrency
//
// All types are safe for concurrent use.
//
// # Testing
//
// Use memstore for the store. In a testing/synctest bubble, hours of leases and waits pass in
// milliseconds. Each Locks stands for one process. Two of them contend for the same locks
// if the second has the Share of the first one's store.
package channelapi
