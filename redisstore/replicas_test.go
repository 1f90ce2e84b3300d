package redisstore_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/faultproxy"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/redisstore"
	"github.com/lockagent/lockagent/storetest"
)

// Stores that wait for a replica. One is patient: the replica is there. The other is for a replica that is not.
var (
	patient = redisstore.Config{
		MinReplicas: 1, CallTimeout: 4 * storetest.Patience, SilenceTimeout: 2 * storetest.Patience,
		ReplicaTimeout: storetest.Patience,
	}
	hasty = redisstore.Config{
		MinReplicas: 1, CallTimeout: storetest.Patience, SilenceTimeout: storetest.Patience / 2,
		ReplicaTimeout: 50 * time.Millisecond,
	}
)

// startReplicated starts a server with one replica.
func startReplicated(t *testing.T, opts ...redistest.Option) (master, replica *redistest.Server) {
	t.Helper()
	master = redistest.Start(t, opts...)
	replica = redistest.Start(t, redistest.WithConfig("replicaof 127.0.0.1 "+strconv.Itoa(master.Port())))
	master.AwaitReplica()
	return master, replica
}

// tooFew expects the error of a call that no replica of one has acknowledged.
func tooFew(t *testing.T, what string, err error) {
	t.Helper()
	counted, _ := errors.AsType[*lockagent.ReplicasError](err)
	if !errors.Is(err, lockagent.ErrTooFewReplicas) || counted == nil || counted.Acknowledged != 0 ||
		counted.Wanted != 1 || counted.Renewal != (what == "Renew") {
		t.Errorf("%s without the replica: %#v, want a ReplicasError with 0 of 1", what, err)
	}
}

// wishes are one for each kind that is held. Semaphores have one permit.
func wishes(t *testing.T, store *redisstore.Store) (all []lockagent.AcquireRequest) {
	t.Helper()
	for _, kind := range kinds {
		req := wish(lockagent.Name(kind), agentA, 1)
		req.Kind = kind
		switch kind {
		case lockagent.Latch:
			continue
		case lockagent.Semaphore, lockagent.Permits:
			setPermits(t, store, req.Name, kind, 1)
		}
		all = append(all, req)
	}
	return all
}

func setPermits(t *testing.T, store *redisstore.Store, name lockagent.Name, kind lockagent.LockKind, n int) {
	t.Helper()
	done := make(chan error, 1)
	store.Permits(t.Context(), lockagent.PermitsRequest{
		Name: name, Kind: kind, Op: lockagent.TrySetPermits, N: n, Change: string(lockagent.NewAgentID()),
	}, func(_ lockagent.PermitsReply, err error) { done <- err })
	if err := await(t, done); err != nil {
		t.Fatal(err)
	}
}

func TestReplicasAreCounted(t *testing.T) {
	t.Parallel()
	master, replica := startReplicated(t)
	store := openConfig(t, patient, master.URL())
	for _, req := range wishes(t, store) {
		first := acquire(t, store, req)
		if first.Replicas != 1 || replica.Do("EXISTS", string(req.Name)) != int64(1) {
			t.Errorf("%s: granted %+v, and the replica may not have it", req.Kind, first)
		}
		renewed, err := storetest.Renew(t, store, lockagent.RenewRequest{
			Name: req.Name, Kind: req.Kind, Tenure: req.Tenure, Lease: time.Hour, Urgent: true,
		})
		if err != nil || !renewed.Held || renewed.Replicas != 1 {
			t.Errorf("%s: Renew = %+v, %v", req.Kind, renewed, err)
		}
	}

	// Lone calls: each is one exchange. A release waits for nobody.
	master.Do("CONFIG", "RESETSTAT")
	req := wish("orders", agentA, 2)
	acquire(t, store, req)
	release(t, store, req)
	if waits := master.Calls("wait"); waits != 1 {
		t.Errorf("%d WAITs for an acquire and a release", waits)
	}
	master.Do("CONFIG", "RESETSTAT")
	plain := open(t, master.URL())
	if reply := acquire(t, plain, req); reply.Replicas != 0 || master.Calls("wait") != 0 {
		t.Errorf("without MinReplicas: %+v, %d WAITs", reply, master.Calls("wait"))
	}
}

