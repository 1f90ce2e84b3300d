package redisstore

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/redisstore/internal/script"
	"github.com/lockagent/lockagent/storetest"
)

const rival lockagent.AgentID = "22222222-2222-4222-8222-222222222222"

// graced is a store for an agent, on a server that nobody knew.
func graced(t *testing.T, url string, agent lockagent.AgentID) (*Store, chan lockagent.GracePeriod) {
	t.Helper()
	s, err := Config{
		GraceFirst: NoGraceFirst, DialTimeout: storetest.Patience, CallTimeout: storetest.Patience,
		SilenceTimeout: storetest.Patience,
	}.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	storetest.Listen(t, s, agent)
	periods := make(chan lockagent.GracePeriod, 10)
	s.OnGrace(func(p lockagent.GracePeriod) { periods <- p })
	return s, periods
}

func wishOf(agent lockagent.AgentID, number uint64) lockagent.AcquireRequest {
	return lockagent.AcquireRequest{
		Name: "orders", Tenure: lockagent.Tenure{Agent: agent, Number: number}, Lease: time.Minute,
	}
}

func renewalOf(req lockagent.AcquireRequest, last lockagent.Token) lockagent.RenewRequest {
	return lockagent.RenewRequest{Name: req.Name, Tenure: req.Tenure, Lease: req.Lease, Last: last, Urgent: true}
}

// forgets are the ways in which a server forgets everything.
var forgets = map[string]func(*redistest.Server){
	"emptied":           func(s *redistest.Server) { s.Do("FLUSHALL") },
	"killed, and empty": func(s *redistest.Server) { s.Kill(); s.Restart() },
}

// A server that forgot grants nothing until the holder has come back. Then its hold is as it was.
func TestGrace(t *testing.T) {
	for name, forget := range forgets {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			holder, periods := graced(t, server.URL(), agent)
			other, _ := graced(t, server.URL(), rival)
			first, err := storetest.Acquire(t, holder, wishOf(agent, 1))
			if err != nil || !first.Granted {
				t.Fatalf("%+v, %v", first, err)
			}
			// The server tells who is on the roll.
			if _, err := storetest.Acquire(t, other, wishOf(rival, 1)); err != nil {
				t.Fatal(err)
			}
			forget(server)
			// Whether the other calls first, or the holder: nothing is granted.
			refused := func() *lockagent.GraceError {
				t.Helper()
				for {
					r, err := storetest.Acquire(t, other, wishOf(rival, 2))
					if grace, ok := errors.AsType[*lockagent.GraceError](err); ok {
						return grace
					}
					if err == nil {
						t.Fatalf("the other was answered %+v", r)
					}
				}
			}
			_ = refused()
			began := waittest.Receive(t, "the beginning", periods)
			if began.Incarnation == first.Incarnation || began.Ended != 0 || began.Began == 0 ||
				began.Reason != "emptied" {
				t.Errorf("it began as %+v", began)
			}
			waittest.Until(t, "the server to wait for both", func() bool {
				awaited, _ := server.Do("ZRANGEBYSCORE", "lockagent_grace", "1", "+inf").([]any)
				return slices.Contains(awaited, any(string(agent))) && slices.Contains(awaited, any(string(rival)))
			})
			if left := refused().Left; left < 30*time.Second {
				t.Errorf("%v are left for the holder", left)
			}
			if r, err := storetest.Renew(t, holder, renewalOf(wishOf(agent, 1), first.Token)); err != nil || !r.Held {
				t.Errorf("the holder's renewal: %+v, %v", r, err)
			}
			other.Reasserted(began.Incarnation)
			holder.Reasserted(began.Incarnation)
			ended := waittest.Receive(t, "the end", periods)
			if ended.Ended < began.Began || len(ended.Roll) > 0 {
				t.Errorf("it ended as %+v", ended)
			}
			r, err := storetest.Acquire(t, other, wishOf(rival, 3))
			if err != nil || r.Granted || r.Holder != wishOf(agent, 1).Tenure.String() {
				t.Errorf("the other was answered %+v, %v", r, err)
			}
		})
	}
}

