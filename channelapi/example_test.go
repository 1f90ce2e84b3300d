package channelapi_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/memstore"
)

// A program opens its locks once. At the end it closes them, and then their store. In between
// it runs functions under a lock.
func Example() {
	store := memstore.New() // or redisstore.Open
	defer store.Close()
	locks, err := channelapi.New(channelapi.Config{Store: store})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	charge := func(ctx context.Context, id string) error {
		lock := locks.Lock("orders/"+id, channelapi.Wait(5*time.Second))
		return lock.Do(ctx, func(ctx context.Context, g channelapi.Grant) error {
			fmt.Println("charging under", g.Name(), "with a token:", g.Token() > 0)
			return ctx.Err() // ctx ends with the hold
		})
	}
	fmt.Println(charge(context.Background(), "42"))
	// Output:
	// charging under orders/42 with a token: true
	// <nil>
}

// theLocks are the locks of the examples below.
func theLocks() *channelapi.Locks {
	locks, err := channelapi.New(channelapi.Config{Store: memstore.New()})
	if err != nil {
		log.Fatal(err)
	}
	return locks
}

// Do returns the loss of the hold.
func ExampleLock_Do() {
	locks := theLocks()
	defer locks.Close()
	ctx := context.Background()

	err := locks.Lock("orders/42").Do(ctx, func(ctx context.Context, _ channelapi.Grant) error {
		_, err := locks.Lock("orders/42").Break(ctx, "olga") // an operator thinks that we hang
		return err
	})
	if lost, ok := errors.AsType[*channelapi.LostError](err); ok {
		fmt.Println("somebody else may have been at work, for our lock is", lost.Reason)
	}
	// Output:
	// somebody else may have been at work, for our lock is broken
}

// The outcome of the work comes on a channel, for select.
func ExampleLock_DoAsync() {
	locks := theLocks()
	defer locks.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	quit := make(chan struct{})

	done := locks.Lock("report").DoAsync(ctx, func(context.Context, channelapi.Grant) error {
		fmt.Println("reporting")
		return nil
	})
	select {
	case err := <-done:
		fmt.Println("done:", err)
	case <-quit:
	}
	// Output:
	// reporting
	// done: <nil>
}

// DoAll acquires the locks in the order of their names. So two transfers in opposite
// directions do not wait for each other.
func ExampleDoAll() {
	locks := theLocks()
	defer locks.Close()

	err := channelapi.DoAll(context.Background(), func(_ context.Context, grants []channelapi.Grant) error {
		for _, g := range grants {
			fmt.Println("holding", g.Name())
		}
		return nil
	}, locks.Lock("accounts/bob"), locks.Lock("accounts/alice"))
	fmt.Println(err)
	// Output:
	// holding accounts/bob
	// holding accounts/alice
	// <nil>
}

// A program that holds a lock for longer than one function uses Acquire and Release. The
// context of the work may have ended before the release. So Release gets another context,
// and waits to hear whether the hold had been lost.
func ExampleLock_Acquire() {
	locks := theLocks()
	defer locks.Close()
	ctx := context.Background()

	grant, err := locks.Lock("orders/42").Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	work := grant.Context(ctx)
	fmt.Println("working:", work.Err() == nil)
	fmt.Println("released:", grant.Release(context.WithoutCancel(ctx)))
	// Output:
	// working: true
	// released: <nil>
}

// The grant comes on a channel, so a select can wait for the lock and for something else.
func ExampleLock_AcquireAsync() {
	locks := theLocks()
	defer locks.Close()
	if _, err := locks.Lock("orders/42").Acquire(context.Background()); err != nil {
		log.Fatal(err)
	}
	quit := make(chan struct{})
	go close(quit)

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel() // gives the request back, or the grant if it comes at this moment
	select {
	case grant := <-locks.Lock("orders/42").AcquireAsync(ctx):
		if err := grant.Err(); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("holding the lock")
	case <-quit:
		fmt.Println("there are more important things to do")
	}
	// Output:
	// there are more important things to do
}

