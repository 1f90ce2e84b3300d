package redisstore_test

import (
	"testing"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/redisstore"
	"github.com/lockagent/lockagent/storetest"
)

// Whoever waits for what somebody deletes is woken, also if the messages of either travel otherwise. The contract has
// the same for agents with one setting.
func TestWaitersLearnOfADeletion(t *testing.T) {
	t.Parallel()
	redistest.NeedsSharded(t)
	cluster := redistest.StartCluster(t, 3)
	sharded := openConfig(t, redisstore.Config{Sharded: redisstore.ShardedOn}, cluster.URL())
	classic := openConfig(t, redisstore.Config{Sharded: redisstore.ShardedOff}, cluster.URL())
	for title, c := range map[string]struct{ waits, deletes *redisstore.Store }{
		"sharded waiter, classic deletion": {sharded, classic},
		"classic waiter, sharded deletion": {classic, sharded},
	} {
		for _, kind := range []lockagent.LockKind{lockagent.Semaphore, lockagent.Permits, lockagent.Latch} {
			t.Run(title+"/"+string(kind), func(t *testing.T) {
				name := lockagent.Name(title + " " + string(kind))
				remove := func() (existed bool, err error) {
					reply, err := storetest.Permits(t, c.deletes, lockagent.PermitsRequest{Name: name, Kind: kind, Op: lockagent.DeletePermits, Change: "delete"})
					return reply.Done, err
				}
				if kind == lockagent.Latch {
					remove = func() (existed bool, err error) {
						reply, err := latch(t, c.deletes, lockagent.LatchRequest{Name: name, Op: lockagent.LatchDelete, Change: "delete"})
						return reply.Changed, err
					}
					if _, err := latch(t, c.deletes, lockagent.LatchRequest{Name: name, Op: lockagent.LatchSet, Count: 2, Change: "set"}); err != nil {
						t.Fatal(err)
					}
				} else {
					setPermits(t, c.deletes, name, kind, 1)
				}
				woken := make(chan struct{}, 100)
				defer c.waits.Subscribe(name, kind, func() { woken <- struct{}{} })()
				waittest.Until(t, "a subscription of either way", func() bool {
					n := 0
					for _, node := range cluster.Nodes {
						for _, command := range []string{"NUMSUB", "SHARDNUMSUB"} {
							if node.Do("PUBSUB", command, channelOf(name, kind)).([]any)[1] != int64(0) {
								n++
							}
						}
					}
					return n == 2
				})
				for len(woken) > 0 {
					<-woken
				}
				if existed, err := remove(); err != nil || !existed {
					t.Fatalf("Delete = %t, %v", existed, err)
				}
				await(t, woken)
			})
		}
	}
}

// channelOf is the channel of what is deleted.
func channelOf(name lockagent.Name, kind lockagent.LockKind) string {
	if kind == lockagent.Latch {
		return "redisson_countdownlatch__channel__{" + string(name) + "}"
	}
	return "redisson_sc:{" + string(name) + "}"
}
