package scenarios

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
)

// The server forgets holds. They are released as their renewals begin, which put back what the server has forgotten.
// None comes back after its release.
func TestHoldsThatAreReleasedAsTheServerForgetsThem(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	w := &world{T: t, kind: plain}
	a := w.agentOver(openRedis(t, server.URL()))
	var locks []lock
	var holds []held
	for i := range 20 {
		l := a.named(fmt.Sprint("orders/", i), "alice", channelapi.Try())
		locks, holds = append(locks, l), append(holds, l.hold(t))
	}
	server.Do("FLUSHALL")
	probe := a.named("probe", "alice", channelapi.Try())
	waittest.Until(t, "the agent to learn of it", func() bool {
		_, err := probe.acquire(t.Context())
		return errors.Is(err, lockagent.ErrGrace)
	})
	for _, h := range holds {
		must(t, h.release(t))
	}
	waittest.Until(t, "the grace period to end", func() bool {
		_, err := probe.acquire(t.Context())
		return err == nil
	})
	for _, l := range locks {
		l.wantLocked(t, false)
		l.hold(t)
	}
}

func TestN02EveryKindGoesOnAfterAFailoverBySentinels(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinels(t, 1, 500*time.Millisecond)
	everyKindGoesOn(t, sentinel.URL(), func() {
		sentinel.A.AwaitReplica()
		sentinel.A.Kill()
		sentinel.AwaitMaster(sentinel.B)
	})
}

func TestN02EveryKindGoesOnAfterAFailoverInACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 1)
	master := cluster.Nodes[0]
	replica := cluster.AddReplica(t, master)
	replica.Do("CONFIG", "SET", "cluster-node-timeout", "1000") // tells the master of itself twice a second
	waittest.Until(t, "the master to tell clients of the replica", func() bool {
		slots := master.Do("CLUSTER", "SLOTS").([]any)
		return len(slots[0].([]any)) > 3 // first slot, last slot, master
	})
	everyKindGoesOn(t, cluster.URL(), func() {
		master.AwaitReplica()
		master.Kill()
		replica.Do("CLUSTER", "FAILOVER", "TAKEOVER") // there is no other master to agree
		waittest.Until(t, "the failover", func() bool { return replica.Info("replication", "role") == "master" })
	})
}

// everyKindGoesOn has a failover meet something of every kind that is held and waited for. The replica has all of
// it. So the holders go on, and the waiters get their turn when the holders are done.
func everyKindGoesOn(t *testing.T, url string, failover func()) {
	first, err := channelapi.New(channelapi.Config{Store: openRedis(t, url)})
	must(t, err)
	defer first.Close()
	second, err := channelapi.New(channelapi.Config{Store: openRedis(t, url)})
	must(t, err)
	defer second.Close()

	// Each has what ends the wait, and the wait itself.
	type pair struct {
		end  func(context.Context) error
		wait <-chan error
	}
	waiting := make(map[string]pair)
	granted := func(grants <-chan channelapi.Grant) <-chan error {
		out := make(chan error, 1)
		go func() {
			g := <-grants
			if g.Err() != nil {
				out <- g.Err()
				return
			}
			out <- g.Release(waittest.Context(t))
		}()
		return out
	}
	for kind, of := range map[string]func(*channelapi.Locks) *channelapi.Lock{
		"plain":  func(l *channelapi.Locks) *channelapi.Lock { return l.Lock("plain") },
		"fair":   func(l *channelapi.Locks) *channelapi.Lock { return l.FairLock("fair") },
		"read":   func(l *channelapi.Locks) *channelapi.Lock { return l.ReadLock("read") },
		"write":  func(l *channelapi.Locks) *channelapi.Lock { return l.WriteLock("write") },
		"fenced": func(l *channelapi.Locks) *channelapi.Lock { return l.FencedLock("fenced") },
		"spin":   func(l *channelapi.Locks) *channelapi.Lock { return l.SpinLock("spin") },
	} {
		g, err := of(first).Acquire(waittest.Context(t))
		must(t, err)
		next := of(second)
		if kind == "read" { // another reader would not wait
			next = second.WriteLock("read")
		}
		waiting[kind] = pair{g.Release, granted(next.AcquireAsync(waittest.Context(t)))}
	}
	semaphore, permits, latch := first.Semaphore("semaphore"), first.Permits("permits"), first.Latch("latch")
	_, err = semaphore.TrySetPermits(waittest.Context(t), 3)
	must(t, err)
	g, err := semaphore.Acquire(waittest.Context(t), 2)
	must(t, err)
	waiting["semaphore"] = pair{g.Release, granted(second.Semaphore("semaphore").AcquireAsync(waittest.Context(t), 2))}
	_, err = permits.TrySetPermits(waittest.Context(t), 3)
	must(t, err)
	g, err = permits.Acquire(waittest.Context(t), 2)
	must(t, err)
	waiting["permits"] = pair{g.Release, granted(second.Permits("permits").AcquireAsync(waittest.Context(t), 2))}
	must(t, latch.Set(waittest.Context(t), 2))
	_, err = latch.CountDown(waittest.Context(t))
	must(t, err)
	waiting["latch"] = pair{
		func(ctx context.Context) error { _, err := latch.CountDown(ctx); return err },
		second.Latch("latch").AwaitAsync(waittest.Context(t)),
	}

	failover()
	for kind, p := range waiting {
		select {
		case err := <-p.wait:
			t.Errorf("%s: the wait was over too early: %v", kind, err)
		default:
		}
	}
	for kind, p := range waiting {
		if err := p.end(waittest.Context(t)); err != nil && !errors.Is(err, channelapi.ErrUnconfirmed) {
			t.Errorf("%s: the holder: %v", kind, err)
		}
		if err := <-p.wait; err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	for name, number := range map[string]func(context.Context) (channelapi.PermitsStatus, error){
		"semaphore": semaphore.Status, "permits": permits.Status,
	} {
		if s, err := number(waittest.Context(t)); err != nil || s.Free != 3 {
			t.Errorf("%s: %+v, %v; want 3 free permits", name, s, err)
		}
	}
}
