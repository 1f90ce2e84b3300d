package redisstore_test

import (
	"strings"
	"testing"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/redisstore"
	"github.com/lockagent/lockagent/storetest"
)

func TestSentinel(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinel(t)
	refused(t, redisstore.Config{}, sentinel.Watcher.URL(), lockagent.ErrBadURL, "there is a Sentinel", "master_set")
	refused(t, redisstore.Config{}, strings.Replace(sentinel.URL(), "master_set=", "master_set=not", 1), lockagent.ErrBadURL, "no master", "SENTINEL MASTERS")

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