// A grant of which too few replicas know is given back. It leaves nothing, and the lock is there for
// others.
func TestTooFewReplicas(t *testing.T) {
	t.Parallel()
	master, replica := startReplicated(t)
	store := openConfig(t, hasty, master.URL())
	all := wishes(t, store)
	held := wish("held", agentA, 1)
	acquire(t, openConfig(t, patient, master.URL()), held)
	before := keys(master)
	replica.Pause()
	for _, req := range all {
		reply, err := storetest.Acquire(t, store, req)
		tooFew(t, string(req.Kind), err)
		if reply.Granted {
			t.Errorf("%s: granted %+v", req.Kind, reply)
		}
		// Nobody has it, and another tenure may, if nobody asks the replicas.
		req.Tenure = lockagent.Tenure{Agent: agentB, Number: 1}
		acquire(t, open(t, master.URL()), req)
		if _, err := storetest.Release(t, store, lockagent.ReleaseRequest{
			Name: req.Name, Kind: req.Kind, Tenure: req.Tenure,
		}); err != nil {
			t.Error(err)
		}
	}
	left := keys(master)
	left = slices.DeleteFunc(left, func(key string) bool {
		return slices.Contains(before, key) || strings.HasPrefix(key, "redisson_lock_token:")
	})
	if len(left) > 0 {
		t.Errorf("left are %q", left)
	}

	// A renewal does not count, and the tenure stays.
	_, err := storetest.Renew(t, store, lockagent.RenewRequest{
		Name: held.Name, Tenure: held.Tenure, Lease: time.Minute, Urgent: true,
	})
	tooFew(t, "Renew", err)
	if reply, err := storetest.Renew(t, store, lockagent.RenewRequest{
		Name: "free", Tenure: held.Tenure, Lease: time.Minute, Urgent: true,
	}); err != nil || reply.Held {
		t.Errorf("Renew of a tenure that is over = %+v, %v", reply, err)
	}
	replica.Resume()
	again := openConfig(t, patient, master.URL())
	for _, req := range all {
		// The number is not spent: the tenure was given back, and not withdrawn.
		if reply := acquire(t, again, req); reply.Replicas != 1 {
			t.Errorf("%s with the replica again: %+v", req.Kind, reply)
		}
	}
}

// The server does not have the script, so the script is sent once more, after the WAIT. At that time the replica has
// all that was written.
func TestReplicasOfAScriptThatIsSentAnew(t *testing.T) {
	t.Parallel()
	master, replica := startReplicated(t)
	store := openConfig(t, hasty, master.URL())
	waittest.Until(t, "the replica to have acknowledged all", func() bool {
		return strings.Contains(
			master.Info("replication", "slave0"), ",offset="+master.Info("replication", "master_repl_offset")+",",
		)
	})
	replica.Pause()
	_, err := storetest.Acquire(t, store, wish("orders", agentA, 1))
	tooFew(t, "Acquire", err)
}

// A master that is demoted meanwhile does not say which replicas have the grant. The tenure may go on at the new
// master, so the agent must not forget it.
func TestAWaitForReplicasThatIsBrokenOff(t *testing.T) {
	t.Parallel()
	master, replica := startReplicated(t)
	store := openConfig(t, patient, master.URL())
	acquire(t, store, wish("other", agentA, 1)) // now the server knows the script
	replica.Pause()
	failed := make(chan error, 1)
	store.Acquire(t.Context(), wish("orders", agentA, 1), func(_ lockagent.AcquireReply, err error) { failed <- err })
	waittest.Until(t, "the master to have the lock", func() bool { return master.Do("EXISTS", "orders") == int64(1) })
	master.Do("REPLICAOF", "127.0.0.1", "1") // nobody is there
	err := await(t, failed)
	if unavailable(t, "Acquire", err); lockagent.Definite(err) || !strings.Contains(err.Error(), "which replicas") {
		t.Errorf("Acquire: %v", err)
	}
}

