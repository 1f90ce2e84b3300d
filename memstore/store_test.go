package memstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
	"github.com/lockagent/lockagent/storetest"
)

func Example() {
	store := memstore.New()
	defer store.Close()

	ctx := context.Background()
	tenure := lockagent.Tenure{Agent: lockagent.NewAgentID(), Number: 1}
	store.Acquire(ctx, lockagent.AcquireRequest{
		Name: "orders/42", Tenure: tenure, Lease: 30 * time.Second,
	}, func(reply lockagent.AcquireReply, err error) {
		fmt.Println("acquired:", reply.Granted, err)
	})

	other := store.Share() // for a second agent
	defer other.Close()
	other.Inspect(ctx, "orders/42", lockagent.PlainLock, func(seen lockagent.Inspection, err error) {
		fmt.Println("held:", seen.Held, err)
	})

	store.Release(
		ctx,
		lockagent.ReleaseRequest{Name: "orders/42", Tenure: tenure},
		func(reply lockagent.ReleaseReply, err error) {
			fmt.Println("released:", reply.Released, err)
		},
	)
	// Output:
	// acquired: true <nil>
	// held: true <nil>
	// released: true <nil>
}

func wish(tenure lockagent.Tenure, lease time.Duration) lockagent.AcquireRequest {
	return lockagent.AcquireRequest{Name: "orders/42", Tenure: tenure, Lease: lease}
}

func TestLeaseEndsOnTheNanosecond(t *testing.T) {
	for _, test := range []struct{ lease, lasts time.Duration }{
		{lockagent.MinLease, lockagent.MinLease},
		{lockagent.MinLease + 1, 2 * time.Millisecond},
		{30*time.Second - 1, 30 * time.Second},
		{lockagent.MaxLease, lockagent.MaxLease},
	} {
		t.Run(test.lease.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				tenure := lockagent.Tenure{Agent: lockagent.NewAgentID(), Number: 1}
				if reply, err := storetest.Acquire(t, store, wish(tenure, test.lease)); err != nil || !reply.Granted {
					t.Fatalf("Acquire = %+v, %v", reply, err)
				}
				time.Sleep(test.lasts - 1)
				if seen, err := storetest.Inspect(t, store, "orders/42"); err != nil || seen.Remaining != 1 {
					t.Errorf("Inspect = %+v, %v, just before the end", seen, err)
				}
				time.Sleep(time.Nanosecond)
				if seen, err := storetest.Inspect(t, store, "orders/42"); err != nil || seen.Held {
					t.Errorf("Inspect = %+v, %v, at the end", seen, err)
				}
			})
		})
	}
}

func TestRenewalCountsFromItsOwnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		tenure := lockagent.Tenure{Agent: lockagent.NewAgentID(), Number: 1}
		if reply, err := storetest.Acquire(t, store, wish(tenure, time.Second)); err != nil || !reply.Granted {
			t.Fatalf("Acquire = %+v, %v", reply, err)
		}
		for range 1000 {
			time.Sleep(time.Second - 1)
			reply, err := storetest.Renew(t, store,
				lockagent.RenewRequest{Name: "orders/42", Tenure: tenure, Lease: time.Second})
			if err != nil || !reply.Held {
				t.Fatalf("Renew = %+v, %v", reply, err)
			}
		}
		time.Sleep(time.Second)
		reply, err := storetest.Renew(t, store, lockagent.RenewRequest{Name: "orders/42", Tenure: tenure, Lease: time.Second})
		if err != nil || reply.Held {
			t.Errorf("Renew = %+v, %v, at the end of the lease", reply, err)
		}
	})
}

func TestTokensAndTimesFollowTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		tenure := lockagent.Tenure{Agent: lockagent.NewAgentID()}
		for range 3 {
			time.Sleep(time.Hour + 1500*time.Nanosecond)
			tenure.Number++
			now := time.Now().UnixMicro()
			reply, err := storetest.Acquire(t, store, wish(tenure, time.Second))
			if err != nil || int64(reply.At) != now || int64(reply.Token) != now {
				t.Errorf("Acquire = %+v, %v; want token and time %d", reply, err, now)
			}
			released, err := storetest.Release(t, store,
				lockagent.ReleaseRequest{Name: "orders/42", Tenure: tenure, Last: reply.Token})
			if err != nil || int64(released.At) != now {
				t.Errorf("Release = %+v, %v; want time %d", released, err, now)
			}
		}
	})
}