// A node of a Cluster that forgot grants nothing until the holders of its locks have come back. The others go on.
func TestGraceInACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 2)
	holder, periods := graced(t, cluster.URL(), agent)
	other, _ := graced(t, cluster.URL(), rival)
	first, err := storetest.Acquire(t, holder, wishOf(agent, 1))
	if err != nil || !first.Granted {
		t.Fatalf("%+v, %v", first, err)
	}
	node, elsewhere := cluster.NodeOf("orders"), wishOf(rival, 7)
	for i := 0; cluster.NodeOf(string(elsewhere.Name)) == node; i++ {
		elsewhere.Name = lockagent.Name(fmt.Sprint("elsewhere", i))
	}
	if r, err := storetest.Acquire(t, other, elsewhere); err != nil || !r.Granted || r.Incarnation == first.Incarnation {
		t.Fatalf("%+v, %v", r, err)
	}
	// Which node has been forgotten by whom does not matter: each knows the agents of all.
	waittest.Until(t, "the other to hear of the holder", func() bool {
		other.roll.mu.Lock()
		defer other.roll.mu.Unlock()
		_, heard := other.shard(other.slot("orders")).members[script.Member{Agent: agent, Lease: time.Minute}]
		return heard
	})
	node.Do("FLUSHALL")
	var refused *lockagent.GraceError
	if r, err := storetest.Acquire(t, other, wishOf(rival, 1)); !errors.As(err, &refused) {
		t.Fatalf("the other was answered %+v, %v", r, err)
	}
	elsewhere.Tenure.Number, elsewhere.Name = 8, elsewhere.Name+"{"+elsewhere.Name+"}"
	if r, err := storetest.Acquire(t, other, elsewhere); err != nil || !r.Granted {
		t.Errorf("at the other node: %+v, %v", r, err)
	}
	began := waittest.Receive(t, "the beginning", periods)
	if began.Incarnation == first.Incarnation || began.Reason != "emptied" || !slices.Contains(began.Roll, agent) {
		t.Errorf("it began as %+v", began)
	}
	if r, err := storetest.Renew(t, holder, renewalOf(wishOf(agent, 1), first.Token)); err != nil || !r.Held {
		t.Errorf("the holder's renewal: %+v, %v", r, err)
	}
	other.Reasserted(began.Incarnation)
	holder.Reasserted(began.Incarnation)
	if ended := waittest.Receive(t, "the end", periods); ended.Ended < began.Began || len(ended.Roll) > 0 {
		t.Errorf("it ended as %+v", ended)
	}
	r, err := storetest.Acquire(t, other, wishOf(rival, 3))
	if err != nil || r.Granted || r.Holder != wishOf(agent, 1).Tenure.String() {
		t.Errorf("the other was answered %+v, %v", r, err)
	}
}

// whereOrdersIs starts a server that has "orders".
var whereOrdersIs = map[string]func(*testing.T) (url string, server *redistest.Server){
	"a lone server": func(t *testing.T) (string, *redistest.Server) {
		server := redistest.Start(t)
		return server.URL(), server
	},
	"a node of a Cluster": func(t *testing.T) (string, *redistest.Server) {
		cluster := redistest.StartCluster(t, 2)
		return cluster.URL(), cluster.NodeOf("orders")
	},
}

// hearsOfTheHolder waits until the rival's store knows that the agent is on the roll of the server that has "orders".
func hearsOfTheHolder(t *testing.T, rivals *Store) {
	t.Helper()
	if _, err := storetest.Acquire(t, rivals, wishOf(rival, 1)); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "the rival to hear of the holder", func() bool {
		rivals.roll.mu.Lock()
		defer rivals.roll.mu.Unlock()
		_, heard := rivals.shard(rivals.slot("orders")).members[script.Member{Agent: agent, Lease: time.Minute}]
		return heard
	})
}

