package redisstore_test

import (
	"crypto/tls"
	"encoding/hex"
	"flag"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
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

// contractRules are the documented rules for a user, with patterns for the names in the contract. No key but that of a
// lock itself matches the first patterns, and no key that locks share matches any of them.
func contractRules(t *testing.T) string {
	t.Helper()
	names := strings.NewReplacer("~orders/*", "~[^lr{]* ~ready ~{a}[bc]", "~{orders/*}:*", "~{*}:*",
		"~lockagent_*:{orders/*", "~lockagent_*:{[^0-9]* ~lockagent_*:{0} ~lockagent_*:{00} ~lockagent_*::*",
		"~redisson_lock_*:{orders/*", "~redisson_lock_*:{* ~redisson_lock_*:[ab]{*")
	rules := names.Replace(documentedRules(t))
	if strings.Contains(rules, "orders") {
		t.Fatalf("the rules %q are for other names than those of the contract, too", rules)
	}
	return rules
}

// The whole contract, on servers of which each serves one case at a time, one of them with TLS. The user has no rights
// but the documented ones, here and below.
func TestContract(t *testing.T) {
	t.Parallel()
	contract(t, redisstore.Config{GraceFirst: redisstore.NoGraceFirst}, 8)
}

// A store without grace periods goes on at once after a reset. So these are the cases with one.
func TestContractWithoutGracePeriods(t *testing.T) {
	t.Parallel()
	contract(t, redisstore.Config{}, 4, "Reset/", "readwrite/Reset/", "fenced/Reset/", "fair/Reset/", "spin/Reset/",
		"Token/", "Identity/", "Memory/", "latch/")
}

// contract runs cases on so many servers. openConfig tells which stores have grace periods.
func contract(t *testing.T, config redisstore.Config, atOnce int, only ...string) {
	user := redistest.WithUser("app", secret, contractRules(t))
	idle := make(chan servers, atOnce)
	var server *redistest.Server
	for range atOnce - 1 {
		server = redistest.Start(t, user)
		idle <- servers{url: asUser(server.URL()), nodes: []*redistest.Server{server}}
	}
	if server.HasTLS() {
		server = redistest.Start(t, user, redistest.WithTLS())
		idle <- servers{url: asUser(server.TLSURL()), tls: server.TLSConfig(), nodes: []*redistest.Server{server}}
	}
	storetest.Run(t, kinds, func(t *testing.T) *storetest.Harness {
		t.Parallel()
		s := <-idle
		t.Cleanup(func() { idle <- s })
		config := config
		config.TLS = s.tls
		return harness(t, config, s)
	}, only...)
}

// asUser is a URL for the user of the contract.
func asUser(url string) string { return strings.Replace(url, "://", "://app:"+secret+"@", 1) }

// In a Cluster all keys of a script are in one slot, messages take other ways, agents are heard at each node, and each
// node has its own clock. So these are the cases that have messages of each sort, or keys beside that of the lock, for
// each kind of locks that has scripts or channels of its own. What a script decides does not depend on the servers.
// make soak has all cases.
func TestContractInACluster(t *testing.T) {
	t.Parallel()
	messages := []string{
		"Subscribe/a waiter", "Subscribe/a release", "Subscribe/a break", "Subscribe/many subscriptions", "Listen/",
		"Queue/", "Pass/a ", "Pass/the next", "Outsiders/",
		"readwrite/Subscribe/a waiter", "readwrite/ReadWriteQueue/readers who", "readwrite/ReadWriteQueue/a downgrade",
		"fair/Fair/places", "fair/Fair/a ", "fair/Fair/the dead",
		"latch/", "semaphore/Permits/a ", "permits/PermitIDs/a ", "permits/Permits/a semaphore that is deleted",
	}
	keys := []string{
		"Kind/", "Token/", "Break/", "Twins/", "Rest/", "Reset/", "Concurrency/done", "Close/", "fenced/Fenced/",
		"fenced/Pass/a ", "spin/Spin/",
		"fair/NoRest/", "readwrite/ReadWrite/", "readwrite/NoRest/", "permits/Permits/a ",
	}
	contractInACluster(t, slices.Concat(messages, keys)...)
}

func contractInACluster(t *testing.T, only ...string) {
	cluster := redistest.StartCluster(t, 3, redistest.WithUser("app", secret, contractRules(t)))
	s := servers{url: asUser(cluster.URL()), nodes: cluster.Nodes, cluster: cluster}
	open := func(t *testing.T) *storetest.Harness { return harness(t, redisstore.Config{}, s) }
	storetest.Run(t, kinds, open, only...)
}

// Every grant and every renewal waits for the replica. So these are the cases in which tenures begin, go on, and end,
// for the calls of each kind. make soak has all cases.
func TestContractWithSentinels(t *testing.T) {
	t.Parallel()
	contractWithSentinels(t, "Acquire/", "Release/", "Renew/", "Pass/a ", "Rest/", "Break/", "Concurrency/one",
		"readwrite/ReadWrite/", "readwrite/ReadWriteQueue/a downgrade", "fenced/Fenced/", "fair/Fair/a ", "spin/Renew/",
		"latch/", "semaphore/Permits/", "permits/PermitIDs/")
}

func contractWithSentinels(t *testing.T, only ...string) {
	sentinel := redistest.StartSentinel(t)
	s := servers{url: sentinel.URL(), nodes: []*redistest.Server{sentinel.A}}
	quiet := patient
	quiet.Logger = slog.New(slog.DiscardHandler)
	storetest.Run(t, kinds, func(t *testing.T) *storetest.Harness { return harness(t, quiet, s) }, only...)
}

// servers are what is behind a URL.
type servers struct {
	url     string
	tls     *tls.Config // for a URL with TLS
	nodes   []*redistest.Server
	cluster *redistest.Cluster // nil if they are none
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
	s.of(name).Do(
		"ZADD", "redisson_lock_timeout:{"+string(name)+"}", strconv.FormatInt(time.Now().Add(wait).UnixMilli(), 10),
		waiter,
	)
}

// listen calls a function at each message on channels in the slot of a lock.
func (s servers) listen(t testing.TB, name lockagent.Name, wake func(), channels ...string) {
	conn := s.of(name).Dial()
	command := "SUBSCRIBE"
	if s.cluster != nil && redistest.Sharded(t) {
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

// harness has the store empty. A server may notice late that the stores of the case before were closed, and would count
// their subscriptions.
func harness(t *testing.T, config redisstore.Config, s servers) *storetest.Harness {
	s.empty(t)
	for _, node := range s.nodes {
		node.Do("CLIENT", "KILL", "TYPE", "pubsub")
	}
	return &storetest.Harness{
		Store: openConfig(t, config, s.url),
		Open:  func(t testing.TB) lockagent.Store { return openConfig(t, config, s.url) },
		PlantHolder: func(
			_ testing.TB, name lockagent.Name, kind lockagent.LockKind, holder string, count int, lease time.Duration,
		) {
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
		GracePeriods:  config.GraceFirst != 0,

		NoIncarnation: s.cluster != nil,
		PlantToken: func(_ testing.TB, name lockagent.Name, token lockagent.Token) {
			s.of(name).Do("SET", tokenKey(name), strconv.FormatUint(uint64(token), 10))
		},
	}
}

// The histories have many renewals, and each renewal waits for company. So there are fewer
// histories than usual, unless the command line says how many.
func TestCompare(t *testing.T) {
	t.Parallel()
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		if err := checks.Value.Set("10"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = checks.Value.Set(checks.DefValue) })
	}
	server := redistest.Start(t)
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			model := memstore.New()
			models := [2]lockagent.Store{model, model.Share()}
			subjects := [2]lockagent.Store{open(t, server.URL()), open(t, server.URL())}
			switch kind {
			case lockagent.Latch:
				storetest.CompareLatches(t, model, subjects[0])
			case lockagent.Semaphore, lockagent.Permits:
				storetest.ComparePermits(t, kind, models, subjects)
			default:
				storetest.Compare(t, kind, models, subjects)
			}
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
	// Servers answer late, and connect late, on a machine that is busy.
	if config.CallTimeout == 0 && config.SilenceTimeout == 0 {
		config.CallTimeout, config.SilenceTimeout = storetest.Patience/2, storetest.Patience/2
	}
	if config.DialTimeout == 0 {
		config.DialTimeout = storetest.Patience
	}
	if config.GraceFirst == 0 { // most tests are not about grace periods
		config.Grace = redisstore.GraceOff
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	store, err := config.Open(waittest.Context(t), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}
