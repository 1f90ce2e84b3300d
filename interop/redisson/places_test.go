package redisson

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent/internal/waittest"
)

func TestP07JavaPassesTheFairPlaceOfAKilledAgent(t *testing.T) {
	t.Parallel()
	passesKilledAgent(t, single(t))
}

func TestP07JavaPassesTheFairPlaceOfAKilledAgentInACluster(t *testing.T) {
	t.Parallel()
	passesKilledAgent(t, cluster(t))
}

// passesKilledAgent kills a process of ours, which leaves a place at the head of the queue. Redisson removes it after 6 s.
func passesKilledAgent(t *testing.T, w *world) {
	java, agent := w.startJava(t, short), w.startAgent(t, short)
	holder := java.lock("fair", "orphan", "a")
	holder.lock(t, kept)
	agent.send("main", "fair.lock", "orphan")
	dead := w.awaitPlaces(t, "orphan", 1)
	granted := java.lock("fair", "orphan", "b").send("lock", kept)
	w.awaitHearing(t, "orphan", w.awaitPlaces(t, "orphan", 2))
	w.awaitRenewals(t, renewals, "orphan") // so the agent has asked again, and kept its place
	want(t, "the first place", w.places("orphan")[0], dead)
	agent.kill()
	if left := w.goodFor(t, "orphan", dead); left > 7*time.Second {
		t.Errorf("the place is good for %v", left)
	}
	holder.unlock(t)
	value(t, granted)
}

// A process of ours that was killed has the first place at a fair lock, and Java has the next. When our place is over, a release by Java tells
// the next place at once. It would sleep until the end of the lease otherwise, which lasts beyond the test.
func TestP07JavaTellsThePlaceBehindThatOfAKilledAgent(t *testing.T) {
	t.Parallel()
	const name = "orphan"
	w := single(t)
	java, agent := w.startJava(t, short), w.startAgent(t, short)
	holder := java.lock("fair", name, "a")
	holder.lock(t, forever)
	agent.send("main", "fair.lock", name)
	dead := w.awaitPlaces(t, name, 1)
	granted := java.lock("fair", name, "b").send("lock", kept)
	w.awaitHearing(t, name, w.awaitPlaces(t, name, 2))
	java.awaitSleep(t, "b")
	agent.kill()
	waittest.Until(t, "the end of the place", func() bool { return w.goodFor(t, name, dead) <= 0 })
	w.wouldLast(t, name)
	holder.unlock(t)
	value(t, granted)
}

// goodFor is how long a place is good for, by the clock of the server.
func (w *world) goodFor(t *testing.T, name, place string) time.Duration {
	t.Helper()
	node := w.nodeOf(name)
	until, err := strconv.ParseInt(node.Do("ZSCORE", keyOf("redisson_lock_timeout", name), place).(string), 10, 64)
	must(t, err)
	now, err := strconv.ParseInt(node.Do("TIME").([]any)[0].(string), 10, 64)
	must(t, err)
	return time.Duration(until-now*1000) * time.Millisecond
}

func TestP07P09WePassTheFairPlacesOfAKilledJava(t *testing.T) {
	t.Parallel()
	passesKilledJava(t, single(t))
}

func TestP07P09WePassTheFairPlacesOfAKilledJavaInACluster(t *testing.T) {
	t.Parallel()
	passesKilledJava(t, cluster(t))
}

// passesKilledJava kills a Java process, which leaves places at the heads of two queues. One is good for minutes. The other has lost its score, so
// Redisson would never pass it. We leave the lock to either for some seconds. Meanwhile we do not ask more often than others.
func passesKilledJava(t *testing.T, w *world) {
	b := &both{w, w.startJava(t, short), w.open(t, short), w.open(t, short)}
	names := []string{"orphan", "no score"}
	var holders []*someone
	queues := make([][]*someone, len(names))
	for i, name := range names {
		lock := thing{"fair", name}
		holders = append(holders, b.has(t, lock, "g", forever))
		b.queues(t, name, "j"+strconv.Itoa(i))
		head := b.awaitPlaces(t, name, 1)
		b.awaitHearing(t, name, head)
		for n := range 3 {
			queues[i] = append(queues[i], b.queues(t, name, "g"))
			b.awaitPlaces(t, name, 2+n)
		}
		if name == "no score" {
			want(t, "scores", b.nodeOf(name).Do("ZREM", keyOf("redisson_lock_timeout", name), head), any(int64(1)))
		}
	}
	b.java.kill()
	scripts := func() (n int) {
		for _, node := range w.nodes {
			n += node.Calls("evalsha")
		}
		return n
	}
	before := scripts()
	for _, holder := range holders {
		holder.leaves(t)
	}
	for _, queue := range queues {
		queue[0].gets(t)
	}
	const most = 60 // 6 waiters ask every two seconds, for six
	if asked := scripts() - before; asked > most {
		t.Errorf("%d scripts ran until the dead had been passed, want at most %d", asked, most)
	}
	for _, queue := range queues {
		for i, s := range queue {
			if i > 0 {
				s.gets(t)
			}
			s.leaves(t)
		}
	}
}

// One Java process is two seconds ahead of the server, and the other is two seconds behind. Those who wait ask again and again.
func TestP08ClocksOfFairWaitersDiffer(t *testing.T) {
	t.Parallel()
	const name = "clocks"
	w := single(t)
	ahead := w.with(t, w.startJava(t, short, "-Ddriver.ahead=2000"), short)
	behind := &both{w, w.startJava(t, short, "-Ddriver.ahead=-2000"), ahead.ours, ahead.others}
	holder := ahead.has(t, thing{"fair", name}, "g0", kept) // Java looks again at the end of a lease
	var all []*someone
	for i, come := range []struct {
		side *both
		who  string
	}{{ahead, "j"}, {behind, "j"}, {ahead, "g"}, {behind, "j"}, {ahead, "j"}, {ahead, "g"}, {ahead, "j"}} {
		all = append(all, come.side.come(t, thing{"fair", name}, come.who+strconv.Itoa(i), kept))
		place := w.awaitPlaces(t, name, i+1)
		w.awaitHearing(t, name, place)
	}
	first := w.places(name)
	w.awaitRenewals(t, renewals, name)
	want(t, "the queue", strings.Join(w.places(name), " "), strings.Join(first, " "))
	holder.leaves(t)
	for i, s := range all {
		s.gets(t)
		for _, later := range all[i+1:] {
			later.waits(t)
		}
		s.leaves(t)
	}
}

// firstPlaceHasNoScore has the first in the queue lose its score. It is one of ours, and is granted the lock all the same.
// Then Java is.
func firstPlaceHasNoScore(t *testing.T, b *both) {
	for _, holder := range []string{"j0", "g0"} {
		name := "no score " + holder
		has := b.has(t, thing{"fair", name}, holder, forever)
		ours := b.queues(t, name, "g1")
		head := b.awaitPlaces(t, name, 1)
		java := b.queues(t, name, "j2")
		b.awaitHearing(t, name, b.awaitPlaces(t, name, 2))
		want(t, "scores", b.nodeOf(name).Do("ZREM", keyOf("redisson_lock_timeout", name), head), any(int64(1)))
		has.leaves(t)
		ours.gets(t)
		java.waits(t)
		ours.leaves(t)
		java.gets(t)
		java.leaves(t)
		b.gone(t, name)
	}
}