// A break at a server that forgot is refused until the holders have come back, also if the break is the first call that
// finds it so. Afterwards the holds are broken.
func TestNoBreakAtAServerThatForgot(t *testing.T) {
	for where, start := range whereOrdersIs {
		for how, forget := range forgets {
			t.Run(where+"/"+how, func(t *testing.T) {
				t.Parallel()
				url, server := start(t)
				holder, periods := graced(t, url, agent)
				operator, _ := graced(t, url, rival)
				held := holdsOfEachKind(t, holder)
				hearsOfTheHolder(t, operator)
				forget(server)
				refused := func(when string) {
					t.Helper()
					for kind := range held {
						_, err := breakAs(t, operator, kind)
						if grace, ok := errors.AsType[*lockagent.GraceError](err); !ok || grace.Left < 30*time.Second {
							t.Errorf("%s: the break of the kind %q: %v", when, kind, err)
						}
					}
				}
				refused("before anybody has looked")
				began := waittest.Receive(t, "the beginning", periods)
				for kind, renewal := range held {
					if r, err := storetest.Renew(t, holder, renewal); err != nil || !r.Held {
						t.Errorf("the renewal of the kind %q: %+v, %v", kind, r, err)
					}
					refused("after the renewal of the kind " + string(kind))
				}
				operator.Reasserted(began.Incarnation)
				holder.Reasserted(began.Incarnation)
				_ = waittest.Receive(t, "the end", periods)
				for kind := range held {
					if broken, err := breakAs(t, operator, kind); err != nil || !broken {
						t.Errorf("after the period: the break of the kind %q: %t, %v", kind, broken, err)
					}
				}
			})
		}
	}
}

// holdsOfEachKind acquires a lock of each kind for an agent, and returns the renewals. All are in the slot of "orders".
func holdsOfEachKind(t *testing.T, s *Store) map[lockagent.LockKind]lockagent.RenewRequest {
	t.Helper()
	renewals := make(map[lockagent.LockKind]lockagent.RenewRequest)
	for kind, f := range s.families {
		if f.holds != nil {
			continue
		}
		req := wishOf(agent, uint64(len(renewals)+1))
		req.Name, req.Kind = "{orders}"+lockagent.Name(kind), kind
		if kind == lockagent.Semaphore || kind == lockagent.Permits {
			req.Permits = 1
			if _, err := storetest.Permits(t, s, lockagent.PermitsRequest{
				Name: req.Name, Kind: kind, Op: lockagent.TrySetPermits, N: 1, Change: string(lockagent.NewAgentID()),
			}); err != nil {
				t.Fatal(err)
			}
		}
		r, err := storetest.Acquire(t, s, req)
		if err != nil || !r.Granted {
			t.Fatalf("%s: %+v, %v", kind, r, err)
		}
		renewal := renewalOf(req, r.Token)
		renewal.Kind, renewal.Permits, renewal.Total = kind, req.Permits, r.Total
		renewals[kind] = renewal
	}
	return renewals
}

// breakAs breaks the lock of a kind that [holdsOfEachKind] has acquired. While the server is away, it tries again.
func breakAs(t *testing.T, s *Store, kind lockagent.LockKind) (broken bool, err error) {
	t.Helper()
	req := lockagent.BreakRequest{Name: "{orders}" + lockagent.Name(kind), Kind: kind, Operator: "olga"}
	waittest.Until(t, "an answer to a break", func() bool {
		answered := make(chan struct{})
		s.Break(t.Context(), req, func(r lockagent.BreakReply, failed error) {
			broken, err = r.Broken, failed
			close(answered)
		})
		<-answered
		away := errors.Is(err, lockagent.ErrStoreUnavailable) && !errors.Is(err, script.ErrForgotten)
		return !away || errors.Is(err, lockagent.ErrGrace)
	})
	return broken, err
}

// What the store remembers of a roll.
func TestWhatIsKnownOfTheRoll(t *testing.T) {
	anna, berta, carl := script.Member{Agent: "anna"}, script.Member{Agent: "berta"}, script.Member{Agent: "carl"}
	look, told, now := script.Look{Known: "1", Version: 3}, []script.Member{berta}, time.Now()
	for name, c := range map[string]struct {
		seen script.Looked
		want []script.Member
	}{
		"as before":           {script.Looked{Name: "1", Version: 3, Left: -1}, []script.Member{anna, carl}},
		"it has changed":      {script.Looked{Name: "1", Version: 4, Left: -1, Roll: told}, []script.Member{berta, carl}},
		"another incarnation": {script.Looked{Name: "2", Version: 3, Left: -1, Roll: told}, []script.Member{berta, carl}},
		"a grace period":      {script.Looked{Name: "2", Version: 3, Roll: told}, []script.Member{anna, berta, carl}},
	} {
		t.Run(name, func(t *testing.T) {
			var r roll
			of := new(shard)
			of.add(anna, now.Add(-time.Minute)) // who came long ago, and has left since
			of.add(carl, now.Add(time.Second))  // who came while the look was under way
			r.told(of, &look, &c.seen, now)
			if got := slices.SortedFunc(maps.Keys(of.members), func(a, b script.Member) int {
				return strings.Compare(string(a.Agent), string(b.Agent))
			}); !slices.Equal(got, c.want) {
				t.Errorf("known are %v, want %v", got, c.want)
			}
		})
	}
}

