package transport

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/redisstore/internal/hashslot"
)

func TestSubscriptions(t *testing.T) {
	server := redistest.Start(t)
	s := connect(t, config(server.Addr()))
	subs := NewSubscriptions(s)
	if subs.Counted("news", false) {
		t.Error("counted before anybody subscribed")
	}
	first, cancelFirst := listen(subs, Topic{Channel: "news"})
	if again := waittest.Receive(t, "the first to stand", first.stands); again {
		t.Error("the first stands again before it stood")
	}
	if !subs.Counted("news", false) {
		t.Error("not counted although it stands")
	}
	// Who joins later is told by itself, and for the first time.
	second, cancelSecond := listen(subs, Topic{Channel: "news"})
	if again := waittest.Receive(t, "the second to stand", second.stands); again {
		t.Error("the second stands again before it stood")
	}
	if len(first.stands) > 0 {
		t.Error("the first was told that another one joined")
	}
	server.Do("PUBLISH", "news", "hello")
	for _, h := range []heard{first, second} {
		if got := waittest.Receive(t, "the message", h.messages); got != "hello" {
			t.Errorf("heard %q", got)
		}
	}
	// Both are told of an interruption.
	server.Do("CLIENT", "KILL", "TYPE", "pubsub")
	for _, h := range []heard{first, second} {
		if again := waittest.Receive(t, "it to stand again", h.stands); !again {
			t.Error("nothing tells that messages were missed")
		}
	}
	subs.Again()
	for _, h := range []heard{first, second} {
		if again := waittest.Receive(t, "Again", h.stands); !again {
			t.Error("Again tells of a first time")
		}
	}
	cancelFirst()
	cancelFirst()
	server.Do("PUBLISH", "news", "more")
	waittest.Receive(t, "the second message", second.messages)
	if len(first.messages) > 0 {
		t.Error("heard after cancel")
	}
	cancelSecond()
	waittest.Until(t, "to be unsubscribed", func() bool {
		return fmt.Sprint(server.Do("PUBSUB", "NUMSUB", "news")) == "[news 0]" && !subs.Counted("news", false)
	})
}

// Who joins a topic that stands is told when the early topics stand that were asked for before.
func TestEarlyTopicsBeforeOneThatStands(t *testing.T) {
	server := redistest.Start(t)
	subs := NewSubscriptions(connect(t, config(server.Addr())))
	told := make(chan bool, 1)
	subs.Subscribe(Topic{Channel: "late"}, Listener{Stands: func(bool) { told <- true }})
	waittest.Receive(t, "the topic to stand", told)
	for i := range 100 {
		channel := fmt.Sprint("early/", i)
		subs.Subscribe(Topic{Channel: channel, Early: true}, Listener{Stands: func(bool) {}})
		subs.Subscribe(Topic{Channel: "late"}, Listener{Stands: func(bool) {
			told <- fmt.Sprint(server.Do("PUBSUB", "NUMSUB", channel)) == fmt.Sprintf("[%s 1]", channel)
		}})
		if !waittest.Receive(t, "the news that it stands", told) {
			t.Fatalf("told before %s stands", channel)
		}
	}
}

// Early topics stand before others, also after an interruption.
func TestEarlyTopics(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := connect(t, config(server.Addr()))
	subs := NewSubscriptions(s)
	told := make(chan string, 1000)
	const late = 300 // more than travel together
	for i := range late {
		subs.Subscribe(Topic{Channel: fmt.Sprint("late/", i)}, Listener{Stands: func(bool) { told <- "late" }})
	}
	for range late {
		waittest.Receive(t, "the late ones", told)
	}
	subs.Subscribe(Topic{Channel: "early", Early: true}, Listener{Stands: func(bool) {
		if got := fmt.Sprint(server.Do("PUBSUB", "NUMSUB", "early")); got != "[early 1]" {
			t.Errorf("it is said to stand, and %s", got)
		}
		told <- "early"
	}})
	waittest.Receive(t, "the early one", told)
	monitor := server.Dial()
	if _, err := monitor.Do("MONITOR"); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		server.Do("CLIENT", "KILL", "TYPE", "pubsub")
		for range late + 1 {
			waittest.Receive(t, "all to stand again", told)
		}
	}
	server.Do("PING", "over")
	var order []string // in which the server was asked to subscribe
	for line := ""; !strings.Contains(line, `"over"`); {
		reply, err := monitor.Receive()
		if err != nil {
			t.Fatal(err)
		}
		line = reply.(string)
		if strings.Contains(line, `"SUBSCRIBE"`) {
			order = append(order, line)
		}
	}
	firsts := 0
	for at := range slices.Chunk(order, late+1) {
		if len(at) == late+1 && strings.Contains(at[0], `"early"`) {
			firsts++
		}
	}
	if firsts != 5 {
		t.Errorf("the early one was the first to be subscribed %d times of 5", firsts)
	}
}