// A release by one agent passes the lock to another, which is not granted it before the replica has the
// pass.
func TestAPassWaitsForReplicas(t *testing.T) {
	t.Parallel()
	master, replica := startReplicated(t)
	locksOf := func(config redisstore.Config) *channelapi.Locks {
		locks, err := channelapi.New(channelapi.Config{Store: openConfig(t, config, master.URL())})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = locks.Close() })
		return locks
	}
	holder, slow, quick := locksOf(patient), locksOf(patient), locksOf(hasty)
	setPermits(t, open(t, master.URL()), "semaphore", lockagent.Semaphore, 1)
	setPermits(t, open(t, master.URL()), "permits", lockagent.Permits, 1)
	asks := map[string]func(l *channelapi.Locks) <-chan lockagent.Grant{
		"plain": func(l *channelapi.Locks) <-chan lockagent.Grant { return l.Lock("plain").AcquireAsync(t.Context()) },
		"fair": func(l *channelapi.Locks) <-chan lockagent.Grant {
			return l.FairLock("fair").AcquireAsync(t.Context())
		},
		"fenced": func(l *channelapi.Locks) <-chan lockagent.Grant {
			return l.FencedLock("fenced").AcquireAsync(t.Context())
		},
		"write": func(l *channelapi.Locks) <-chan lockagent.Grant {
			return l.WriteLock("write").AcquireAsync(t.Context())
		},
		"semaphore": func(l *channelapi.Locks) <-chan lockagent.Grant {
			return l.Semaphore("semaphore").AcquireAsync(t.Context(), 1)
		},
		"permits": func(l *channelapi.Locks) <-chan lockagent.Grant {
			return l.Permits("permits").AcquireAsync(t.Context(), 1)
		},
	}
	waiting := func(name string) bool {
		if name == "fair" {
			return master.Do("LLEN", "redisson_lock_queue:{fair}") == int64(1)
		}
		return master.Do("ZCARD", "lockagent_queue:{"+name+"}") == int64(1)
	}
	holds, waits := make(map[string]lockagent.Grant), make(map[string]<-chan lockagent.Grant)
	handOn := func(by *channelapi.Locks) {
		for name, ask := range asks {
			waits[name] = ask(by)
			waittest.Until(t, name+" to wait", func() bool { return waiting(name) })
		}
	}
	for name, ask := range asks {
		if holds[name] = await(t, ask(holder)); holds[name].Err() != nil || holds[name].Replicas() != 1 {
			t.Fatalf("%s: %v, %d replicas", name, holds[name].Err(), holds[name].Replicas())
		}
	}
	handOn(slow)
	for name, hold := range holds {
		_ = hold.Release(t.Context())
		if holds[name] = await(t, waits[name]); holds[name].Err() != nil || holds[name].Replicas() != 1 {
			t.Fatalf("%s, passed: %v, %d replicas", name, holds[name].Err(), holds[name].Replicas())
		}
	}
	handOn(quick)
	replica.Pause()
	for name, hold := range holds {
		_ = hold.Release(t.Context())
		tooFew(t, "a pass of "+name, await(t, waits[name]).Err())
	}
	replica.Resume()
	for name, ask := range asks {
		if hold := await(t, ask(holder)); hold.Err() != nil || hold.Replicas() != 1 {
			t.Errorf("%s with the replica again: %v, %d replicas", name, hold.Err(), hold.Replicas())
		}
	}
}

// A renewal that the replica does not acknowledge leaves the deadline where it was.
func TestARenewalWaitsForReplicas(t *testing.T) {
	t.Parallel()
	const lease = 10 * time.Minute
	master, replica := startReplicated(t)
	locks, err := channelapi.New(channelapi.Config{Store: openConfig(t, hasty, master.URL())})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = locks.Close() })
	var hold lockagent.Grant
	waittest.Until(t, "the replica to be in time", func() bool {
		hold = await(t, locks.Lock("orders", channelapi.Lease(lease)).AcquireAsync(t.Context()))
		return hold.Err() == nil
	})
	replica.Pause()
	extended := hold.ExtendAsync(t.Context(), time.Hour)
	waittest.Until(t, "the master to have the extension", func() bool {
		return master.Do("PTTL", "orders").(int64) > lease.Milliseconds()
	})
	master.Do("CONFIG", "RESETSTAT")
	// The agent renews again when it knows that the renewal before has failed.
	waittest.Until(t, "a second renewal", func() bool { return master.Calls("wait") >= 2 || len(extended) > 0 })
	if left := hold.Remaining(); left <= 0 || left > lease || len(extended) > 0 {
		t.Errorf("without the replica the hold has %v left, and %d answers to the extension came", left, len(extended))
	}
	replica.Resume()
	if err := await(t, extended); err != nil || hold.Remaining() <= lease {
		t.Errorf("with the replica again: %v, and the hold has %v left", err, hold.Remaining())
	}
}

// The point of it all: the master dies, and its replica has the lock.
func TestAFailoverToAReplicaThatHasTheLock(t *testing.T) {
	t.Parallel()
	master, replica := startReplicated(t)
	proxy := faultproxy.Start(t, master.Addr())
	store := openConfig(t, patient, "redis://"+proxy.Addr())
	held := wish("orders", agentA, 1)
	acquire(t, store, wish("other", agentA, 1)) // now the server knows the script
	replica.Pause()
	granted := make(chan lockagent.AcquireReply, 1)
	store.Acquire(t.Context(), held, func(reply lockagent.AcquireReply, _ error) { granted <- reply })
	waittest.Until(t, "the master to have the lock", func() bool { return master.Do("EXISTS", "orders") == int64(1) })
	if len(granted) > 0 {
		t.Error("granted before the replica has it")
	}
	replica.Resume()
	if reply := await(t, granted); !reply.Granted || reply.Replicas != 1 {
		t.Fatalf("granted %+v", reply)
	}
	master.Kill()
	replica.Do("REPLICAOF", "NO", "ONE")
	proxy.LeadTo(replica.Addr())

	other, err := storetest.Acquire(t, open(t, replica.URL()), wish("orders", agentB, 1))
	if err != nil || other.Granted || other.Holder != held.Tenure.String() {
		t.Errorf("another agent asked: %+v, %v", other, err)
	}
	// The new master has no replica.
	hurried := openConfig(t, hasty, replica.URL())
	_, err = storetest.Renew(t, hurried, lockagent.RenewRequest{
		Name: held.Name, Tenure: held.Tenure, Lease: time.Minute, Urgent: true,
	})
	tooFew(t, "Renew", err)
	release(t, open(t, replica.URL()), held)
}

