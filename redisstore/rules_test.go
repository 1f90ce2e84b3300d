package redisstore_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/redisstore"
	"github.com/lockagent/lockagent/storetest"
)

// The documented rules are enough for locks of all kinds with the prefix, and reach no key of a lock with another one.
func TestContractRulesOfOnePrefix(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.WithUser("app", secret, documentedRules(t)))
	admin, app := open(t, server.URL()), open(t, server.UserURL("app", secret))
	for _, kind := range kinds {
		useAll(t, app, kind, "orders/"+lockagent.Name(kind))
		useAll(t, admin, kind, "billing/"+lockagent.Name(kind))
	}
	conn := server.Dial()
	if _, err := conn.Do("AUTH", "app", secret); err != nil {
		t.Fatal(err)
	}
	reached, denied := 0, 0
	for _, key := range keys(server) {
		_, err := conn.Do("EXISTS", key)
		if strings.Contains(key, "billing") {
			denied++
		} else {
			reached++
		}
		forbidden := err != nil && strings.HasPrefix(err.Error(), "NOPERM")
		if forbidden != strings.Contains(key, "billing") {
			t.Errorf("key %q: %v", key, err)
		}
	}
	if reached < 20 || denied < 20 {
		t.Errorf("there are only %d keys that the user may use, and %d that it may not", reached, denied)
	}
}

// useAll has a lock of some kind held, by one that another one waits for.
func useAll(t *testing.T, store *redisstore.Store, kind lockagent.LockKind, name lockagent.Name) {
	t.Helper()
	switch kind {
	case lockagent.Latch:
		set := lockagent.LatchRequest{Name: name, Op: lockagent.LatchSet, Count: 1, Change: "set"}
		if _, err := latch(t, store, set); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return
	case lockagent.Semaphore, lockagent.Permits:
		set := lockagent.PermitsRequest{Name: name, Kind: kind, Op: lockagent.TrySetPermits, N: 1, Change: "set"}
		if _, err := storetest.Permits(t, store, set); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	for number := uint64(1); number <= 2; number++ { // the first one leaves a tombstone
		holds := wish(name, agentA, number)
		holds.Kind, holds.Permits = kind, permitsOf(kind)
		acquire(t, store, holds)
		renewal := lockagent.RenewRequest{Name: name, Kind: kind, Tenure: holds.Tenure, Lease: time.Minute}
		if r, err := storetest.Renew(t, store, renewal); err != nil || !r.Held {
			t.Fatalf("%s: renewed %+v, %v", name, r, err)
		}
		ending := end(holds)
		ending.Kind, ending.Unanswered = kind, true
		if r, err := storetest.Release(t, store, ending); err != nil || !r.Released {
			t.Fatalf("%s: released %+v, %v", name, r, err)
		}
	}
	holds, waits := wish(name, agentA, 3), wish(name, agentB, 1)
	holds.Kind, holds.Permits = kind, permitsOf(kind)
	waits.Kind, waits.Permits, waits.Queue, waits.Contends = kind, permitsOf(kind), true, true
	if kind == lockagent.ReadWriteLock {
		holds.Mode = lockagent.Shared
	}
	acquire(t, store, holds)
	if r, err := storetest.Acquire(t, store, waits); err != nil || r.Granted {
		t.Fatalf("%s: acquired %+v, %v; want it to wait", name, r, err)
	}
}

func permitsOf(kind lockagent.LockKind) int {
	if kind == lockagent.Semaphore || kind == lockagent.Permits {
		return 1
	}
	return 0
}

// The keys that locks share, and that have a rule each, are those of the documentation's table.
func TestSharedKeysHaveRules(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	find := func(pattern string) (keys []string) {
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(doc), -1) {
			keys = append(keys, m[1])
		}
		slices.Sort(keys)
		return slices.Compact(keys)
	}
	table := find(`(?m)^//\t(lockagent_\w+) +\S`)
	table = slices.DeleteFunc(table, func(key string) bool { return key == "lockagent_incarnation" }) // a channel
	rules := find(`~(lockagent_\w+)\*?[ \n]`)
	rules = slices.DeleteFunc(rules, func(key string) bool { return key == "lockagent_rehearsal" }) // is gone soon
	if len(table) < 4 || !slices.Equal(table, rules) {
		t.Errorf("the table has the keys %q, and there are rules for %q", table, rules)
	}
}

// A user may lack INFO, which belongs to the dangerous commands. Then the store learns only of data that are gone. It
// does not say that it remembers what was before the latest connection.
func TestContractWithoutDangerousCommands(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.WithConfig("appendonly yes", "appendfsync always"),
		redistest.WithUser("app", secret, "~* &* +@all -@dangerous"))
	store := open(t, server.UserURL("app", secret))
	works(t, store)
	told := make(chan lockagent.Reset, 10)
	defer store.OnReset(func(r lockagent.Reset) { told <- r })()
	sub := storetest.Subscribe(t, store, "orders")

	before := store.RemembersSince()
	server.Restart()
	sub.Await()
	waittest.Until(t, "the store to notice a connection", func() bool { return store.RemembersSince().After(before) })
	server.Do("FLUSHALL")
	acquire(t, store, wish("orders", agentA, 1))
	if r := await(t, told); r.Reason != "emptied" {
		t.Errorf("told %+v", r)
	}
}

// Where the user may not run a command, the error says which.
func TestOpenNamesTheCommand(t *testing.T) {
	server := redistest.Start(t, redistest.WithUser("app", secret, "~* &* +@all -linsert"))
	refused(t, redisstore.Config{}, server.UserURL("app", secret), lockagent.ErrNotPermitted, "LINSERT")
	if left := keys(server); len(left) > 0 {
		t.Errorf("Open has left the keys %q", left)
	}
}
