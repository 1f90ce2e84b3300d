package scenarios

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/faultproxy"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
)

// A waiter gives up when its subscription begins to stand. Nothing of it is left, and the next one works.
func TestN03WaitersThatGiveUpWhileTheySubscribe(t *testing.T) {
	onRedis(t, plain, func(w *world) {
		both := w.agents(2)
		h := both[0].lock("alice").hold(w)
		bob := both[1].lock("bob")
		for i := range 20 {
			ctx, giveUp := context.WithCancel(w.Context())
			next := bob.start(ctx)
			if i%2 == 0 {
				awaitSubscriber(w, w.redis, name)
			}
			giveUp()
			wantErr(w, "the waiter that gave up", receive(w, next).err, context.Canceled)
		}
		waittest.Until(w, "the subscription to end", func() bool { return len(lockChannels(w.redis)) == 0 })
		next := bob.start(waittest.Context(w))
		awaitSubscriber(w, w.redis, name)
		must(w, h.release(w))
		must(w, receive(w, next).err)
	})
}

// awaitSubscriber returns when somebody listens for the release of a lock.
func awaitSubscriber(t testing.TB, redis *redistest.Server, name string) {
	t.Helper()
	waittest.Until(t, "somebody to listen for the release", func() bool {
		return redis.Do("PUBSUB", "NUMSUB", channelOf(name)).([]any)[1] != int64(0)
	})
}

func channelOf(name string) string { return "redisson_lock__channel:{" + name + "}" }

// A server that refuses one subscription keeps no other waiter from its own.
func TestN04ARefusedSubscriptionStopsNoOther(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.WithUser("app", "pw", "~* +@all &redisson_lock__channel* &lockagent_*"))
	w := &world{T: t, kind: plain}
	holder := w.agentOver(openRedis(t, redis.URL()))
	waiter := w.agentOver(openRedis(t, redis.UserURL("app", "pw")))
	theirs, mine := holder.named("theirs", "alice").hold(t), holder.named("mine", "alice").hold(t)
	redis.Do("ACL", "SETUSER", "app", "resetchannels", "&lockagent_*", "&redisson_lock__channel:{mine}")
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	refused := waiter.named("theirs", "bob").start(ctx)
	waittest.Until(t, "the server to refuse", func() bool { return redis.Info("errorstats", "errorstat_NOPERM") != "" })
	next := waiter.named("mine", "carol").start(waittest.Context(t))
	awaitSubscriber(t, redis, "mine")
	must(t, mine.release(t))
	must(t, receive(t, next).err)
	// The waiter that was refused is not in the way of the next one.
	giveUp()
	wantErr(t, "the waiter that was refused", receive(t, refused).err, context.Canceled)
	refused = waiter.named("theirs", "dave").start(waittest.Context(t))
	// When the rules change, it gets a place, and with it the lock.
	redis.Do("ACL", "SETUSER", "app", "&redisson_lock__channel*")
	awaitSubscriber(t, redis, "theirs")
	must(t, theirs.release(t))
	must(t, receive(t, refused).err)
}

// unreliable is an agent behind a proxy that can lose a reply.
func unreliable(t *testing.T) (*redistest.Server, *faultproxy.Proxy, *agent) {
	t.Parallel()
	redis := redistest.Start(t)
	proxy := faultproxy.Start(t, redis.Addr())
	a := (&world{T: t, kind: plain}).agentOver(openRedis(t, "redis://"+proxy.Addr()))
	must(t, a.lock("alice").hold(t).release(t)) // loads the scripts
	return redis, proxy, a
}

func TestP03TheReplyOfAnAcquireIsLost(t *testing.T) {
	redis, proxy, a := unreliable(t)
	lost := proxy.LoseReply(name) // the store also makes calls about no lock
	h := a.lock("alice").hold(t)
	receive(t, lost)
	if fields := fmt.Sprint(redis.Do("HVALS", name)); fields != "[2]" { // a plain lock
		t.Errorf("the hash has the values %v, want one 2", fields)
	}
	if s := a.lock("alice").status(t); s.HoldCount != 1 {
		t.Errorf("hold count %d, want 1", s.HoldCount)
	}
	must(t, h.release(t))
}

