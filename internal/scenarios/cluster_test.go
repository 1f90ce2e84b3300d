package scenarios

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
)

func TestA17TriesDuringAFailoverInACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 1)
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
		waittest.Until(t, "a node to grant locks", func() bool {
			h, err := l.acquire(t.Context())
			if errors.Is(err, lockagent.ErrGrace) || err != nil && strings.Contains(err.Error(), "CLUSTERDOWN") {
				return false // for a moment, the nodes may not agree who is the master, and then a grace period begins
			}
			must(t, err)
			must(t, h.release(t))
			return true
		})
	}
}

// The master dies. The Sentinels take some time to agree on the replica, and then the lock works again, with its
// wake-ups.
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
	must(t, use(waittest.Context(t)))
	sentinel.A.Kill()
	sentinel.AwaitMaster(sentinel.B)
	waittest.Until(t, "the lock to work again", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return use(ctx) == nil
	})
	for range 10 {
		must(t, use(waittest.Context(t)))
	}
}

// One Cluster is enough for what slots can break.
func TestA11E06G06H18K01P12P13InACluster(t *testing.T) {
	t.Parallel()
	url := redistest.StartCluster(t, 3).URL()
	for _, s := range []struct {
		name string
		kind kind
		run  func(*world)
	}{
		{"A11", plain, threeTimes},
		{"G06", spin, threeTimes},
		{"H18", all, threeTimes},
		{"E06 a writer reads", write, aWriterReads},
		{"K01", plain, permitsOfOneSlot},
		{"P12 names that a Cluster cannot release are refused", plain, namesAreRefused},
		{"P13 a latch with braces", plain, latchWithBraces},
	} {
		t.Run(s.name, func(t *testing.T) {
			s.run(&world{T: t, kind: s.kind, open: func() lockagent.Store { return openRedis(t, url) }})
		})
	}
}

func aWriterReads(w *world) {
	both := w.agents(2)
	alice, bob := both[0].sides("alice"), both[1].sides("bob")
	writing := grant(w, alice.write)
	reading := grant(w, alice.read)
	wantFree(w, "somebody writes: another reads", bob.read, false)
	must(w, reading.Release(w.Context()))
	wantFree(w, "somebody still writes: another reads", bob.read, false)
	must(w, writing.Release(w.Context()))
	wantFree(w, "all is free: another writes", bob.write, true)
}

func permitsOfOneSlot(w *world) {
	a := w.agent()
	for _, p := range []permits{a.Permits("test::pool"), a.Semaphore("test::{pool}")} {
		set(w, p, 1, true)
		must(w, take(w, p, 1).Release(w.Context()))
		wantFreePermits(w, p, 1)
	}
}

func namesAreRefused(w *world) {
	a := w.agent()
	for _, name := range []string{"x{", "a}b", "{}z"} {
		_, err := a.Lock(name, channelapi.Try()).Acquire(w.Context())
		if bad, ok := errors.AsType[*channelapi.NameError](err); !ok || bad.Name != name {
			w.Errorf("%q: %v, want a NameError", name, err)
		}
	}
}

func latchWithBraces(w *world) {
	if err := w.agent().Latch("{a}").Set(w.Context(), 1); !errors.Is(err, channelapi.ErrBadName) {
		w.Errorf("set: %v", err)
	}
}
