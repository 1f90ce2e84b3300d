package scenarios

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/faultproxy"
	"github.com/lockagent/lockagent/internal/waittest"
)

// Each owner works for a while. Nothing else costs time.
func TestD02ManyOwnersOfAFairLock(t *testing.T) {
	const agents, owners, work = 5, 200, 200 * time.Millisecond
	inMemory(t, fair, func(w *world) {
		all := w.agents(agents)
		var wg sync.WaitGroup
		start := time.Now()
		for i := range owners {
			l := all[i%agents].lock(fmt.Sprint("owner ", i))
			wg.Go(func() { l.guarded(w, func(held) { w.sleep(work) }) })
		}
		wg.Wait()
		if took := time.Since(start); took != owners*work {
			w.Errorf("all were done after %v, want %v", took, owners*work)
		}
	})
}

// Owners of several agents come one after the other, while another one has the lock.
func TestD26OrderOfArrival(t *testing.T) {
	const agents, owners = 4, 16
	inMemory(t, fair, func(w *world) {
		all := w.agents(agents)
		h := all[0].lock("alice").hold(w)
		var order []int // those that hold the lock, one after the other
		var wg sync.WaitGroup
		for i := range owners {
			l := all[i*i%agents].lock(fmt.Sprint("owner ", i))
			wg.Go(func() {
				l.guarded(w, func(held) {
					order = append(order, i)
					w.sleep(time.Second)
				})
			})
			w.sleep(10 * time.Millisecond)
		}
		must(w, h.release(w))
		wg.Wait()
		for i, owner := range order {
			if owner != i {
				w.Fatalf("the lock was granted to %v, want the order of arrival", order)
			}
		}
	})
}

// The agents of three waiters freeze. Each is passed the lock once, for the lease of a pass.
func TestD08WaitersThatNeverComeBack(t *testing.T) {
	inMemory(t, fair, func(w *world) {
		h := w.agent().lock("alice").hold(w)
		const frozen = 3
		for range frozen {
			store := w.memory.Share()
			w.agentOver(store).lock("frozen").start(w.Context())
			synctest.Wait()
			w.Cleanup(store.Hang())
		}
		next := w.agent().lock("bob").start(w.Context())
		w.sleep(time.Minute)
		freed := time.Now()
		must(w, h.release(w))
		got := <-next
		must(w, got.err)
		if waited := time.Since(freed); waited > frozen*(lockagent.PassLease+scatter) {
			w.Errorf("waited %v for %d who are frozen, each for a pass of %v", waited, frozen, lockagent.PassLease)
		}
		must(w, got.release(w))
	})
}

// deadlines are those of the places at the fair lock in Redis.
func (w *world) deadlines() (ends map[string]time.Time) {
	w.Helper()
	ends = make(map[string]time.Time)
	scores := w.redis.Do("ZRANGE", "redisson_lock_timeout:{"+name+"}", "0", "-1", "WITHSCORES").([]any)
	for i := 0; i < len(scores); i += 2 {
		ms, err := strconv.ParseInt(scores[i+1].(string), 10, 64)
		must(w, err)
		ends[scores[i].(string)] = time.UnixMilli(ms)
	}
	return ends
}

// serverTime is the time of Redis.
func (w *world) serverTime() time.Time {
	w.Helper()
	seconds, err := strconv.ParseInt(w.redis.Do("TIME").([]any)[0].(string), 10, 64)
	must(w, err)
	return time.Unix(seconds+1, 0) // it has not gone by
}

func (w *world) awaitPlaces(n int64) {
	w.Helper()
	waittest.Until(
		w, fmt.Sprint(n, " places"), func() bool { return w.redis.Do("LLEN", "redisson_lock_queue:{"+name+"}") == n },
	)
}

// Waiters come and give up, behind nobody, and behind a place of another program. Then one dies.
func TestD03D04D09NoDeadlineDriftsAway(t *testing.T) {
	const rounds, lasts, java = 10, 6 * time.Second, "33333333-3333-4333-8333-333333333333:7"
	onRedis(t, fair, func(w *world) {
		both := w.agents(2)
		h := both[0].lock("alice").hold(w)
		bob := both[1].lock("bob")
		comeAndGo := func(latest func(waited time.Duration) time.Time) {
			w.Helper()
			others := w.deadlines()
			for range rounds {
				came := w.serverTime()
				ctx, giveUp := context.WithCancel(w.Context())
				next := bob.start(ctx)
				var place string
				var end time.Time
				waittest.Until(w, "a place", func() bool {
					for place, end = range w.deadlines() {
						if _, ok := others[place]; !ok {
							return true
						}
					}
					return false
				})
				now := w.serverTime()
				if last := latest(now.Sub(came) + time.Second); end.After(last) {
					w.Errorf("the place is good for %v too long", end.Sub(last))
				}
				giveUp()
				wantErr(w, "the waiter that gave up", receive(w, next).err, context.Canceled)
				waittest.Until(w, "the end of the place", func() bool { return w.deadlines()[place].IsZero() })
			}
		}
		comeAndGo(func(time.Duration) time.Time { return w.serverTime().Add(lasts) })
		theirs := w.serverTime().Add(5 * time.Minute)
		w.redis.Do("RPUSH", "redisson_lock_queue:{"+name+"}", java)
		w.redis.Do("ZADD", "redisson_lock_timeout:{"+name+"}", strconv.FormatInt(theirs.UnixMilli(), 10), java)
		comeAndGo(func(waited time.Duration) time.Time { return theirs.Add(lasts + waited) })

		proxy := faultproxy.Start(t, w.redis.Addr())
		dying := w.agentOver(openRedis(t, "redis://"+proxy.Addr()))
		ctx, giveUp := context.WithCancel(w.Context())
		w.Cleanup(giveUp)
		dying.lock("carol").start(ctx)
		w.awaitPlaces(2)
		proxy.DropRequests(true)
		comeAndGo(func(waited time.Duration) time.Time { return theirs.Add(lasts + waited) })
		_, err := both[1].FairLock(name).Break(w.Context(), "an operator")
		must(w, err)
		receive(w, h[0].Done())
		h.wantLostBy(w, channelapi.LostBroken)
		both[0].lock("alice").wantLocked(w, false)
	})
}

// The server takes no writes while a waiter gives up. Nothing is left of its place later.
func TestD28AWaiterGivesUpWhileTheServerIsPaused(t *testing.T) {
	onRedis(t, fair, func(w *world) {
		all := w.agents(3)
		h := all[0].lock("alice").hold(w)
		bobs := all[1].lock("bob").start(waittest.Context(w))
		w.awaitPlaces(1)
		ctx, giveUp := context.WithCancel(w.Context())
		carols := all[2].lock("carol").start(ctx)
		w.awaitPlaces(2)
		w.redis.Do("CLIENT", "PAUSE", "1000000", "WRITE")
		giveUp()
		wantErr(w, "the waiter that gave up", receive(w, carols).err, context.Canceled)
		w.redis.Do("CLIENT", "UNPAUSE")
		w.awaitPlaces(1)
		must(w, h.release(w))
		next := receive(w, bobs)
		must(w, next.err)
		w.awaitPlaces(0)
		must(w, next.release(w))
	})
}
