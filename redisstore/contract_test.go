package redisstore_test

import (
	"context"
	"encoding/hex"
	"flag"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/memstore"
	"github.com/lockagent/lockagent/redisstore"
	"github.com/lockagent/lockagent/storetest"
)

var kinds = []lockagent.LockKind{
	lockagent.PlainLock,
	lockagent.ReadWriteLock,
	lockagent.FencedLock,
	lockagent.FairLock,
	lockagent.SpinLock,
	lockagent.Latch,
	lockagent.Semaphore,
	lockagent.Permits,
}

// contractRules are the documented rules for a user, with a pattern for the names in the contract. No key or channel
// but that of a lock itself matches the pattern.
func contractRules(t *testing.T) string {
	t.Helper()
	return strings.NewReplacer("~orders/*", "~[^lr{]* ~ready ~{a}[bc]", "~{orders/*}:*", "~{*}:*").Replace(documentedRules(t))
}

// The user has no rights but the documented ones, here and below.
func TestContract(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.WithTLS(), redistest.WithUser("app", secret, contractRules(t)))
	testContract(t, redisstore.Config{TLS: server.TLSConfig()}, asUser(server.TLSURL()), servers{nodes: []*redistest.Server{server}})
}

// asUser is a URL for the user of the contract.
func asUser(url string) string { return strings.Replace(url, "://", "://app:"+secret+"@", 1) }

func TestContractInACluster(t *testing.T) {
	t.Parallel()
	for name, sharded := range map[string]redisstore.Sharded{"Sharded": redisstore.ShardedOn, "Classic": redisstore.ShardedOff} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := redistest.StartCluster(t, 3, redistest.WithUser("app", secret, contractRules(t)))
			testContract(t, redisstore.Config{Sharded: sharded}, asUser(cluster.URL()),
				servers{nodes: cluster.Nodes, cluster: cluster, classic: sharded == redisstore.ShardedOff})
		})
	}
}

func TestContractWithSentinels(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinel(t)
	quiet := patient // here every grant and every renewal waits for the replica
	quiet.Logger = slog.New(slog.DiscardHandler)
	testContract(t, quiet, sentinel.URL(), servers{nodes: []*redistest.Server{sentinel.A}})
}

// servers are what is behind a URL.
type servers struct {
	nodes   []*redistest.Server
	cluster *redistest.Cluster // nil if they are none
	classic bool               // in a Cluster, messages reach all nodes
}

// empty leaves nothing there.
func (s servers) empty(testing.TB) {
	for _, node := range s.nodes {
		node.Do("FLUSHALL")
	}
}

func (s servers) of(name lockagent.Name) *redistest.Server {
	if s.cluster == nil {
		return s.nodes[0]
	}
	return s.cluster.NodeOf(string(name))
}

// outsider waits for a lock of any kind as a Redisson client does.
func (s servers) outsider(t testing.TB, name lockagent.Name, wake func()) {
	s.listen(t, name, wake, "redisson_lock__channel:{"+string(name)+"}", "redisson_rwlock:{"+string(name)+"}")
}

// waiter has a place at a fair lock as a Redisson client does.
func (s servers) waiter(t testing.TB, name lockagent.Name, wait time.Duration, told func()) {
	const waiter = "33333333-3333-4333-8333-333333333333:7"
	s.listen(t, name, told, "redisson_lock__channel:{"+string(name)+"}:"+waiter)
	s.of(name).Do("RPUSH", "redisson_lock_queue:{"+string(name)+"}", waiter)
	s.of(name).Do("ZADD", "redisson_lock_timeout:{"+string(name)+"}", strconv.FormatInt(time.Now().Add(wait).UnixMilli(), 10), waiter)
}

// listen calls a function at each message on channels in the slot of a lock.
func (s servers) listen(t testing.TB, name lockagent.Name, wake func(), channels ...string) {
	conn := s.of(name).Dial()
	command := "SUBSCRIBE"
	if s.cluster != nil && !s.classic {
		command = "SSUBSCRIBE"
	}
	for _, channel := range channels {
		if _, err := conn.Do(command, channel); err != nil {
			t.Fatal(err)
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			if _, err := conn.Receive(); err != nil {
				return
			}
			wake()
		}
	}()
	t.Cleanup(func() {
		conn.Close()
		<-ended
	})
}

