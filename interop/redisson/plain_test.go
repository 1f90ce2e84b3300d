package redisson

import (
	"context"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/waittest"
)

// forever is a lease that lasts longer than any test. Redisson has kept for one that it renews.
const (
	forever = time.Hour
	kept    = -1
)

// names are names of locks. A tag and other letters must not make a difference.
var names = []string{"orders", "{orders}/42", "заказ/注文/🔒"}

func plainLock(t *testing.T, p *both) {
	for _, name := range names {
		for _, test := range []struct {
			title string
			run   func(*testing.T, *both, string)
		}{
			{"JavaExcludesUs", javaExcludesUs},
			{"WeExcludeJava", weExcludeJava},
			{"AMessageOfJavaWakesUs", javaWakesUs},
			{"AMessageOfOursWakesJava", weWakeJava},
			{"AnInterruptedWaiterOfJavaGoesAway", interruptedJava},
			{"ACancelledWaiterOfOursGoesAway", cancelledOurs},
			{"JavaLearnsThatWeBrokeItsLock", weBreak},
		} {
			step(t, test.title+"/"+strings.ReplaceAll(name, "/", "-"), func(t *testing.T) { test.run(t, p, name) })
		}
	}
}

func javaExcludesUs(t *testing.T, p *both, name string) {
	p.java.do(t, "main", "plain.lock", name, kept)
	holder, _ := p.holder(t, name)
	if !owner.MatchString(holder) {
		t.Errorf("Java writes the field %q", holder)
	}
	_, err := p.ours.Lock(name).TryAcquire(t.Context())
	if held, is := errors.AsType[*lockagent.HeldError](err); !is || held.Holder != holder {
		t.Errorf("a try gave %v, want that %s holds the lock", err, holder)
	}
	status, err := p.ours.Lock(name).Status(t.Context())
	must(t, err)
	want(t, "locked", status.Locked, true)
	want(t, "holder", status.Holder, holder)
	p.java.do(t, "main", "plain.unlock", name)
	release(t, hold(t, p.ours.Lock(name)))
}

// owner is the form of a field that Redisson writes: a client and a thread. Ours have the same.
var owner = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:[0-9]+$`)

func weExcludeJava(t *testing.T, p *both, name string) {
	g := hold(t, p.ours.Lock(name))
	if field, kind := p.holder(t, name); !owner.MatchString(field) || kind != "2" { // see decision 20
		t.Errorf("the lock is held by %q, with %q", field, kind)
	}
	want(t, "tryLock", p.java.do(t, "main", "plain.tryLock", name, 0, kept), "false")
	want(t, "tryLock for a while", p.java.do(t, "main", "plain.tryLock", name, 50, kept), "false")
	want(t, "isLocked", p.java.do(t, "main", "plain.isLocked", name), "true")
	if left, _ := strconv.Atoi(p.java.do(t, "main", "plain.remaining", name)); left <= 0 {
		t.Errorf("Java sees a lease of %d ms", left)
	}
	p.java.refuses(t, "IllegalMonitorState", "main", "plain.unlock", name)
	release(t, g)
	want(t, "tryLock of the free lock", p.java.do(t, "main", "plain.tryLock", name, 0, kept), "true")
	p.java.do(t, "main", "plain.unlock", name)
}

func javaWakesUs(t *testing.T, p *both, name string) {
	ear := p.hears.of(name)
	p.java.do(t, "main", "plain.lock", name, forever.Milliseconds())
	var grant <-chan channelapi.Grant
	ear.awaitLook(t, func() { grant = p.ours.Lock(name).AcquireAsync(t.Context()) })
	pending(t, grant)
	p.wouldLast(t, name)
	ear.needsMessage(t)
	p.java.do(t, "main", "plain.unlock", name)
	g := receive(t, grant)
	must(t, g.Err())
	release(t, g)
}

func weWakeJava(t *testing.T, p *both, name string) {
	lease := forever.Milliseconds()
	for command, args := range map[string][]any{"lock": {lease}, "tryLock": {lease, lease}} {
		g := hold(t, p.ours.Lock(name, channelapi.Lease(forever)))
		granted := object{p.java, "waiter", "plain", name}.waits(t, p.nodeOf(name), "pttl", command, args...)
		p.wouldLast(t, name)
		release(t, g)
		if got := value(t, granted); got == "false" {
			t.Fatal("Java was refused the lock")
		}
		p.wouldLast(t, name) // with the lease that Java asked for
		p.java.do(t, "waiter", "plain.unlock", name)
	}
}

func interruptedJava(t *testing.T, p *both, name string) {
	g := hold(t, p.ours.Lock(name, channelapi.Lease(forever)))
	locked := object{p.java, "waiter", "plain", name}.waits(t, p.nodeOf(name), "pttl", "lockInterruptibly", kept)
	p.java.do(t, "waiter", "interrupt")
	if a := receive(t, locked); a.err == nil {
		t.Error("an interrupted thread was granted the lock")
	}
	release(t, g)
	release(t, hold(t, p.ours.Lock(name)))
}

func cancelledOurs(t *testing.T, p *both, name string) {
	p.java.do(t, "main", "plain.lock", name, forever.Milliseconds())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	grant := p.ours.Lock(name).AcquireAsync(ctx)
	p.awaitSubscriber(t, name)
	cancel()
	if g := receive(t, grant); g.Err() == nil {
		t.Error("a request that was cancelled was granted the lock")
	}
	p.java.do(t, "main", "plain.unlock", name)
	waittest.Until(t, "the end of what our agent has asked for before", func() bool {
		return p.java.do(t, "main", "plain.tryLock", name, 0, kept) == "true"
	})
	p.java.do(t, "main", "plain.unlock", name)
}

func weBreak(t *testing.T, p *both, name string) {
	p.java.do(t, "main", "plain.lock", name, kept)
	waiter := p.javaWaits(t, thing{"plain", name}, "j1")
	held, err := p.ours.Lock(name).Break(t.Context(), "olga")
	must(t, err)
	want(t, "it was held", held, true)
	waiter.gets(t) // another thread of Java learns of it at once
	p.java.refuses(t, "IllegalMonitorState", "main", "plain.unlock", name)
	waiter.leaves(t)
}

// javaForces has Java force a lock of ours. We learn of the loss when we renew the lease.
func javaForces(t *testing.T, p *both) {
	const name = "orders"
	ours := p.open(t, short)
	g := hold(t, ours.Lock(name))
	want(t, "forceUnlock", p.java.do(t, "main", "plain.forceUnlock", name), "true")
	want(t, "tryLock", p.java.do(t, "main", "plain.tryLock", name, 0, kept), "true")
	receive(t, g.Done())
	if lost, is := errors.AsType[*lockagent.LostError](g.Cause()); !is || lost.Reason != lockagent.LostDenied {
		t.Errorf("the hold ended with %v, want that the store denied it", g.Cause())
	}
	want(t, "held after the loss", g.Held(), false)
	want(t, "a release tells of the loss", errors.Is(g.Release(t.Context()), lockagent.ErrLost), true)
	want(t, "Java still holds", p.java.do(t, "main", "plain.holdCount", name), "1")
	p.java.do(t, "main", "plain.unlock", name)
}