// Sharded channels and others are subscribed at the same time, each where it belongs.
func TestShardedAndOtherTopics(t *testing.T) {
	t.Parallel()
	redistest.NeedsSharded(t)
	cluster := redistest.StartCluster(t, 3)
	subs := NewSubscriptions(connect(t, clusterConfig(cluster)))
	everywhere, _ := listen(subs, Topic{Channel: "everywhere"})
	waittest.Receive(t, "the classic one to stand", everywhere.stands)
	for _, node := range cluster.Nodes {
		channel := keyAt(cluster, node)
		there, cancel := listen(subs, Topic{Channel: channel, Sharded: true, Slot: hashslot.Of(channel)})
		waittest.Receive(t, "the sharded one to stand", there.stands)
		if got := fmt.Sprint(node.Do("SPUBLISH", channel, "hello")); got != "1" {
			t.Errorf("%s receive what is published in a sharded channel", got)
		}
		waittest.Receive(t, "the message", there.messages)
		node.Do("PUBLISH", "everywhere", "hello")
		waittest.Receive(t, "the classic message", everywhere.messages)
		cancel()
	}
}

// A node may give a slot away between its answer to a subscription and our look at that answer.
func TestASubscriptionThatIsDroppedAtOnce(t *testing.T) {
	s := &Subscriptions{topics: make(map[channel]*topic), links: make(map[place]*link)}
	l := newLink(s, place{"a node", true})
	orders := &topic{Topic: Topic{Channel: "orders", Sharded: true}, link: l}
	told := 0
	orders.listeners = []*listener{{Listener: Listener{Stands: func(bool) { told++ }}}}
	s.topics[orders.channel()] = orders
	l.topics[orders] = true
	subscribe := func(dropped bool) {
		l.add(orders)
		changes, _ := l.plan()
		if dropped {
			l.hear("sunsubscribe", []string{"orders", "0"})
		}
		notices, _ := l.conclude(nil, changes, []Reply{{kind: '>'}})
		tell(notices)
	}
	subscribe(true)
	if orders.stand != absent || !orders.due || told != 0 {
		t.Errorf("it stands: %v, is due: %v, and %d were told", orders.stand, orders.due, told)
	}
	subscribe(false)
	if orders.stand != stands || told != 1 {
		t.Errorf("it stands: %v, and %d were told", orders.stand, told)
	}
}

// What a subscription costs does not grow with the topics that stand: the link looks at those that have something to
// do.
func TestASubscriptionBesideManyOthers(t *testing.T) {
	for what, at := range map[string]place{"any server": {addr: anywhere}, "a node": {addr: "a node", sharded: true}} {
		t.Run(what, func(t *testing.T) {
			s := &Subscriptions{servers: new(Servers), topics: make(map[channel]*topic), links: make(map[place]*link)}
			l := newLink(s, at)
			s.links[at] = l
			l.topics[nil] = true // whoever looks at all topics panics
			stands := make(chan bool, 1)
			one := &topic{Topic: Topic{Channel: "orders", Sharded: at.sharded}, link: l}
			one.listeners = []*listener{{Listener: Listener{Stands: func(again bool) { stands <- again }}}}
			s.topics[one.channel()], l.topics[one] = one, true
			work := func() (n int) {
				l.relocate(t.Context(), nil)
				changes, _ := l.plan()
				confirmed := make([]Reply, len(changes))
				for i := range confirmed {
					confirmed[i] = Reply{kind: '>'}
				}
				told, _ := l.conclude(nil, changes, confirmed)
				tell(told)
				return len(changes)
			}
			l.add(one)
			if n := work(); n != 1 || len(stands) != 1 {
				t.Errorf("%d topics have changed, and %d stand", n, len(stands))
			}
			one.listeners = nil
			l.add(one)
			if n := work(); n != 1 || s.topics[one.channel()] != nil {
				t.Errorf("%d topics have changed, and %v is left", n, s.topics)
			}
		})
	}
}

// A subscription whose slot has moved costs one redirection, even if other nodes do not know yet.
func TestASubscriptionIsRedirected(t *testing.T) {
	t.Parallel()
	redistest.NeedsSharded(t)
	cluster := redistest.StartCluster(t, 3)
	subs := NewSubscriptions(connect(t, clusterConfig(cluster)))
	to, from := cluster.Nodes[0], cluster.Nodes[1]
	id := to.Do("CLUSTER", "MYID").(string)
	to.Do("CLUSTER", "BUMPEPOCH") // or the third one, which believes the greatest epoch, has it give the slots back
	const moves = 20
	for i, done := 0, 0; done < moves; i++ {
		channel := fmt.Sprint("channel/", i)
		if cluster.NodeOf(channel) != from {
			continue
		}
		done++
		for _, node := range []*redistest.Server{to, from} { // and not the third one
			node.Do("CLUSTER", "SETSLOT", fmt.Sprint(hashslot.Of(channel)), "NODE", id)
		}
		h, cancel := listen(subs, Topic{Channel: channel, Sharded: true, Slot: hashslot.Of(channel)})
		waittest.Receive(t, "the subscription to stand", h.stands)
		h.hears(t, to, "SPUBLISH", channel)
		cancel()
	}
	// Fewer if the client happens to look at the Cluster right after a move.
	count := 0
	if _, err := fmt.Sscanf(from.Info("errorstats", "errorstat_MOVED"), "count=%d", &count); err != nil ||
		count > moves {
		t.Errorf("redirections: %d, %v, want one for each of %d moves", count, err, moves)
	}
}
