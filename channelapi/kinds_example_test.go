package channelapi_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockagent/lockagent/channelapi"
)

// A resource that refuses old tokens takes writes of Go and of Java alike.
func ExampleLocks_FencedLock() {
	locks := theLocks()
	defer locks.Close()
	latest := channelapi.Token(0) // that the resource has seen
	write := func(token channelapi.Token) bool {
		fresh := token >= latest
		latest = max(latest, token)
		return fresh
	}
	var first channelapi.Token
	for range 2 {
		err := locks.FencedLock("ledger").Do(context.Background(), func(_ context.Context, g channelapi.Grant) error {
			fmt.Println("written:", write(g.Token()))
			if first == 0 {
				first = g.Token()
			}
			return nil
		})
		if err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println("written with the first token:", write(first))
	// Output:
	// written: true
	// written: true
	// written with the first token: false
}

// A function that must not run inside of itself finds out.
func ExampleNoReentry() {
	locks := theLocks()
	defer locks.Close()
	session, err := locks.Session("nightly")
	if err != nil {
		fmt.Println(err)
		return
	}
	lock := session.Lock("report", channelapi.NoReentry())
	err = lock.Do(context.Background(), func(ctx context.Context, _ channelapi.Grant) error {
		_, err := lock.Acquire(ctx)
		return err
	})
	fmt.Println(errors.Is(err, channelapi.ErrReentry))
	// Output: true
}
