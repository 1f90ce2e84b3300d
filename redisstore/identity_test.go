package redisstore_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/redisstore"
)

func TestIdentity(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	stores := make([]*redisstore.Store, 5)
	var opening sync.WaitGroup
	for i := range stores { // at once: only one of them can be first
		opening.Go(func() { stores[i] = open(t, server.URL()) })
	}
	opening.Wait()
	if t.Failed() {
		return
	}
	identity := stores[0].Identity()
	if kept := server.Do("GET", "lockagent_store"); len(identity) != 36 || kept != identity {
		t.Errorf("identity %q, and %q is kept", identity, kept)
	}
	for _, store := range stores {
		if got := store.Identity(); got != identity {
			t.Errorf("identity %q for one store, %q for another", identity, got)
		}
	}
	if other := open(t, server.URL()+"/1").Identity(); other == identity || other == "" {
		t.Errorf("identity %q for one database, %q for another", identity, other)
	}
}

// An agent that notices a reset writes the identity again.
func TestIdentityIsWrittenAgain(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	first := open(t, server.URL())
	_ = first.Close()
	store := open(t, server.URL())
	identity := store.Identity()
	if identity != first.Identity() {
		t.Errorf("identity %q after %q", identity, first.Identity())
	}
	server.Do("FLUSHALL")
	acquire(t, store, wish("orders", agentA, 1)) // it notices
	waittest.Until(t, "the identity is kept again", func() bool {
		return server.Do("GET", "lockagent_store") == any(identity)
	})
	if got := store.Identity(); got != identity {
		t.Errorf("identity %q, want %q as before", got, identity)
	}
}

// Another agent that does not know the identity may be faster.
func TestAnotherIdentityIsAdopted(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store := open(t, server.URL())
	told := make(chan lockagent.Reset, 10)
	defer store.OnReset(func(r lockagent.Reset) { told <- r })()
	former := store.Identity()
	server.Do("EVAL", "redis.call('FLUSHALL') return redis.call('SET', KEYS[1], 'another')", "1", "lockagent_store")
	granted := acquire(t, store, wish("orders", agentA, 1))
	if r := await(t, told); r.Reason != "emptied" || r.Store != "" {
		t.Errorf("told %+v first, want that the server was emptied", r)
	}
	r := await(t, told)
	if r.After <= 0 || r.Before != r.After {
		t.Errorf("told of the identity with the times %d and %d", r.After, r.Before)
	}
	r.After, r.Before = 0, 0
	if want := (lockagent.Reset{
		From: granted.Incarnation, To: granted.Incarnation, Reason: "other identity", Store: former,
	}); r != want {
		t.Errorf("told %+v, want %+v", r, want)
	}
	if got := store.Identity(); got != "another" {
		t.Errorf("identity %q", got)
	}
}

// Something else under the key keeps nobody from locking.
func TestIdentityThatIsSpoilt(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, command := range [][]string{
		{"RPUSH", "lockagent_store", "x"},
		{"SET", "lockagent_store", "two words"},
		{"SET", "lockagent_store", ""},
		{"SET", "lockagent_store", fmt.Sprintf("%065d", 1)},
	} {
		server.Do("FLUSHALL")
		server.Do(command...)
		store := open(t, server.URL())
		if got := store.Identity(); got != "" {
			t.Errorf("after %q: identity %q", command, got)
		}
		works(t, store)
	}
}

// The identity of a Cluster may be on a node that is down.
func TestIdentityOnANodeThatIsDown(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, redistest.WithConfig("cluster-require-full-coverage no"))
	node := cluster.NodeOf("lockagent_store")
	node.Kill()
	var up *redistest.Server
	for _, n := range cluster.Nodes {
		if n != node {
			up = n
		}
	}
	store := open(t, up.URL())
	if got := store.Identity(); got != "" {
		t.Errorf("identity %q without its node", got)
	}
	node.Restart()
	cluster.AwaitOK(t)
	waittest.Until(t, "the identity is known", func() bool { return store.Identity() != "" })
	if got := open(t, up.URL()).Identity(); got != store.Identity() {
		t.Errorf("identity %q for one store, %q for another", store.Identity(), got)
	}
}
