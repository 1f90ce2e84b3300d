package redisstore_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/faultproxy"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/redisstore"
	"github.com/lockagent/lockagent/storetest"
)

func TestSentinel(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinel(t)
	refused(t, redisstore.Config{}, sentinel.Watcher.URL(), lockagent.ErrBadURL, "there is a Sentinel", "master_set")
	refused(
		t, redisstore.Config{}, strings.Replace(sentinel.URL(), "master_set=", "master_set=not", 1),
		lockagent.ErrBadURL, "no master", "SENTINEL MASTERS",
	)

	store := open(t, sentinel.URL())
	told := make(chan lockagent.Reset, 10)
	defer store.OnReset(func(r lockagent.Reset) { told <- r })()
	req := wish("orders", agentA, 1)
	before := acquire(t, store, req)
	sub := storetest.Subscribe(t, store, "orders")
	sentinel.A.AwaitReplica()

	sentinel.Failover()
	if reset := await(t, told); reset.Reason != "failed over" || reset.From != before.Incarnation {
		t.Errorf("told %+v after %+v", reset, before)
	}
	// The Sentinel would tell the old master, which would cut its clients off. That
	// must not be needed: the old master lives on, and so do connections to it.
	sentinel.Watcher.Pause()
	after := persistently(t, store, req) // the very tenure that has it
	if !after.Granted || after.Token <= before.Token {
		t.Errorf("granted %+v after %+v", after, before)
	}
	release(t, store, req)
	wakes(t, sub, store, "orders")
	if got := sentinel.B.Do("PUBSUB", "NUMSUB", "redisson_lock__channel:{orders}").([]any); got[1] != int64(1) {
		t.Errorf("at the new master there are %v subscriptions, want 1", got[1])
	}
}

// A master that was demoted where it is keeps its connections. Whatever call comes first finds the
// new master.
func TestAMasterThatIsDemoted(t *testing.T) {
	t.Parallel()
	held, other := wish("orders", agentA, 1), wish("orders", agentB, 1)
	for name, first := range map[string]func(t *testing.T, s *redisstore.Store){
		"release": func(t *testing.T, s *redisstore.Store) { release(t, s, held) },
		"renew": func(t *testing.T, s *redisstore.Store) {
			reply, err := storetest.Renew(t, s, lockagent.RenewRequest{
				Name: held.Name, Tenure: held.Tenure, Lease: time.Minute, Urgent: true,
			})
			if err != nil || !reply.Held {
				t.Errorf("Renew = %+v, %v", reply, err)
			}
		},
		"wait": func(t *testing.T, s *redisstore.Store) { queue(t, s, other) },
		"break": func(t *testing.T, s *redisstore.Store) {
			if broken, err := storetest.Break(t, s, held.Name); err != nil || !broken {
				t.Errorf("Break = %v, %v", broken, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old, master := redistest.Start(t), redistest.Start(t)
			proxy := faultproxy.Start(t, old.Addr())
			store := open(t, "redis://"+proxy.Addr())
			master.Do("REPLICAOF", "127.0.0.1", strconv.Itoa(old.Port()))
			old.AwaitReplica()
			acquire(t, store, held)
			waittest.Until(t, "the lock to be replicated", func() bool {
				return master.Do("EXISTS", "orders") == int64(1)
			})
			master.Do("REPLICAOF", "NO", "ONE")
			old.Do("REPLICAOF", "127.0.0.1", "1") // nobody is there
			proxy.LeadTo(master.Addr())
			first(t, store)
			if name == "release" && master.Do("EXISTS", "orders") != int64(0) {
				t.Error("the new master has the lock still")
			}
		})
	}
}
