package scenarios

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
)

// noSubscriptionIsLeft has many owners use few locks, and then looks who listens for a release.
func noSubscriptionIsLeft(w *world) {
	const owners, rounds, names = 16, 10, 5
	both := w.agents(2)
	var wg sync.WaitGroup
	for i, a := range both {
		for o := range owners {
			var locks []lock
			for n := range names {
				locks = append(locks, a.named(fmt.Sprint("orders/", n), fmt.Sprint("owner ", o)))
			}
			wg.Go(func() {
				for round := range rounds {
					locks[(o*i+round)%names].guarded(w, func(held) {})
				}
			})
		}
	}
	wg.Wait()
	waittest.Until(w, "all subscriptions to locks to end", func() bool { return len(lockChannels(w.redis)) == 0 })
	for _, a := range both {
		must(w, a.Close())
	}
	waittest.Until(w, "the agents to stop listening", func() bool { return len(agentChannels(w.redis)) == 0 })
}

// lockChannels are the channels of locks that somebody has subscribed to, and agentChannels those of agents.
func lockChannels(redis *redistest.Server) []any {
	locks := redis.Do("PUBSUB", "CHANNELS", "redisson_lock__channel*").([]any)
	return append(locks, redis.Do("PUBSUB", "CHANNELS", "lockagent_agents:*").([]any)...)
}

func agentChannels(redis *redistest.Server) []any {
	return redis.Do("PUBSUB", "CHANNELS", "lockagent_agent:*").([]any)
}

func serverIsGone(w *world) {
	a := w.agent()
	try, wait := a.lock("alice", channelapi.Try()), a.lock("alice", channelapi.Wait(2*time.Second))
	must(w, try.hold(w).release(w))
	w.redis.Kill()
	_, err := try.acquire(waittest.Context(w))
	wantErr(w, "a try", err, channelapi.ErrStoreUnavailable)
	_, err = wait.acquire(waittest.Context(w))
	wantErr(w, "a wait", err, channelapi.ErrStoreUnavailable)
	wantErr(w, "a wait", err, channelapi.ErrTimeout)
	if !strings.Contains(err.Error(), name) {
		w.Errorf("%q does not name the lock", err)
	}
}
