// Package channelapi is what applications import: locks and sessions, with results that
// come on channels made for select.
//
// # Usage
//
// Open the locks of a process once, over a store. Close them at the end, and the store
// after them:
//
//	store, err := redisstore.Open(ctx, "redis://localhost:6379")
//	...
//	defer store.Close()
//	locks, err := channelapi.New(channelapi.Config{Store: store})
//	...
//	defer locks.Close()
//
// Most programs want [Lock.Do]. It acquires a lock, does some work under it, and releases
// it. The work has a context that ends when the lock is lost, and Do returns the loss:
//
//	lock := locks.Lock("orders/"+id, channelapi.Wait(5*time.Second))
//	err := lock.Do(ctx, func(ctx context.Context, g channelapi.Grant) error {
//		return charge(ctx, id, g.Token())
//	})
//	switch {
//	case errors.Is(err, channelapi.ErrStoreUnavailable): // nobody knows who holds it: 503
//	case errors.Is(err, channelapi.ErrTimeout): // somebody else holds it: 409
//	}
//
// A verb waits for its outcome; the same verb with Async returns at once, and the
// outcome comes on a channel. So a select can wait for a lock and for anything else:
//
//	ctx, cancel := context.WithCancel(ctx)
//	defer cancel() // gives the request back, or the grant
//	select {
//	case g := <-lock.AcquireAsync(ctx):
//		if err := g.Err(); err != nil {
//			return err // never "held"
//		}
//		...
//		return g.Release(context.WithoutCancel(ctx))
//	case <-quit:
//		return nil
//	}
//
// A select in a loop would make a new request in each turn of it. There, take [Lock.Turns]
// once, before the loop:
//
//	turns := lock.Turns(ctx)
//	for {
//		select {
//		case g := <-turns:
//			...
//			g.Release(ctx)
//		case <-tick:
//		}
//	}
//
// [DoAll] and [All] take several locks, [First] whichever is free.
//
// # Sessions
//
// Without a session every request is an owner of its own. Asking twice waits for oneself,
// until the context ends, and only the [Grant] can release. A [Session] is an owner with
// a name that may hold a lock several times, from any goroutine. There is no other
// re-entrancy. A [SessionLock] can release what its session holds.
//
// # Releasing
//
// Release says whether the hold had been lost before, so look at its error: work that was
// done under a lost lock may have met somebody else's. A deferred call would throw that
// away; Do does not. The context of the work may have ended when the lock is released. The
// lock is then released all the same, but Release returns without having heard. Therefore
// the release has a context of its own: context.WithoutCancel(ctx) keeps the trace.
//
// # Guarantees
//
// Every channel of one outcome has capacity 1, delivers one value, is then closed by the
// sender, and needs no reader. A grant that nobody received goes back when the context of
// its request ends, or after Config.Claim. So leave the select and forget the channel, but
// do end the context.
//
// A grant's context ends before anybody else can be granted the lock, as long as this
// process runs.
//
// # Not guaranteed
//
// A process that is suspended for longer than its lease works on until it notices. Pass
// [lockagent.Grant.Token] with every write, and let the resource refuse tokens that are smaller than
// the greatest it has seen.
//
// Locks that are acquired one after the other can wait for each other in a circle, until
// a wait ends. All and DoAll order the locks that they are given, but cannot order what
// is held already.
//
// # Concurrency
//
// All types are safe for concurrent use.
//
// # Testing
//
// Use memstore for the store. In a testing/synctest bubble, leases and waits of hours pass
// in milliseconds. Two Locks over one memstore are two processes.
package channelapi
