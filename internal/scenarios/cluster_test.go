package scenarios

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
)

func TestA17TriesDuringAFailoverInACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	replica := cluster.AddReplica(t, cluster.NodeOf(name))
	w := &world{T: t, kind: plain}
	l := w.agentOver(openRedis(t, cluster.URL())).lock("alice", channelapi.Try())
	for i := range 30 {
		if i == 10 {
			cluster.NodeOf(name).AwaitReplica()
			replica.Do("CLUSTER", "FAILOVER")
		}
		if i == 20 {
			waittest.Until(t, "the failover", func() bool { return replica.Info("replication", "role") == "master" })
		}
		l.guarded(t, func(held) {})
	}
}

// The master dies. The Sentinels take some time to agree on the replica, and then the lock works again, with its wake-ups.
func TestN02LocksWorkAfterAFailoverBySentinels(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinels(t, 1, 500*time.Millisecond)
	w := &world{T: t, kind: plain, open: func() lockagent.Store { return openRedis(t, sentinel.URL()) }}
	both := w.agents(2)
	use := func(ctx context.Context) error {
		h, err := both[0].lock("alice").acquire(ctx)
		if err != nil {
			return err
		}
		next := both[1].lock("bob").start(ctx) // listens to the lock's channel
		if err := h.release(t); err != nil {
			return err
		}
		got := <-next
		if got.err != nil {
			return got.err
		}
		return got.release(t)
	}
	must(t, use(patient(t)))
	sentinel.A.Kill()
	sentinel.AwaitMaster(sentinel.B)
	waittest.Until(t, "the lock to work again", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return use(ctx) == nil
	})
	for range 10 {
		must(t, use(patient(t)))
	}
}

func TestP12NamesThatAClusterCannotReleaseAreRefused(t *testing.T) {
	t.Parallel()
	w := &world{T: t, kind: plain}
	a := w.agentOver(openRedis(t, redistest.StartCluster(t, 1).URL()))
	for _, name := range []string{"x{", "a}b", "{}z"} {
		_, err := a.Lock(name, channelapi.Try()).Acquire(t.Context())
		if bad, ok := errors.AsType[*channelapi.NameError](err); !ok || bad.Name != name {
			t.Errorf("%q: %v, want a NameError", name, err)
		}
	}
}
