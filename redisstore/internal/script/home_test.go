package script

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/redisstore/internal/hashslot"
)

// A node of a Cluster has one incarnation, and the locks of all its slots mind it.
func TestTheIncarnationOfANode(t *testing.T) {
	redistest.NeedsSharded(t)
	t.Parallel()
	s := node(t, redistest.StartCluster(t, 1).Nodes[0])
	s.past.Home = HomeIn(hashslot.Count - 1)
	home := "lockagent_clock:{" + string(s.past.Home) + "}"
	forgotten := func(when string) {
		t.Helper()
		s.room.Acquire(&s.call, []lockagent.AcquireRequest{wish("free", agentC, 1)}, s.past)
		if _, err := s.send(&s.call); err == nil || !errors.Is(Refused(err.Error()), ErrForgotten) {
			t.Errorf("%s: %v", when, err)
		}
	}
	forgotten("before anybody has looked")
	first := s.look(Look{Grace: true})
	if !strings.HasSuffix(first.Name, "@"+string(s.past.Home)) || first.Left >= 0 {
		t.Fatalf("the incarnation is %+v", first)
	}
	held := s.grant(wish("orders", agentA, 1))
	if held.Incarnation != first.Name {
		t.Errorf("granted in %q", held.Incarnation)
	}
	s.waits(agentB, "orders")
	s.acquire(queueing("orders", agentB, 1))

	// Another run has the data.
	clock := s.Do("ZSCORE", home, first.Name).(string)
	other := strings.Replace(first.Name, ".", ".feed", 1)
	s.Do("DEL", home)
	s.Do("ZADD", home, clock, other)
	if r := s.release(end(wish("orders", agentA, 1))); r.Passed || !r.Released {
		t.Errorf("the release before anybody has looked: %+v", r)
	}
	seen := s.look(Look{Grace: true, Known: first.Name, Roll: []Member{annaOnTheRoll}})
	if seen.Left <= 20*time.Second || seen.Name == first.Name {
		t.Fatalf("looked: %+v", seen)
	}
	// A call may have been written before its agent heard. The clocks of all slots but one have the name of before.
	s.past = Past{Home: s.past.Home, Incarnation: first.Name}
	for _, kind := range everyKind {
		free := "{orders}" + lockagent.Name(kind)
		if kind == lockagent.Semaphore || kind == lockagent.Permits {
			s.Do("SET", string(free), "1")
		}
		if left := s.refusedAs(kind, wish(free, agentC, 1)); left <= 20*time.Second {
			t.Errorf("%s: an acquire is told %v", kind, left)
		}
	}
	s.past.In(seen.Name)
	renewal := lockagent.RenewRequest{Name: "orders", Tenure: tenure(agentA, 1), Lease: 30 * time.Second}
	if o := s.renewAll(renewal)[0]; !errors.Is(o.Err, ErrForgotten) {
		t.Errorf("a renewal: %+v", o)
	}
	if !s.reassert(wish("orders", agentA, 1), held.Token) || s.reassert(wish("orders", agentB, 1), held.Token-1) {
		t.Error("the greater token does not decide")
	}
	s.Do("ZADD", "lockagent_grace:{"+string(s.past.Home)+"}", "1", "-") // the time passes that it lasts in any case
	Reasserted(&s.call, s.past.Home, agentA, seen.Name)
	if left := s.must(&s.call); left != "0" {
		t.Errorf("%s are left", left)
	}
	if r := s.acquire(wish("orders", agentC, 1)); r.Granted || r.Holder != tenure(agentA, 1).String() {
		t.Errorf("after the period: %+v", r)
	}
	if r := s.grant(wish("free", agentC, 2)); r.Incarnation != seen.Name || r.Token <= held.Token {
		t.Errorf("granted %+v", r)
	}

	// The agent takes another slot for the home: its table is old.
	s.past.Home = HomeIn(hashslot.Of("free"))
	s.past.Incarnation = ""
	forgotten("with another home")
}