// Each node of a Cluster is asked for its own replicas.
func TestReplicasInACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	node := cluster.NodeOf("orders")
	cluster.AddReplica(t, node)
	if reply := acquire(t, openConfig(t, patient, cluster.URL()), wish("orders", agentA, 1)); reply.Replicas != 1 {
		t.Errorf("granted %+v", reply)
	}
	store := openConfig(t, hasty, cluster.URL())
	for _, name := range []lockagent.Name{"a", "b", "c", "d", "e", "f"} {
		if cluster.NodeOf(string(name)) != node {
			_, err := storetest.Acquire(t, store, wish(name, agentA, 1))
			tooFew(t, string(name), err)
		}
	}
}

// Servers since 7.2 count replicas from the last write on the connection. So whatever confirms a tenure writes, even
// if it has nothing to change.
func TestAConfirmationIsAWrite(t *testing.T) {
	server := redistest.Start(t)
	store := open(t, server.URL())
	for _, req := range wishes(t, store) {
		if req.Kind == lockagent.ReadWriteLock {
			shared := req
			shared.Name, shared.Mode = "shared", lockagent.Shared
			defer confirmsByWriting(t, server, store, shared)
		}
		confirmsByWriting(t, server, store, req)
	}
}

func confirmsByWriting(t *testing.T, server *redistest.Server, store *redisstore.Store, req lockagent.AcquireRequest) {
	t.Helper()
	written := func(what string, call func() error) {
		t.Helper()
		before := server.Info("persistence", "rdb_changes_since_last_save")
		if err := call(); err != nil {
			t.Errorf("%s %q: %v", what, req.Name, err)
		}
		if after := server.Info("persistence", "rdb_changes_since_last_save"); after == before {
			t.Errorf("%s %q wrote nothing", what, req.Name)
		}
	}
	acquire(t, store, req)
	written("Acquire", func() error { acquire(t, store, req); return nil })
	// The clock is far ahead, so it does not move either.
	server.Do(
		"ZINCRBY", "lockagent_clock", "3600000000",
		server.Do("ZRANGE", "lockagent_clock", "0", "0").([]any)[0].(string),
	)
	written("Renew", func() error {
		_, err := storetest.Renew(t, store, lockagent.RenewRequest{
			Name: req.Name, Kind: req.Kind, Tenure: req.Tenure, Lease: time.Second, Urgent: true,
		})
		return err
	})
}

func TestReplicasWithSentinels(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinel(t)
	store := openConfig(t, patient, sentinel.URL())
	if reply := acquire(t, store, wish("orders", agentA, 1)); reply.Replicas != 1 {
		t.Errorf("granted %+v", reply)
	}
}

func TestOpenWithReplicas(t *testing.T) {
	server := redistest.Start(
		t, redistest.WithPassword(secret), redistest.WithUser("app", secret, documentedRules(t)),
		redistest.WithUser("all", secret, "~* &* +@all -wait"),
	)
	refused(t, redisstore.Config{MinReplicas: 1}, server.UserURL("all", secret), lockagent.ErrNotPermitted, "wait")
	openConfig(t, redisstore.Config{MinReplicas: 1}, server.UserURL("app", secret))

	for _, wrong := range []redisstore.Config{
		{MinReplicas: -1},
		{MinReplicas: 101},
		{ReplicaTimeout: -1},
		{ReplicaTimeout: 501 * time.Millisecond},
		{SilenceTimeout: 10 * time.Second, ReplicaTimeout: 2 * time.Second},
		{CallTimeout: time.Second, ReplicaTimeout: 251 * time.Millisecond},
	} {
		if _, err := wrong.Open(context.Background(), server.URL()); !errors.Is(err, lockagent.ErrBadOption) ||
			!strings.Contains(err.Error(), "Replica") {
			t.Errorf("Open with %+v: %v", wrong, err)
		}
	}
	right := redisstore.Config{
		CallTimeout: 10 * time.Second, SilenceTimeout: 5 * time.Second, ReplicaTimeout: 2500 * time.Millisecond,
	}
	openConfig(t, right, server.URL())
}