// A loop has one request at a time.
func ExampleLock_Turns() {
	locks := theLocks()
	defer locks.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	tick := time.NewTicker(time.Hour)
	defer tick.Stop()

	turns := locks.Lock("queue").Turns(ctx) // before the loop
	for n := 1; ; n++ {
		select {
		case grant := <-turns:
			if err := grant.Err(); err != nil {
				fmt.Println("no more turns:", errors.Is(err, context.Canceled))
				return
			}
			fmt.Println("turn", n)
			if n == 2 {
				cancel()
			}
			if err := grant.Release(context.WithoutCancel(ctx)); err != nil {
				log.Fatal(err)
			}
		case <-tick.C:
			fmt.Println("and now for something else")
		}
	}
	// Output:
	// turn 1
	// turn 2
	// no more turns: true
}

func ExampleLock_TryAcquire() {
	locks := theLocks()
	defer locks.Close()
	ctx := context.Background()

	first, err := locks.Lock("cleanup").TryAcquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = locks.Lock("cleanup").TryAcquire(ctx)
	fmt.Println("somebody else cleans up:", errors.Is(err, channelapi.ErrHeld))
	fmt.Println("released:", first.Release(ctx))
	// Output:
	// somebody else cleans up: true
	// released: <nil>
}

// The error tells a lock that is held from a store that is silent.
func ExampleWait() {
	locks := theLocks()
	defer locks.Close()
	ctx := context.Background()
	session, err := locks.Session("importer")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := session.Lock("orders/42").Acquire(ctx); err != nil {
		log.Fatal(err)
	}

	_, err = locks.Lock("orders/42", channelapi.Wait(10*time.Millisecond)).Acquire(ctx)
	if wait, ok := errors.AsType[*channelapi.WaitError](err); ok {
		fmt.Println("timed out:", wait.TimedOut)
		fmt.Println("held by:", wait.Holder)
		fmt.Println("the store is silent:", errors.Is(err, channelapi.ErrStoreUnavailable))
	}
	// Output:
	// timed out: true
	// held by: importer
	// the store is silent: false
}

// A fixed lease ends by itself, and its holder is told so.
func ExampleLease() {
	locks := theLocks()
	defer locks.Close()

	lock := locks.Lock("orders/42", channelapi.Lease(100*time.Millisecond))
	err := lock.Do(context.Background(), func(ctx context.Context, _ channelapi.Grant) error {
		<-ctx.Done()
		return context.Cause(ctx)
	})
	if lost, ok := errors.AsType[*channelapi.LostError](err); ok {
		fmt.Println("stopped, because the hold is", lost.Reason)
	}
	// Output:
	// stopped, because the hold is expired
}

// A session is an owner that may hold a lock several times.
func ExampleLocks_Session() {
	locks := theLocks()
	defer locks.Close()
	ctx := context.Background()

	session, err := locks.Session("importer")
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(ctx) // ends what is still held
	catalogue := session.Lock("catalogue")

	addItem := func(ctx context.Context) error { // takes the lock for itself
		return catalogue.Do(ctx, func(_ context.Context, g channelapi.Grant) error {
			fmt.Println("adding an item under grant", g.HoldCount())
			return nil
		})
	}
	fmt.Println(catalogue.Do(ctx, func(ctx context.Context, g channelapi.Grant) error {
		fmt.Println("importing under grant", g.HoldCount())
		return addItem(ctx)
	}))
	fmt.Println("still held:", session.Holds("catalogue"))
	// Output:
	// importing under grant 1
	// adding an item under grant 2
	// <nil>
	// still held: false
}

