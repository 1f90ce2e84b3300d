package redisstore_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/faultproxy"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/redisstore"
	"github.com/lockagent/lockagent/storetest"
)

func TestManyWaitersAreOneSubscription(t *testing.T) {
	server := redistest.Start(t)
	store := open(t, server.URL())
	server.Do("CONFIG", "RESETSTAT")
	var subs []*storetest.Subscription
	for range 10 {
		subs = append(subs, storetest.Subscribe(t, store, "orders"))
	}
	const each = 2 // the lock's channel, and that of the agents
	if got := server.Calls("subscribe"); got != each {
		t.Errorf("10 waiters are %d subscriptions, want %d", got, each)
	}
	for i, sub := range subs {
		if got := server.Calls("unsubscribe"); got != 0 {
			t.Fatalf("unsubscribed after %d of 10 were cancelled", i)
		}
		sub.Cancel()
	}
	waittest.Until(t, "the last one to unsubscribe", func() bool { return server.Calls("unsubscribe") == each })
	storetest.Subscribe(t, store, "orders").Cancel()
	if got := server.Calls("subscribe"); got != 2*each {
		t.Errorf("subscribed %d times in all, want %d", got, 2*each)
	}
}

func TestAllSubscriptionsShareOneConnection(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store := open(t, server.URL())
	storetest.Subscribe(t, store, "first")
	before := server.Info("clients", "connected_clients")
	for i := range 500 {
		storetest.Subscribe(t, store, lockagent.Name(fmt.Sprintf("orders/%d", i)))
	}
	if after := server.Info("clients", "connected_clients"); after != before {
		t.Errorf("%s connections became %s with 500 subscriptions", before, after)
	}
	if got := len(server.Do("PUBSUB", "CHANNELS", "redisson*").([]any)); got != 501 {
		t.Errorf("%d channels are subscribed to, want 501", got)
	}
	if got := len(server.Do("PUBSUB", "CHANNELS", "lockagent*").([]any)); got != 501 {
		t.Errorf("%d channels of agents are subscribed to, want 501", got)
	}
}

// wakes expects that a release by another store wakes a subscription.
func wakes(t *testing.T, sub *storetest.Subscription, other *redisstore.Store, name lockagent.Name) {
	t.Helper()
	agent := lockagent.NewAgentID()
	// A spurious wake-up may stand for one that is missing, so it is done often.
	for number := uint64(1); number <= 3; number++ {
		req := wish(name, agent, number)
		acquire(t, other, req)
		release(t, other, req)
		if !sub.Await() {
			t.FailNow()
		}
	}
}

// drain takes the wake-ups that are there.
func drain(sub *storetest.Subscription) {
	select {
	case <-sub.C:
	default:
	}
}

func TestSubscriptionsStandAgainAfterARestart(t *testing.T) {
	server := redistest.Start(t)
	store := open(t, server.URL())
	var subs []*storetest.Subscription
	name := func(i int) lockagent.Name { return lockagent.Name(fmt.Sprintf("orders/%d", i)) }
	for i := range 300 {
		subs = append(subs, storetest.Subscribe(t, store, name(i)))
	}
	server.Restart()
	for i, sub := range subs {
		if !sub.Await() { // without a release: one may have been missed
			t.Fatalf("subscription %d", i)
		}
	}
	other := open(t, server.URL())
	wakes(t, subs[0], other, name(0))
	wakes(t, subs[299], other, name(299))
}

func TestSubscriptionsStandAgainAfterACut(t *testing.T) {
	server := redistest.Start(t)
	proxy := faultproxy.Start(t, server.Addr())
	store, other := open(t, "redis://"+proxy.Addr()), open(t, server.URL())
	sub := storetest.Subscribe(t, store, "orders")
	for range 3 {
		proxy.Cut()
		if !sub.Await() {
			t.FailNow()
		}
		wakes(t, sub, other, "orders")
		drain(sub)
	}
}

func TestSubscribeBeforeTheServerIsBack(t *testing.T) {
	server := redistest.Start(t)
	store := open(t, server.URL())
	server.Kill()
	wake := make(chan struct{}, 1)
	cancel := store.Subscribe("orders", lockagent.PlainLock, func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	})
	defer cancel()
	select {
	case <-wake:
		t.Fatal("woken although nothing can stand")
	default:
	}
	server.Restart()
	await(t, wake)
}

func TestSubscriptionsThatWereCancelledDoNotComeBack(t *testing.T) {
	server := redistest.Start(t)
	store := open(t, server.URL())
	sub, kept := storetest.Subscribe(t, store, "orders"), storetest.Subscribe(t, store, "kept")
	server.Kill()
	sub.Cancel()
	server.Restart()
	kept.Await()
	// That may have been because the server is empty. What stands is known once a later one does.
	storetest.Subscribe(t, store, "later")
	want := sorted("redisson_lock__channel:{kept}", "redisson_lock__channel:{later}")
	var got []string
	waittest.Until(t, "the subscriptions to stand", func() bool {
		got = nil
		for _, channel := range server.Do("PUBSUB", "CHANNELS", "redisson*").([]any) {
			got = append(got, channel.(string))
		}
		return len(got) >= len(want)
	})
	if !slices.Equal(sorted(got...), want) {
		t.Errorf("subscribed to %q, want %q", got, want)
	}
}

// A user may be permitted to subscribe to some channels only: that one is denied
// must not trouble the others. Who waits for what is denied has to ask again and again.
func TestADeniedSubscriptionTroublesNoOther(t *testing.T) {
	server := redistest.Start(
		t, redistest.WithUser("app", "pw", "~* +@all resetchannels &redisson_lock__channel* &lockagent_*"),
	)
	store := open(t, server.UserURL("app", "pw"))
	server.Do("ACL", "SETUSER", "app", "resetchannels", "&lockagent_*", "&redisson_lock__channel:{mine}")
	wake := make(chan struct{}, 100)
	cancel := store.Subscribe("theirs", lockagent.PlainLock, func() { wake <- struct{}{} })
	sub := storetest.Subscribe(t, store, "mine")
	wakes(t, sub, open(t, server.URL()), "mine")
	for range 2 {
		waittest.Receive(t, "to be woken to ask, because nothing else tells", wake)
	}
	// Once it is permitted, it works, also for who subscribed before.
	server.Do("ACL", "SETUSER", "app", "allchannels")
	waittest.Until(t, "the subscription that was denied", func() bool {
		const channel = "redisson_lock__channel:{theirs}"
		return fmt.Sprint(server.Do("PUBSUB", "NUMSUB", channel)) == "["+channel+" 1]"
	})
	cancel()
	wakes(t, storetest.Subscribe(t, store, "theirs"), open(t, server.URL()), "theirs")
}

func TestWakeMayUseTheStore(t *testing.T) {
	server := redistest.Start(t)
	store := open(t, server.URL())
	var cancels []func()
	done := make(chan struct{})
	first := make(chan struct{}, 1)
	first <- struct{}{}
	cancels = append(cancels, store.Subscribe("orders", lockagent.PlainLock, func() {
		select {
		case <-first:
			cancel := store.Subscribe("orders", lockagent.PlainLock, func() {})
			cancel()
			cancel() // again: nothing
			close(done)
		default:
		}
	}))
	await(t, done)
	for _, cancel := range cancels {
		cancel()
	}
}