func TestEverythingHappensBeforeTheMethodReturns(t *testing.T) {
	store := memstore.New()
	other := store.Share()
	ctx := context.Background()
	tenure := lockagent.Tenure{Agent: lockagent.NewAgentID(), Number: 1}
	// No mutex: everything has to run on this goroutine, or the race detector
	// tells.
	var happened []string
	note := func(what string) { happened = append(happened, what) }

	cancel := other.Subscribe("orders/42", lockagent.PlainLock, func() { note("woken") })
	defer cancel()
	store.Listen(tenure.Agent, func(lockagent.Message) { note("heard") })
	other.OnReset(func(lockagent.Reset) { note("reset") })
	store.Acquire(ctx, wish(tenure, time.Minute), func(lockagent.AcquireReply, error) { note("acquired") })
	store.Renew(ctx, lockagent.RenewRequest{Name: "orders/42", Tenure: tenure, Lease: time.Minute},
		func(lockagent.RenewReply, error) { note("renewed") })
	store.Inspect(ctx, "orders/42", lockagent.PlainLock, func(lockagent.Inspection, error) { note("inspected") })
	store.Release(ctx, lockagent.ReleaseRequest{Name: "orders/42", Tenure: tenure},
		func(lockagent.ReleaseReply, error) { note("released") })
	tenure.Number++
	store.Acquire(ctx, wish(tenure, time.Minute), func(lockagent.AcquireReply, error) { note("acquired") })
	store.Break(ctx, lockagent.BreakRequest{Name: "orders/42"}, func(lockagent.BreakReply, error) { note("broken") })
	store.Reset()

	want := "[woken heard heard acquired renewed inspected woken released acquired heard woken broken reset]"
	if got := fmt.Sprint(happened); got != want {
		t.Errorf("happened: %s\nwant:     %s", got, want)
	}
}

func TestOthersAreCountedByStore(t *testing.T) {
	store := memstore.New()
	two, three := store.Share(), store.Share()
	for _, s := range []*memstore.Store{store, store, two, two, three} {
		s.Subscribe("orders/42", lockagent.PlainLock, func() {})
	}
	tenure := lockagent.Tenure{Agent: lockagent.NewAgentID(), Number: 1}
	for _, want := range []int{2, 1, 0} {
		if _, err := storetest.Acquire(t, store, wish(tenure, time.Minute)); err != nil {
			t.Fatal(err)
		}
		reply, err := storetest.Release(t, store, lockagent.ReleaseRequest{Name: "orders/42", Tenure: tenure})
		if err != nil || reply.Others != want {
			t.Errorf("Release = %+v, %v; want %d others", reply, err, want)
		}
		tenure.Number++
		if want == 2 {
			_ = two.Close()
		} else {
			_ = three.Close()
		}
	}
}

func TestTenureNeedsAnAgent(t *testing.T) {
	store := memstore.New()
	reply, err := storetest.Acquire(t, store, wish(lockagent.Tenure{Number: 1}, time.Minute))
	if !errors.Is(err, lockagent.ErrBadOption) || reply.Granted {
		t.Errorf("Acquire = %+v, %v; want ErrBadOption", reply, err)
	}
}

func TestMemoryOutlivesTheStoreThatMadeIt(t *testing.T) {
	first := memstore.New()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := first.Share()
	tenure := lockagent.Tenure{Agent: lockagent.NewAgentID(), Number: 1}
	if reply, err := storetest.Acquire(t, second, wish(tenure, time.Minute)); err != nil || !reply.Granted {
		t.Errorf("Acquire = %+v, %v", reply, err)
	}
}

func TestMemoriesAreApart(t *testing.T) {
	one, two := memstore.New(), memstore.New()
	for _, s := range []*memstore.Store{one, two} {
		tenure := lockagent.Tenure{Agent: lockagent.NewAgentID(), Number: 1}
		if reply, err := storetest.Acquire(t, s, wish(tenure, time.Minute)); err != nil || !reply.Granted {
			t.Errorf("Acquire = %+v, %v", reply, err)
		}
	}
}

func BenchmarkAcquireRelease(b *testing.B) {
	store := memstore.New()
	ctx := context.Background()
	tenure := lockagent.Tenure{Agent: lockagent.NewAgentID()}
	b.ReportAllocs()
	for b.Loop() {
		tenure.Number++
		store.Acquire(ctx, wish(tenure, time.Minute), func(reply lockagent.AcquireReply, err error) {
			if err != nil || !reply.Granted {
				b.Fatal(reply, err)
			}
		})
		store.Release(
			ctx,
			lockagent.ReleaseRequest{Name: "orders/42", Tenure: tenure},
			func(reply lockagent.ReleaseReply, err error) {
				if err != nil || !reply.Released {
					b.Fatal(reply, err)
				}
			},
		)
	}
}
