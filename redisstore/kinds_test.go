package redisstore_test

import (
	"errors"
	"testing"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/storetest"
)

// A holder whose identity is not of NewAgentID does not show as which kind it has a lock. Who waits for a plain lock is
// told when a fair lock is released. Otherwise it would find out when it asks again, after ten seconds.
func TestAPlainWaiterBehindAnotherKind(t *testing.T) {
	t.Parallel()
	server, cluster := redistest.Start(t), redistest.StartCluster(t, 3)
	for title, c := range map[string]struct {
		url   string
		nodes []*redistest.Server
	}{
		"one server": {server.URL(), []*redistest.Server{server}},
		"a Cluster":  {cluster.URL(), cluster.Nodes},
	} {
		ours, theirs := open(t, c.url), open(t, c.url)
		told := make(chan lockagent.Message, 1000)
		agent := lockagent.NewAgentID()
		defer ours.Listen(agent, func(m lockagent.Message) {
			if m.Kind == lockagent.MessagePassed {
				told <- m
			}
		})()
		t.Run(title, func(t *testing.T) {
			name := lockagent.Name(title)
			sub := storetest.Subscribe(t, ours, name)
			held := wish(name, agentA, 1)
			held.Kind = lockagent.FairLock
			acquire(t, theirs, held)
			showNothing(c.nodes, string(name))
			queue(t, ours, wish(name, agent, 1))
			drain(sub)
			woken := sub.Count()
			ending := end(held)
			ending.Kind = lockagent.FairLock
			if reply, err := storetest.Release(t, theirs, ending); err != nil || !reply.Released {
				t.Fatalf("Release = %+v, %v", reply, err)
			}
			waittest.Until(t, "the waiter to be told", func() bool { return len(told) > 0 || sub.Count() > woken })
			for len(told) > 0 {
				<-told
			}
			acquire(t, ours, wish(name, agent, 1))
		})
	}
}

// showNothing makes the holder of a lock write what shows no kind.
func showNothing(nodes []*redistest.Server, name string) {
	for _, node := range nodes {
		if len(node.Do("KEYS", name).([]any)) == 0 {
			continue // another node has it
		}
		for _, field := range node.Do("HKEYS", name).([]any) {
			node.Do("HSET", name, field.(string), "1")
		}
	}
}

// The name was in use as a number lately, and now its key has something that is no string. No kind uses that, so the
// error must not name the kind that used it before.
func TestANumberThatAnotherTypeReplaced(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store := open(t, server.URL())
	ask := func(name lockagent.Name, kind lockagent.LockKind) error {
		req := wish(name, agentA, 1)
		req.Kind = kind
		_, err := storetest.Acquire(t, store, req)
		return err
	}
	for _, used := range []lockagent.LockKind{lockagent.Latch, lockagent.Semaphore, lockagent.Permits} {
		for typ, write := range map[string][]string{
			"list": {"RPUSH", "", "a"}, "zset": {"ZADD", "", "1", "a"}, "set": {"SADD", "", "a"},
		} {
			name := lockagent.Name(string(used) + " " + typ)
			if used == lockagent.Latch {
				_, err := latch(t, store, lockagent.LatchRequest{
					Name: name, Op: lockagent.LatchSet, Count: 2, Change: "set",
				})
				if err != nil {
					t.Fatal(err)
				}
			} else {
				set := lockagent.PermitsRequest{
					Name: name, Kind: used, Op: lockagent.TrySetPermits, N: 2, Change: "set",
				}
				if _, err := storetest.Permits(t, store, set); err != nil {
					t.Fatal(err)
				}
				if err := ask(name, used); err != nil { // so tenures with permits are beside the number, too
					t.Fatal(err)
				}
			}
			write[1] = string(name)
			server.Do("DEL", string(name))
			server.Do(write...)
			for _, kind := range kinds {
				if err := ask(name, kind); !errors.Is(err, lockagent.ErrWrongType) {
					t.Errorf("a %s that is a %s by now, as %s: %v; want ErrWrongType", used, typ, kind, err)
				}
			}
		}
	}
}