// A session can release its lock without the grant, like a mutex.
func ExampleSessionLock_Release() {
	locks := theLocks()
	defer locks.Close()
	ctx := context.Background()
	session, err := locks.Session("importer")
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(ctx)

	catalogue := session.Lock("catalogue")
	if _, err := catalogue.Acquire(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(catalogue.Release(ctx))
	// Output:
	// <nil>
}

func ExampleLock_Status() {
	locks := theLocks()
	defer locks.Close()
	ctx := context.Background()

	session, err := locks.Session("importer")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := session.Lock("catalogue").Acquire(ctx); err != nil {
		log.Fatal(err)
	}
	status, err := locks.Lock("catalogue").Status(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("locked:", status.Locked)
	fmt.Println("by the importer:", status.HeldBy("importer"))
	fmt.Println("grants:", status.HoldCount)
	// Output:
	// locked: true
	// by the importer: true
	// grants: 1
}

// An operator breaks a lock whose holder does not let go.
func ExampleLock_Break() {
	locks := theLocks()
	defer locks.Close()
	ctx := context.Background()

	stuck, err := locks.Lock("orders/42").Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	held, err := locks.Lock("orders/42").Break(ctx, "olga")
	fmt.Println("was held:", held, err)
	<-stuck.Done()
	fmt.Println("the holder knows:", errors.Is(stuck.Cause(), channelapi.ErrLost))
	// Output:
	// was held: true <nil>
	// the holder knows: true
}

// First takes the first printer that is free.
func ExampleFirst() {
	locks := theLocks()
	defer locks.Close()
	ctx := context.Background()

	if _, err := locks.Lock("printers/1").Acquire(ctx); err != nil {
		log.Fatal(err)
	}
	grant, err := channelapi.First(ctx, locks.Lock("printers/1"), locks.Lock("printers/2"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("printing on", grant.Name())
	fmt.Println(grant.Release(ctx))
	// Output:
	// printing on printers/2
	// <nil>
}

// A program that holds several locks for longer than one function acquires them together.
func ExampleAll() {
	locks := theLocks()
	defer locks.Close()
	ctx := context.Background()

	grants, err := channelapi.All(ctx, locks.Lock("accounts/bob"), locks.Lock("accounts/alice"))
	if err != nil {
		log.Fatal(err)
	}
	for _, grant := range grants {
		fmt.Println(grant.Name(), grant.Release(ctx))
	}
	// Output:
	// accounts/bob <nil>
	// accounts/alice <nil>
}

// A program waits until three others are ready.
func ExampleLatch() {
	locks := theLocks()
	defer locks.Close()
	ctx := context.Background()

	ready := locks.Latch("ready")
	if err := ready.Set(ctx, 3); err != nil {
		log.Fatal(err)
	}
	open := ready.AwaitAsync(ctx)
	for range 3 {
		left, err := ready.CountDown(ctx) // usually in other processes
		fmt.Println(left, err)
	}
	fmt.Println("open:", <-open)
	// Output:
	// 2 <nil>
	// 1 <nil>
	// 0 <nil>
	// open: <nil>
}

// A semaphore bounds how many work at the same time, in all processes.
func ExampleSemaphore() {
	locks := theLocks()
	defer locks.Close()
	ctx := context.Background()

	workers := locks.Semaphore("workers", channelapi.Wait(time.Second))
	if _, err := workers.TrySetPermits(ctx, 10); err != nil { // whoever comes first sets the number
		log.Fatal(err)
	}
	err := workers.Do(ctx, 3, func(ctx context.Context, _ channelapi.Grant) error {
		s, err := workers.Status(ctx)
		fmt.Println(s.Free, "free and", s.Taken, "taken")
		return err
	})
	fmt.Println(err)
	// Output:
	// 7 free and 3 taken
	// <nil>
}

// A permit with an id can be given back by another process, which knows the id.
func ExamplePermits() {
	locks := theLocks()
	defer locks.Close()
	ctx := context.Background()

	seats := locks.Permits("seats", channelapi.Lease(time.Hour))
	if err := seats.SetPermits(ctx, 2); err != nil {
		log.Fatal(err)
	}
	g, err := seats.Acquire(ctx, 1)
	if err != nil {
		log.Fatal(err)
	}
	id := g.PermitIDs()[0]
	fmt.Println(seats.ReleaseID(ctx, id))
	fmt.Println(errors.Is(seats.ReleaseID(ctx, id), channelapi.ErrNoPermit))
	// Output:
	// <nil>
	// true
}
