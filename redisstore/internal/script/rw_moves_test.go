package script

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/redisstore/internal/hashslot"
)

// move moves keys to the new node while the slot migrates.
func (m *migration) move(keys ...string) {
	m.t.Helper()
	for _, key := range keys {
		if got := m.from.Do("MIGRATE", "127.0.0.1", strconv.Itoa(m.to.Port()), key, "0", "5000"); got != "OK" {
			m.t.Fatalf("MIGRATE %q: %v", key, got)
		}
	}
}

// finish moves the other keys, and ends the migration.
func (m *migration) finish(cluster *redistest.Cluster, name lockagent.Name) {
	m.t.Helper()
	for _, key := range m.from.Do("CLUSTER", "GETKEYSINSLOT", m.slot, "100").([]any) {
		m.move(key.(string))
	}
	cluster.MoveSlot(string(name), m.to.Server)
}

func (m *migration) rwRenew(req lockagent.AcquireRequest) (lockagent.RenewReply, error) {
	m.t.Helper()
	renewal := lockagent.RenewRequest{Name: req.Name, Tenure: req.Tenure, Mode: req.Mode, Lease: req.Lease}
	var c Call
	m.from.room.ReadWriteRenew(&c, []lockagent.RenewRequest{renewal})
	reply, err := m.run(&c)
	if err != nil {
		return lockagent.RenewReply{}, Refused(err.Error())
	}
	outcomes := make([]Outcome[lockagent.RenewReply], 1)
	if err := ReadRenewed(reply, m.from.past, outcomes); err != nil {
		m.t.Fatal(err)
	}
	return outcomes[0].Reply, outcomes[0].Err
}

// timeoutKey is the key of a reader.
func timeoutKey(req lockagent.AcquireRequest) string {
	return fmt.Sprintf("{%s}:%s:rwlock_timeout:1", req.Name, req.Tenure)
}

// passes lets the leases of readers end that are no longer than a minute, as far as the keys of one of them say.
func (s *server) passes(of lockagent.AcquireRequest) {
	s.t.Helper()
	ends := fmt.Sprintf("lockagent_readers:{%s}", of.Name)
	minute := strconv.FormatInt(s.wall()+time.Minute.Milliseconds(), 10)
	for _, reader := range s.do("ZRANGEBYSCORE", ends, "-inf", minute).([]any) {
		s.do("ZADD", ends, strconv.FormatInt(s.wall()-1, 10), reader.(string))
	}
	if s.do("PTTL", timeoutKey(of)).(int64) <= time.Minute.Milliseconds() {
		s.do("DEL", timeoutKey(of))
	}
}

// The keys of a reader move one after the other. A renewal in between holds, or fails.
func TestReadersAreRenewedWhileASlotMoves(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 2)
	const lock, ends, key, clock = "the lock", "the ends", "its key", "the clock"
	for i, c := range []struct {
		moved []string
		held  bool
	}{
		{nil, true},
		{[]string{ends}, false},
		{[]string{ends, clock}, false},
		{[]string{key}, false},
		{[]string{lock}, false},
		{[]string{lock, clock}, false},
		{[]string{lock, key}, false},
		{[]string{lock, key, clock}, false},
		{[]string{lock, key, ends}, false},
		{[]string{lock, ends, clock}, false},
		{[]string{lock, key, ends, clock}, true},
	} {
		t.Run(fmt.Sprint(c.moved), func(t *testing.T) {
			name := lockagent.Name(fmt.Sprintf("orders/%d", i))
			m := migrateIn(t, cluster, name)
			one, other := reading(name, agentA, 1), reading(name, agentB, 1)
			other.Lease = time.Hour
			m.from.rwGrant(other)
			m.from.rwGrant(one)
			keys := map[string]string{
				lock: string(name), ends: fmt.Sprintf("lockagent_readers:{%s}", name), key: timeoutKey(one),
				clock: "lockagent_clock:{" + tags()[hashslot.Of(string(name))] + "}",
			}
			m.begin()
			for _, what := range c.moved {
				m.move(keys[what])
			}
			one.Lease = 2 * time.Hour
			r, err := m.rwRenew(one)
			if held := err == nil; held != c.held || held && !r.Held || lockagent.Definite(err) {
				t.Fatalf("renewed: %+v, %v", r, err)
			}
			m.finish(cluster, name)
			m.to.passes(one)
			if r := m.to.rwEnd(end(other))[0]; r.Err != nil || !r.Reply.Released {
				t.Fatalf("%+v", r)
			}
			if granted := m.to.rwTry(wish(name, agentC, 1))[0].Reply.Granted; granted == c.held {
				t.Errorf("a writer was granted the lock: %t", granted)
			}
			if r := m.to.rwRenew(one); r != c.held {
				t.Errorf("renewed: %t", r)
			}
		})
	}
}

// While the keys of a reader move, others look at the lock. The reader has lost nothing by that.
func TestReadersLoseNothingWhileASlotMoves(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 2)
	const lock, ends, key = "the lock", "the ends", "its key"
	for i, moved := range [][]string{
		nil, {lock}, {ends}, {key}, {lock, ends}, {lock, key}, {ends, key}, {lock, ends, key},
	} {
		t.Run(fmt.Sprint(moved), func(t *testing.T) {
			name := lockagent.Name(fmt.Sprintf("orders/%d", i))
			m := migrateIn(t, cluster, name)
			one, two, writer := reading(name, agentA, 1), reading(name, agentB, 1), wish(name, agentC, 1)
			m.from.rwGrant(one)
			m.from.rwGrant(two)
			keys := map[string]string{
				lock: string(name), ends: fmt.Sprintf("lockagent_readers:{%s}", name), key: timeoutKey(one),
			}
			looks := func() {
				t.Helper()
				var c Call
				m.from.room.ReadWriteAcquire(&c, []lockagent.AcquireRequest{writer}, m.from.past)
				m.refused("a writer", &c)
				m.from.room.ReadWriteInspect(&c, name)
				if seen, err := ReadInspected(m.must(&c)); err != nil || !seen.Held {
					t.Errorf("inspected %+v, %v", seen, err)
				}
			}
			m.begin()
			looks()
			for _, what := range moved {
				m.move(keys[what])
				looks()
			}
			m.finish(cluster, name)
			if m.to.rwTry(writer)[0].Reply.Granted || !m.to.rwRenew(one) {
				t.Error("not renewed")
			}
			if o := m.to.rwEnd(end(two))[0]; o.Err != nil || !o.Reply.Released {
				t.Errorf("%+v", o)
			}
		})
	}
}
