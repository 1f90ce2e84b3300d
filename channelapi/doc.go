// Package channelapi is what applications import: locks and sessions whose
// results come back on channels, made for select.
//
// # Usage
//
// Open the locks of a process once, over a store, and close them at the end:
//
//	store, err := redisstore.Open(ctx, "redis://localhost:6379")
//	...
//	locks, err := channelapi.New(channelapi.Config{Store: store})
//	...
//	defer locks.Close()
//
// Ask for a lock in a select, beside whatever else the goroutine waits for:
//
//	wait, cancel := context.WithTimeout(ctx, 5*time.Second) // bounds the wait, not the hold
//	defer cancel()
//	select {
//	case g := <-locks.Lock("orders/42").Acquire(wait):
//		if err := g.Err(); err != nil {
//			return err // never "held"
//		}
//		defer g.Unlock(context.Background())
//		return charge(g.Context(ctx), g.Token())
//	case <-quit:
//		return nil // cancel gives the request, or the grant, back
//	}
//
// Everything has a channel form, and a blocking one where a person would want it:
// [Lock.Acquire] and [Lock.Lock], [lockagent.Grant.ReleaseAsync] and
// [lockagent.Grant.Release], [Lock.Status] and [Lock.Inspect]. [Await], [First],
// [All] and [Then] combine requests.
//
// # Sessions
//
// Without a session every request is an owner of its own: asking twice waits for
// oneself, until the context ends. A [Session] is an owner with a name that may
// hold a lock several times, from any goroutine. There is no other re-entrancy.
//
// # Guarantees
//
// Every channel from this package has capacity 1, delivers one value, is then
// closed by the sender, and needs no reader. A grant that nobody received goes
// back when the context of its request ends, or after Config.Claim: leave the
// select and forget the channel, but do end the context.
//
// # Not guaranteed
//
// A grant says that the lock was held when it was made. Work under
// [lockagent.Grant.Context], and pass [lockagent.Grant.Token] to the resource.
//
// # Concurrency
//
// All types are safe for concurrent use.
//
// # Testing
//
// Use memstore for the store. In a testing/synctest bubble, leases and waits of
// hours pass in milliseconds.
package channelapi