// If another slot becomes the home of a node, the node has forgotten nothing if it still has the former home.
func TestAHomeThatMoves(t *testing.T) {
	redistest.NeedsSharded(t)
	t.Parallel()
	s := node(t, redistest.StartCluster(t, 2).Nodes[1])
	former, home := HomeIn(hashslot.Count-2), HomeIn(hashslot.Count-1)
	clock := "lockagent_clock:{" + string(former) + "}"
	for name, c := range map[string]struct {
		moves func(known string) string // returns what the agent knows
		grace bool
	}{
		"an agent knows the node": {moves: func(known string) string { return known }},
		"a lock of that slot was granted": {moves: func(known string) string {
			s.Do("ZADD", "lockagent_clock:{"+string(home)+"}", "1700", known)
			return ""
		}},
		"the former home is at another node": {moves: func(known string) string {
			of, _, _ := strings.Cut(known, "@")
			return of + "@" + string(HomeIn(0))
		}, grace: true},
		"nobody knows the node":   {moves: func(string) string { return "" }, grace: true},
		"the node was emptied":    {moves: func(known string) string { s.Do("FLUSHALL"); return known }, grace: true},
		"the node is another run": {moves: func(string) string { return "1700.feed.1700@" + string(former) }, grace: true},
		"the node has a grace period": {moves: func(known string) string {
			s.Do("DEL", clock)
			s.Do("ZADD", clock, "1700", known+" ~")
			return known
		}, grace: true},
	} {
		s.Do("FLUSHALL")
		s.past.Home = former
		known := s.look(Look{Grace: true}).Name
		s.past.Home = home
		seen := s.look(Look{Grace: true, First: time.Minute, Known: c.moves(known)})
		if seen.Left >= 0 != c.grace {
			t.Errorf("%s: %v are left", name, seen.Left)
		}
		of, _, _ := strings.Cut(known, "@")
		if as, _, _ := strings.Cut(seen.Name, "@"); (as == of) == c.grace {
			t.Errorf("%s: %q is %q by now", name, known, seen.Name)
		}
	}
}

// Who was on the roll of the former home is on that of the next one, for as long. Nobody has to call first.
func TestTheRollMovesWithTheHome(t *testing.T) {
	redistest.NeedsSharded(t)
	t.Parallel()
	s := node(t, redistest.StartCluster(t, 1).Nodes[0])
	homes := []Home{HomeIn(hashslot.Count - 3), HomeIn(hashslot.Count - 2), HomeIn(hashslot.Count - 1)}
	s.past.Home = homes[0]
	known := s.look(Look{Grace: true})
	s.look(Look{Grace: true, Known: known.Name, Self: annaOnTheRoll})
	till := s.Do("ZSCORE", rollKey+":{"+string(homes[0])+"}", "30000 "+string(agentA))
	for _, home := range append(homes[1:], homes[1]) { // and back, with the name that this home had
		s.past.Home = home
		seen := s.look(Look{Grace: true, Known: known.Name, Self: bertaOnTheRoll})
		if seen.Left >= 0 || !slices.Contains(seen.Roll, annaOnTheRoll) {
			t.Errorf("%v are left, and the roll is %v", seen.Left, seen.Roll)
		}
		if at := s.Do("ZSCORE", rollKey+":{"+string(home)+"}", "30000 "+string(agentA)); at != till {
			t.Errorf("anna is on it until %v, and was until %v", at, till)
		}
		known = seen
	}
	// The former home may be at another node by now. Then the agents know who was on the roll.
	of, _, _ := strings.Cut(known.Name, "@")
	carl := Member{agentC, time.Hour}
	seen := s.look(Look{Grace: true, Known: of + "@" + string(HomeIn(0)), Roll: []Member{carl}})
	if seen.Left >= 0 || !slices.Contains(seen.Roll, carl) {
		t.Errorf("%v are left, and the roll is %v", seen.Left, seen.Roll)
	}
	if told := s.look(Look{Grace: true, Known: known.Name, Version: known.Version}); len(told.Roll) != 3 {
		t.Errorf("who knew the roll of before is told of %v", told.Roll)
	}
	Incarnation(&s.call, Look{Home: s.past.Home, Grace: true, Known: of + "@" + string(HomeIn(0))})
	if _, err := s.send(&s.call); err == nil || !errors.Is(Refused(err.Error()), ErrForgotten) {
		t.Errorf("a look that does not tell who was: %v", err)
	}
}

// A program that knows nothing may be the first at a new home. The clock of the former home names the incarnation that
// begins there, when an agent comes from that home.
func TestANewProgramAtANewHome(t *testing.T) {
	redistest.NeedsSharded(t)
	t.Parallel()
	s := node(t, redistest.StartCluster(t, 1).Nodes[0])
	former := HomeIn(hashslot.Count - 2)
	s.past.Home = former
	known := s.look(Look{Grace: true}).Name
	s.past.Home = HomeIn(hashslot.Count - 1)
	begun := s.look(Look{Grace: true}).Name
	s.look(Look{Grace: true, Known: known})
	if names := s.Do(
		"ZRANGE", "lockagent_clock:{"+string(former)+"}", "0", "-1",
	); !reflect.DeepEqual(names, []any{begun}) {
		t.Errorf("the former home names %q, and the home %q", names, begun)
	}
}