func TestP04TheReplyOfAReleaseIsLost(t *testing.T) {
	redis, proxy, a := unreliable(t)
	heard := redis.Dial()
	if _, err := heard.Do("SUBSCRIBE", channelOf(name)); err != nil {
		t.Fatal(err)
	}
	h := a.lock("alice").hold(t)
	lost := proxy.LoseReply(channelOf(name)) // of a holder's calls, only the release names it
	wantErr(t, "a release without an answer", h.release(t), channelapi.ErrUnconfirmed)
	receive(t, lost)
	next := a.lock("bob").hold(t)
	next.wantAfter(t, h)
	redis.Do("PUBLISH", channelOf(name), "the end")
	for _, want := range []string{"0", "the end"} { // one message of the release, though it was made twice
		if m, err := heard.Receive(); err != nil || fmt.Sprint(m.([]any)[2]) != want {
			t.Fatalf("heard %v, %v; want %q", m, err, want)
		}
	}
	wantErr(t, "a second release", h.release(t), channelapi.ErrNotHeld)
	must(t, next.release(t))
}

// An administrator breaks the lock, or deletes or replaces its key. No message tells of the last two, so a renewal has
// to.
func TestP15TheHolderLearnsOfItsLoss(t *testing.T) {
	inMemory(t, plain, func(w *world) {
		both := w.agents(2)
		l := both[0].lock("alice")
		lose := func(why channelapi.LossReason, most time.Duration, act func()) {
			w.Helper()
			h := l.hold(w)
			ctx := h[0].Context(w.Context())
			w.sleep(time.Minute)
			start := time.Now()
			act()
			<-ctx.Done()
			wantLost(w, "the cause", context.Cause(ctx), why)
			if waited := time.Since(start); waited > most {
				w.Errorf("told after %v, want %v at most", waited, most)
			}
		}
		lose(channelapi.LostBroken, 0, func() { // as an operator does
			_, err := both[1].Lock(name).Break(w.Context(), "an operator")
			must(w, err)
		})
		const renewed = channelapi.DefaultLease/3 + 100*time.Millisecond
		lose(channelapi.LostDenied, renewed, func() { // another program has it now
			w.memory.PlantHolder(lockagent.Name(name), "b0a4b1c5-0000-4000-8000-000000000000:1", 1, time.Second)
		})
		lose(channelapi.LostDenied, renewed, func() { // another program had it, and left
			w.memory.PlantHolder(lockagent.Name(name), "b0a4b1c5-0000-4000-8000-000000000000:1", 1, time.Millisecond)
			w.sleep(time.Second)
		})
	})
}

func TestP17ManyNamesAreWaitedFor(t *testing.T) {
	const names = 200
	onRedis(t, plain, func(w *world) {
		both := w.agents(2)
		holders := make([]<-chan channelapi.Grant, names)
		waiters := make([]<-chan error, names)
		for i := range names {
			holders[i] = both[0].Lock(fmt.Sprint("orders/", i)).AcquireAsync(w.Context())
		}
		for i := range names {
			must(w, receive(w, holders[i]).Err())
			waiters[i] = both[1].Lock(fmt.Sprint("orders/", i)).DoAsync(
				w.Context(), func(context.Context, channelapi.Grant) error { return nil },
			)
		}
		waittest.Until(w, "all to wait", func() bool {
			return len(w.redis.Do("PUBSUB", "CHANNELS", "redisson_lock__channel*").([]any)) == names
		})
		_ = both[0].Close() // what is not confirmed in time is free when its lease has run out
		for i := range names {
			// A slow machine may keep a waiter from its work for longer than the lease of a pass.
			if err := receive(w, waiters[i]); err != nil && !errors.Is(err, channelapi.ErrLost) &&
				!errors.Is(err, channelapi.ErrNotGranted) {
				w.Errorf("waiter %d: %v", i, err)
			}
		}
	})
}
