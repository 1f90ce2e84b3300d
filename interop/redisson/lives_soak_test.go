//go:build soak

package redisson

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent/internal/redistest"
)

func TestSoakP07P09WeGetWhatAKilledJavaHadInACluster(t *testing.T) {
	t.Parallel()
	redistest.NeedsSharded(t)
	weGetWhatAKilledJavaHad(t, cluster(t))
}

func TestSoakP07JavaGetsWhatAKilledAgentHadInACluster(t *testing.T) {
	t.Parallel()
	redistest.NeedsSharded(t)
	javaGetsWhatAKilledAgentHad(t, cluster(t))
}

func TestSoakJavaGetsALockThatRests(t *testing.T) {
	t.Parallel()
	javaRecalls(t, single(t), 5, 20)
}

func TestSoakJavaGetsALockThatRestsInACluster(t *testing.T) {
	t.Parallel()
	redistest.NeedsSharded(t)
	javaRecalls(t, cluster(t), 5, 20)
}

// The keys of Java end by themselves.
func TestSoakP06AnOldJavaReadsBesideGo(t *testing.T) {
	t.Parallel()
	w := old(t)
	oldReader(t, w.with(t, w.startJava(t, short), time.Minute), func([]string) {})
}

// One Java is two seconds ahead of the server, and the other is two seconds behind. Those who wait ask again and again.
func TestSoakP08ClocksOfFairWaitersDiffer(t *testing.T) {
	t.Parallel()
	const name = "clocks"
	w := single(t)
	machine := w.startMachine(t, "-Ddriver.clocks=true")
	ahead := w.with(t, w.connect(t, machine, time.Minute, "ahead=2000"), short)
	behind := *ahead
	behind.java = w.connect(t, machine, time.Minute, "ahead=-2000")
	holder := ahead.has(t, thing{"fair", name}, "g0", kept) // Java looks again at the end of a lease
	var all []*someone
	for i, come := range []struct {
		side *both
		who  string
	}{{ahead, "j"}, {&behind, "j"}, {ahead, "g"}, {&behind, "j"}, {ahead, "j"}, {ahead, "g"}, {ahead, "j"}} {
		all = append(all, come.side.come(t, thing{"fair", name}, come.who+strconv.Itoa(i), kept))
		place := w.awaitPlaces(t, name, i+1)
		w.awaitHearing(t, name, place)
	}
	first := w.places(name)
	w.awaitRenewals(t, 5, name) // for longer than a lease
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
