package channelapi_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/memstore"
)

// The locks of a process are opened once and closed at the end. Each use asks for
// a lock, waits for as long as it likes to, and works while it holds.
func Example() {
	locks, err := channelapi.New(channelapi.Config{Store: memstore.New()})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	charge := func(ctx context.Context, order string) error {
		wait, cancel := context.WithTimeout(ctx, 5*time.Second) // bounds the wait, not the hold
		defer cancel()
		grant, err := locks.Lock(lockagent.Name("orders/" + order)).Lock(wait)
		if err != nil {
			return err
		}
		defer grant.Release(context.Background())

		work := grant.Context(ctx) // ends with the hold, whatever ends that
		fmt.Println("charging order", order, "with a token:", grant.Token() > 0)
		return work.Err()
	}
	fmt.Println(charge(context.Background(), "42"))
	// Output:
	// charging order 42 with a token: true
	// <nil>
}

// A request is a channel, so a select can wait for the lock and for anything else.
func ExampleLock_Acquire() {
	locks, err := channelapi.New(channelapi.Config{Store: memstore.New()})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	other, err := locks.Lock("orders/42").Lock(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	defer other.Release(context.Background())
	quit := make(chan struct{})
	go close(quit)

	wait, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel() // gives the request back, or the grant if it comes at this moment
	select {
	case grant := <-locks.Lock("orders/42").Acquire(wait):
		if err := grant.Err(); err != nil {
			fmt.Println(err)
			return
		}
		defer grant.Release(context.Background())
		fmt.Println("holding the lock")
	case <-quit:
		fmt.Println("there are more important things to do")
	}
	// Output:
	// there are more important things to do
}

func ExampleLock_TryLock() {
	locks, err := channelapi.New(channelapi.Config{Store: memstore.New()})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	ctx := context.Background()

	first, err := locks.Lock("cleanup").TryLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = locks.Lock("cleanup").TryLock(ctx)
	fmt.Println("somebody else cleans up:", errors.Is(err, lockagent.ErrHeld))
	fmt.Println("unlocked:", first.Release(ctx))
	// Output:
	// somebody else cleans up: true
	// unlocked: <nil>
}

func ExampleWait() {
	locks, err := channelapi.New(channelapi.Config{Store: memstore.New()})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	ctx := context.Background()

	held, err := locks.Lock("orders/42").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer held.Release(ctx)
	_, err = locks.Lock("orders/42").Lock(ctx, channelapi.Wait(10*time.Millisecond))
	fmt.Println(err)
	// Output:
	// lockagent: wait for the lock timed out
}

// A fixed lease ends by itself, and its holder is told so.
func ExampleLease() {
	locks, err := channelapi.New(channelapi.Config{Store: memstore.New()})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	grant, err := locks.Lock("orders/42").Lock(context.Background(), channelapi.Lease(100*time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}
	work := grant.Context(context.Background())
	<-work.Done()
	if lost, ok := errors.AsType[*lockagent.LostError](context.Cause(work)); ok {
		fmt.Println("stopped, because the hold is", lost.Reason)
	}
	// Output:
	// stopped, because the hold is expired
}

// A session is an owner that may hold a lock several times.
func ExampleLocks_Session() {
	locks, err := channelapi.New(channelapi.Config{Store: memstore.New()})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	ctx := context.Background()

	session, err := locks.Session("importer")
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(ctx) // ends what is still held
	catalogue := session.Lock("catalogue")

	addItem := func() error { // takes the lock for itself
		grant, err := catalogue.Lock(ctx)
		if err != nil {
			return err
		}
		fmt.Println("adding an item under grant", grant.HoldCount())
		return grant.Release(ctx)
	}
	outer, err := catalogue.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("importing under grant", outer.HoldCount())
	fmt.Println(addItem())
	fmt.Println(catalogue.Unlock(ctx)) // as outer.Unlock
	// Output:
	// importing under grant 1
	// adding an item under grant 2
	// <nil>
	// <nil>
}

func ExampleLock_Inspect() {
	locks, err := channelapi.New(channelapi.Config{Store: memstore.New()})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	ctx := context.Background()

	session, err := locks.Session("importer")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := session.Lock("catalogue").Lock(ctx); err != nil {
		log.Fatal(err)
	}
	status, err := locks.Lock("catalogue").Inspect(ctx)
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
func ExampleLock_ForceUnlock() {
	locks, err := channelapi.New(channelapi.Config{Store: memstore.New()})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	ctx := context.Background()

	stuck, err := locks.Lock("orders/42").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	held, err := locks.Lock("orders/42").ForceUnlock(ctx)
	fmt.Println("was held:", held, err)
	<-stuck.Done()
	fmt.Println("the holder knows:", errors.Is(stuck.Cause(), lockagent.ErrLost))
	// Output:
	// was held: true <nil>
	// the holder knows: true
}

// Whichever of some equal things is free will do.
func ExampleFirst() {
	locks, err := channelapi.New(channelapi.Config{Store: memstore.New()})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	ctx := context.Background()

	if _, err := locks.Lock("printers/1").Lock(ctx); err != nil {
		log.Fatal(err)
	}
	i, grant, err := channelapi.First(ctx,
		locks.Lock("printers/1").With(),
		locks.Lock("printers/2").With(),
	)
	if err != nil {
		log.Fatal(err)
	}
	defer grant.Release(ctx)
	fmt.Println(i, grant.Name())
	// Output:
	// 1 printers/2
}

// Whoever needs several locks asks for them together.
func ExampleAll() {
	locks, err := channelapi.New(channelapi.Config{Store: memstore.New()})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	ctx := context.Background()

	grants, err := channelapi.All(ctx,
		locks.Lock("accounts/bob").With(channelapi.Wait(time.Second)),
		locks.Lock("accounts/alice").With(channelapi.Wait(time.Second)),
	)
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

// What is to happen under the lock can go on without the caller.
func ExampleThen() {
	locks, err := channelapi.New(channelapi.Config{Store: memstore.New()})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	ctx := context.Background()

	total := channelapi.Then(locks.Lock("till").Acquire(ctx), func(grant lockagent.Grant) (int, error) {
		defer grant.Release(ctx)
		return 19 + 23, nil
	})
	fmt.Println(channelapi.Value(ctx, total))
	// Output:
	// 42 <nil>
}

// A request is made now and received later.
func ExampleAwait() {
	locks, err := channelapi.New(channelapi.Config{Store: memstore.New()})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()

	request := locks.Lock("orders/42").Acquire(ctx)
	fmt.Println("preparing meanwhile")
	grant, err := channelapi.Await(ctx, request)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("got", grant.Name(), grant.Release(ctx))
	// Output:
	// preparing meanwhile
	// got orders/42 <nil>
}