// tokenKey is the key of a fenced lock in which Redisson counts.
func tokenKey(name lockagent.Name) string { return "redisson_lock_token:{" + string(name) + "}" }

func testContract(t *testing.T, config redisstore.Config, url string, s servers) {
	storetest.Run(t, kinds, func(t *testing.T) *storetest.Harness {
		s.empty(t)
		return &storetest.Harness{
			Store: openConfig(t, config, url),
			Open:  func(t testing.TB) lockagent.Store { return openConfig(t, config, url) },
			PlantHolder: func(_ testing.TB, name lockagent.Name, kind lockagent.LockKind, holder string, count int, lease time.Duration) {
				node := s.of(name)
				node.Do("DEL", string(name))
				if kind == lockagent.ReadWriteLock {
					node.Do("HSET", string(name), "mode", "write")
					holder += ":write"
				}
				node.Do("HSET", string(name), holder, strconv.Itoa(count))
				if kind == lockagent.FencedLock {
					node.Do("SET", tokenKey(name), strconv.Itoa(count))
				}
				if lease > 0 {
					node.Do("PEXPIRE", string(name), strconv.FormatInt(lease.Milliseconds(), 10))
				}
			},
			PlantValue: func(_ testing.TB, name lockagent.Name) {
				s.of(name).Do("SET", string(name), "something else")
			},
			PlantForeignHash: func(_ testing.TB, name lockagent.Name) {
				s.of(name).Do("HSET", string(name), "color", "blue", "size", "12")
			},
			PlantPermit: func(_ testing.TB, name lockagent.Name, id lockagent.PermitID, lease time.Duration) {
				node, till := s.of(name), "922337203685477"
				raw, _ := hex.DecodeString(string(id))
				if lease > 0 {
					till = strconv.FormatInt(time.Now().Add(lease).UnixMilli(), 10)
				}
				node.Do("DECR", string(name))
				node.Do("ZADD", "{"+string(name)+"}:timeout", till, string(raw))
			},
			PlantOutsider: s.outsider,
			PlantWaiter:   s.waiter,
			Reset:         s.empty,

			NoIncarnation: s.cluster != nil,
			PlantToken: func(_ testing.TB, name lockagent.Name, token lockagent.Token) {
				s.of(name).Do("SET", tokenKey(name), strconv.FormatUint(uint64(token), 10))
			},
			TellsWaiters: func(used, wanted lockagent.LockKind) bool { // those have one queue
				return used != lockagent.FencedLock || wanted != lockagent.PlainLock
			},
		}
	})
}

// The histories have many renewals, and each renewal waits for company. So there are fewer
// histories than usual, unless the command line says how many.
func TestCompare(t *testing.T) {
	t.Parallel()
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		if err := checks.Value.Set("10"); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = checks.Value.Set(checks.DefValue) }()
	}
	server := redistest.Start(t)
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			model := memstore.New()
			if kind == lockagent.Latch {
				storetest.CompareLatches(t, model, open(t, server.URL()))
				return
			}
			if kind == lockagent.Semaphore || kind == lockagent.Permits {
				storetest.ComparePermits(t, kind,
					[2]lockagent.Store{model, model.Share()},
					[2]lockagent.Store{open(t, server.URL()), open(t, server.URL())},
				)
				return
			}
			storetest.Compare(t, kind,
				[2]lockagent.Store{model, model.Share()},
				[2]lockagent.Store{open(t, server.URL()), open(t, server.URL())},
			)
		})
	}
}

// open opens a store that the test's cleanup closes.
func open(t testing.TB, url string) *redisstore.Store {
	t.Helper()
	return openConfig(t, redisstore.Config{}, url)
}

func openConfig(t testing.TB, config redisstore.Config, url string) *redisstore.Store {
	t.Helper()
	if config.Sharded == redisstore.ShardedOn {
		redistest.NeedsSharded(t)
	}
	if config.CallTimeout == 0 && config.SilenceTimeout == 0 { // servers answer late, and connect late, on a machine that is busy
		config.SilenceTimeout = redisstore.DefaultCallTimeout
	}
	if config.DialTimeout == 0 {
		config.DialTimeout = storetest.Patience
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithTimeout(context.Background(), storetest.Patience)
	defer cancel()
	store, err := config.Open(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}