// Messages go to all databases of a server. Each minds those of its own roll.
func TestRollsOfTwoDatabases(t *testing.T) {
	server := redistest.Start(t)
	knows, _ := graced(t, server.URL(), "knows")
	here, _ := graced(t, server.URL(), agent)
	there, _ := graced(t, server.URL()+"/1", agent)
	elsewhere, _ := graced(t, server.URL()+"/1", rival)
	calls := func(s *Store, as lockagent.AgentID, lease time.Duration) {
		t.Helper()
		req := wishOf(as, uint64(lease))
		req.Lease = lease
		if _, err := storetest.Acquire(t, s, req); err != nil {
			t.Fatal(err)
		}
	}
	members := func() []script.Member {
		knows.roll.mu.Lock()
		defer knows.roll.mu.Unlock()
		return slices.Collect(maps.Keys(knows.one.members))
	}
	calls(there, agent, time.Minute)
	calls(elsewhere, rival, time.Minute)
	calls(here, agent, time.Minute)
	there.Left()
	conn := server.Dial()
	if _, err := conn.Do("SELECT", "1"); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "the agent to leave the other roll", func() bool {
		entries, err := conn.Do("ZRANGEBYSCORE", "lockagent_roll", "1", "+inf")
		return err == nil && len(entries.([]any)) == 1
	})
	calls(here, agent, time.Hour) // its message comes after those
	longer := script.Member{Agent: agent, Lease: time.Hour}
	waittest.Until(t, "the last message", func() bool { return slices.Contains(members(), longer) })
	for _, m := range members() {
		if m.Agent == rival {
			t.Errorf("%v is on the roll of another database", m)
		}
	}
	if want := (script.Member{Agent: agent, Lease: time.Minute}); !slices.Contains(members(), want) {
		t.Errorf("the roll is %v; want %v there, who has left another database", members(), want)
	}
}

// In a Cluster each node has a roll.
func TestRollsOfTwoNodes(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 2)
	knows, _ := graced(t, cluster.URL(), rival)
	s, _ := graced(t, cluster.URL(), agent)
	if _, err := storetest.Acquire(t, s, wishOf(agent, 1)); err != nil {
		t.Fatal(err)
	}
	on := func(of *shard) bool {
		knows.roll.mu.Lock()
		defer knows.roll.mu.Unlock()
		_, on := of.members[script.Member{Agent: agent, Lease: time.Minute}]
		return on
	}
	its := knows.shard(knows.slot("orders"))
	waittest.Until(t, "the message", func() bool { return on(its) })
	for _, of := range knows.incarnations.all() {
		if of != its && on(of) {
			t.Error("it is on the roll of the other node")
		}
	}
}

// An agent that is closed at once with its store has left the roll, and the others know.
func TestWhoIsClosedLeavesTheRoll(t *testing.T) {
	server := redistest.Start(t)
	other, _ := graced(t, server.URL(), rival)
	if _, err := storetest.Acquire(t, other, wishOf(rival, 1)); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		s, _ := graced(t, server.URL(), agent)
		if _, err := storetest.Acquire(t, s, wishOf(agent, 1)); err != nil {
			t.Fatal(err)
		}
		s.Left()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if entries := server.Do("ZRANGEBYSCORE", "lockagent_roll", "1", "+inf").([]any); len(entries) != 1 {
			t.Fatalf("the roll has %q", entries)
		}
	}
	waittest.Until(t, "the other to hear of that", func() bool {
		other.roll.mu.Lock()
		defer other.roll.mu.Unlock()
		_, there := other.one.members[script.Member{Agent: agent, Lease: time.Minute}]
		return !there
	})
}