// When another incarnation begins, no lock of the node goes on in the one before, also if the node had another home
// when the lock was last used.
func TestAnotherIncarnationAfterAHomeThatMoved(t *testing.T) {
	redistest.NeedsSharded(t)
	t.Parallel()
	s := node(t, redistest.StartCluster(t, 1).Nodes[0])
	homes := []Home{HomeIn(hashslot.Count - 3), HomeIn(hashslot.Count - 2), HomeIn(hashslot.Count - 1)}
	s.past.Home = homes[0]
	known := s.look(Look{Grace: true}).Name
	s.grant(wish("orders", agentA, 1))
	s.waits(agentB, "orders")
	s.acquire(queueing("orders", agentB, 1))
	for _, home := range homes[1:] {
		s.past.Home = home
		known = s.look(Look{Grace: true, Known: known}).Name
	}
	// Another run has the data, but for one tenure.
	for _, slot := range append(homes, HomeIn(hashslot.Of("orders"))) {
		clock := "lockagent_clock:{" + string(slot) + "}"
		member := s.Do("ZRANGE", clock, "0", "-1").([]any)[0].(string)
		score := s.Do("ZSCORE", clock, member).(string)
		s.Do("DEL", clock)
		s.Do("ZADD", clock, score, strings.Replace(member, ".", ".feed", 1))
	}
	known = strings.Replace(known, ".", ".feed", 1)
	if seen := s.look(Look{Grace: true, Known: known, Roll: []Member{annaOnTheRoll}}); seen.Left <= 20*time.Second {
		t.Fatalf("looked: %+v", seen)
	}
	const lost lockagent.Name = "{orders}lost"
	renewal := lockagent.RenewRequest{Name: lost, Tenure: tenure(agentA, 2), Lease: 30 * time.Second}
	if o := s.renewAll(renewal)[0]; !errors.Is(o.Err, ErrForgotten) {
		t.Errorf("a renewal: %+v", o)
	}
	s.noBreak("after the home has moved", "{orders}", s.past.Incarnation)
	if r := s.release(end(wish("orders", agentA, 1))); r.Passed || !r.Released {
		t.Errorf("the release: %+v", r)
	}
	if s.Do("EXISTS", "orders") != int64(0) {
		t.Error("somebody has the lock")
	}
}

// A break, or a change of permits, at a node that was emptied is refused until the holders had time to come back,
// whatever the clock of the lock's slot says, and whatever the agent knows.
func TestNoBreakAtANodeThatWasEmptied(t *testing.T) {
	redistest.NeedsSharded(t)
	t.Parallel()
	s := node(t, redistest.StartCluster(t, 2).Nodes[1])
	home, slot := HomeIn(hashslot.Count-1), HomeIn(hashslot.Count-5)
	clock, lock := "lockagent_clock:{"+string(slot)+"}", lockagent.Name("{"+slot+"}")
	s.past.Home = home
	before := s.look(Look{Grace: true})
	orders := wish(lock+lockagent.Name(lockagent.PlainLock), agentA, 1)
	held := s.grant(orders)
	s.Do("FLUSHALL")
	refuses := func(when, incarnation string) {
		t.Helper()
		s.noBreak(when, lock, incarnation)
		s.noChange(when, lock+"of ", incarnation)
	}
	refuses("before anybody has looked", "")
	if keys := s.Do("KEYS", "*").([]any); len(keys) > 0 {
		t.Errorf("the node has %q", keys)
	}

	seen := s.look(Look{Grace: true, Known: before.Name, Roll: []Member{annaOnTheRoll}})
	of, _, _ := strings.Cut(before.Name, "@")
	for when, member := range map[string]string{
		"nobody has used the slot":           "",
		"a tenure was put back there":        "?",
		"the slot has the name of before":    before.Name,
		"that of a former home":              of + "@" + string(HomeIn(hashslot.Count-2)),
		"that of a home of another node":     of + "@" + string(HomeIn(0)),
		"that of the slot itself, of before": of + "@" + string(slot),
	} {
		s.Do("DEL", clock)
		if member != "" {
			s.Do("ZADD", clock, "1700", member)
		}
		for _, known := range []string{"", before.Name, seen.Name} {
			s.past = Past{Home: home, Incarnation: known}
			refuses(when+", and the agent knows "+known, seen.Name)
		}
	}
	s.Do("DEL", clock)
	if !s.reassert(orders, held.Token) {
		t.Error("the holder has not come back")
	}
	s.permitsComeBack(lock+"of ", held.Token)
	refuses("the holder has come back", seen.Name)
	s.lives(string(orders.Name), 30*time.Second)

	s.Do("DEL", "lockagent_grace:{"+string(home)+"}")
	refuses("when the period is over", "")
	s.look(Look{Grace: true, Known: seen.Name})
	for _, kind := range everyKind {
		if err := s.breakAs(kind, lock+lockagent.Name(kind)); err != nil {
			t.Errorf("after the period: a break of the kind %q: %v", kind, err)
		}
	}
	if s.Do("EXISTS", string(orders.Name)) != int64(0) {
		t.Error("the lock was not broken")
	}
	s.allChange(lock + "of ")
}
