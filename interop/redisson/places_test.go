package redisson

import (
	"strconv"
	"testing"
	"time"

	"github.com/lockagent/lockagent/internal/waittest"
)

// placeOfOurs has an agent have a place at the head of the queue. When it was killed, Redisson removes the place after
// 6 s, or when the lease has ended that Java saw.
func placeOfOurs(t *testing.T, b *both, agent *process) (after func(*testing.T)) {
	const name = "orphan place"
	holder, granted, dead := b.placesBehind(t, agent, name, kept)
	first := b.score(t, name, dead)
	waittest.Until(t, "the agent to ask again", func() bool { return b.score(t, name, dead) > first })
	want(t, "the first place", b.places(name)[0], dead)
	return func(t *testing.T) {
		if left := b.goodFor(t, name, dead); left > 7*time.Second {
			t.Errorf("the place is good for %v", left)
		}
		holder.unlock(t)
		value(t, granted)
	}
}

// placeOfOursThatIsOver is the same, but Java releases the lock when our place is over. It then tells the next place at
// once. That one would sleep until the end of the lease otherwise, which lasts beyond the test.
func placeOfOursThatIsOver(t *testing.T, b *both, agent *process) (after func(*testing.T)) {
	const name = "orphan place that is over"
	holder, granted, dead := b.placesBehind(t, agent, name, forever)
	b.java.awaitSleep(t, "waits for "+name)
	return func(t *testing.T) {
		waittest.Until(t, "the end of the place", func() bool { return b.goodFor(t, name, dead) <= 0 })
		b.wouldLast(t, name)
		holder.unlock(t)
		value(t, granted)
	}
}

// placesBehind has Java hold a fair lock, an agent have the first place, and Java have the next.
func (b *both) placesBehind(
	t *testing.T, agent *process, name string, lease time.Duration,
) (holder javaLock, granted <-chan answer, first string) {
	t.Helper()
	holder = b.java.lock("fair", name, "has "+name)
	holder.lock(t, lease)
	agent.send("main", "fair.lock", name)
	first = b.awaitPlaces(t, name, 1)
	granted = b.java.lock("fair", name, "waits for "+name).send("lock", kept)
	b.awaitHearing(t, name, b.awaitPlaces(t, name, 2))
	return holder, granted, first
}

// score is until when a place is good, in ms. It is 0 if the place is gone.
func (w *world) score(t *testing.T, name, place string) int64 {
	t.Helper()
	score, is := w.nodeOf(name).Do("ZSCORE", keyOf("redisson_lock_timeout", name), place).(string)
	if !is {
		return 0
	}
	until, err := strconv.ParseInt(score, 10, 64)
	must(t, err)
	return until
}

// goodFor is how long a place is good for, by the clock of the server. A place that is gone is not.
func (w *world) goodFor(t *testing.T, name, place string) time.Duration {
	t.Helper()
	now, err := strconv.ParseInt(w.nodeOf(name).Do("TIME").([]any)[0].(string), 10, 64)
	must(t, err)
	return time.Duration(w.score(t, name, place)-now*1000) * time.Millisecond
}

// placesOfJava has Java have places at the heads of two queues. One is good for minutes. The other has lost its score,
// so Redisson would never pass it. When Java was killed, we leave the lock to either for some seconds.
func placesOfJava(t *testing.T, b *both, _ *process) (after func(*testing.T)) {
	names := []string{"orphan", "no score"}
	var holders []*someone
	queues := make([][]*someone, len(names))
	for i, name := range names {
		lock := thing{"fair", name}
		holders = append(holders, b.has(t, lock, "g", forever))
		b.queues(t, name, "j waits for "+name)
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
	return func(t *testing.T) {
		for _, holder := range holders {
			holder.leaves(t)
		}
		for _, queue := range queues {
			for _, s := range queue {
				s.gets(t)
				s.leaves(t)
			}
		}
	}
}

// firstPlaceHasNoScore has the first in the queue lose its score. It is one of ours, and is granted the lock all the
// same. Then Java is.
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