// An agent is on the roll, with its longest lease, before it makes a call for that lease. The others hear of it at
// once.
func TestTheRollIsCalled(t *testing.T) {
	server := redistest.Start(t)
	first, _ := graced(t, server.URL(), agent)
	other, _ := graced(t, server.URL(), rival)
	onTheRoll := func() []string {
		var entries []string
		for _, entry := range server.Do("ZRANGEBYSCORE", "lockagent_roll", "1", "+inf").([]any) {
			entries = append(entries, entry.(string))
		}
		return entries
	}
	if _, err := storetest.Acquire(t, other, wishOf(rival, 1)); err != nil {
		t.Fatal(err)
	}
	if got := onTheRoll(); !slices.Equal(got, []string{"60000 " + string(rival)}) {
		t.Errorf("the roll has %q", got)
	}
	if _, err := storetest.Acquire(t, first, wishOf(agent, 1)); err != nil {
		t.Fatal(err)
	}
	heard := func() bool {
		other.roll.mu.Lock()
		defer other.roll.mu.Unlock()
		_, heard := other.one.members[script.Member{Agent: agent, Lease: time.Minute}]
		return heard
	}
	waittest.Until(t, "the other to hear of the first", heard)
	longer := wishOf(agent, 2)
	longer.Name, longer.Lease = "bills", time.Hour
	if _, err := storetest.Acquire(t, first, longer); err != nil {
		t.Fatal(err)
	}
	if got := onTheRoll(); !slices.Contains(got, "3600000 "+string(agent)) {
		t.Errorf("the roll has %q", got)
	}
	first.Left()
	waittest.Until(t, "the first to leave the roll", func() bool { return len(onTheRoll()) == 1 })
}

// A lease of more than a minute is on the roll until it is over, and no longer unless somebody asks for it again. A
// tenure that was passed is there with the time for which it lasts.
func TestHowLongAnAgentIsOnTheRoll(t *testing.T) {
	server := redistest.Start(t)
	s, _ := graced(t, server.URL(), agent)
	acquire := func(number uint64, name lockagent.Name, lease time.Duration) {
		t.Helper()
		req := wishOf(agent, number)
		req.Name, req.Lease = name, lease
		if _, err := storetest.Acquire(t, s, req); err != nil {
			t.Fatal(err)
		}
	}
	acquire(1, "brief", 300*time.Millisecond)
	if entries := server.Do("ZRANGEBYSCORE", "lockagent_roll", "1", "+inf"); !reflect.DeepEqual(
		entries, []any{"2000 " + string(agent)},
	) {
		t.Errorf("the roll has %q", entries)
	}
	acquire(2, "long", time.Hour)
	called := make(chan error, 1)
	for range 2 {
		s.cover(s.one, 0, false, func(err error) { called <- err }) // as it calls now and then
		if err := within(t, called); err != nil {
			t.Fatal(err)
		}
		if got := time.Duration(s.one.covered.Load()); got != time.Minute {
			t.Errorf("on the roll with %v", got)
		}
	}
	till, _ := strconv.ParseInt(server.Do("ZSCORE", "lockagent_roll", "3600000 "+string(agent)).(string), 10, 64)
	if left := time.Until(time.UnixMicro(till)); left < time.Hour {
		t.Errorf("the long lease is on the roll for %v", left)
	}
	acquire(3, "another", time.Hour)
	if got := time.Duration(s.one.covered.Load()); got != time.Hour {
		t.Errorf("on the roll with %v after another long lease", got)
	}
}

// A store that has missed the message that a grace period is over learns of it with its next renewal.
func TestAnEndThatWasMissed(t *testing.T) {
	server := redistest.Start(t)
	s, periods := graced(t, server.URL(), agent)
	granted, err := storetest.Acquire(t, s, wishOf(agent, 1))
	if err != nil || !granted.Granted {
		t.Fatalf("%+v, %v", granted, err)
	}
	server.Do("FLUSHALL")
	renew := func() {
		t.Helper()
		if r, err := storetest.Renew(t, s, renewalOf(wishOf(agent, 1), granted.Token)); err != nil || !r.Held {
			t.Errorf("renewed: %+v, %v", r, err)
		}
	}
	renew()
	began := waittest.Receive(t, "the beginning", periods)
	// It ends without a message.
	clock := server.Do("ZRANGE", "lockagent_clock", "0", "-1").([]any)[0].(string)
	server.Do("ZADD", "lockagent_clock", server.Do("ZSCORE", "lockagent_clock", clock).(string), began.Incarnation)
	server.Do("ZREM", "lockagent_clock", clock)
	server.Do("DEL", "lockagent_grace")
	renew()
	if ended := waittest.Receive(t, "the end", periods); ended.Ended == 0 || ended.Incarnation != began.Incarnation {
		t.Errorf("it ended as %+v", ended)
	}
}
