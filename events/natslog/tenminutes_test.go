package natslog

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/audit"
	"github.com/lockagent/lockagent/memstore"
)

// fleet is what several agents do in some minutes of virtual time.
type fleet struct {
	t      *testing.T
	stream *virtualStream
	memory *memstore.Store
	ctx    context.Context // ends with the history
	began  time.Time

	agents  []*virtualAgent
	crashed []*virtualAgent
	work    sync.WaitGroup
}

var fleetLocks = []string{"orders/42", "stock", "mail"}

const fleetSize = 4

func tenMinutes(t *testing.T, script func(*fleet)) []events.Record {
	return history(t, 10*time.Minute, script)
}

// history runs agents that work on three locks for so long, and meanwhile a script of troubles. It
// returns what is in the stream afterwards.
func history(t *testing.T, d time.Duration, script func(*fleet)) (log []events.Record) {
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{t: t, stream: &virtualStream{}, memory: memstore.New(), began: time.Now()}
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		f.ctx = ctx
		for n := range fleetSize {
			f.agents = append(f.agents, nil)
			f.join(n, lockagent.NewAgentID(), 1)
		}
		script(f)
		<-ctx.Done()
		for _, b := range f.agents {
			b.stop(t)
		}
		for _, b := range f.crashed {
			b.forget()
		}
		f.work.Wait()
		log = f.stream.records(t)
	})
	return log
}

// orderlyMinutes returns a copy of the same ten minutes for all tests.
func orderlyMinutes(t *testing.T) []events.Record {
	t.Helper()
	theOrderly.once.Do(func() { theOrderly.log = tenMinutes(t, orderly) })
	return slices.Clone(theOrderly.log)
}

var theOrderly struct {
	once sync.Once
	log  []events.Record
}

// join starts an agent in place n, with three workers.
func (f *fleet) join(n int, id lockagent.AgentID, epoch uint64) {
	b := f.stream.start(f.t, f.ctx, id, epoch, f.memory)
	f.agents[n] = b
	for worker := range 3 {
		session, err := b.Session(fmt.Sprintf("worker-%d-%d", n, worker))
		if err != nil {
			f.t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(uint64(n)+10*epoch, uint64(worker)))
		f.work.Go(func() { labour(b.ctx, r, session) })
	}
}

// labour waits and gives up, enters again, keeps locks for longer than a lease, lets fixed leases
// run out, and is cancelled.
func labour(ctx context.Context, r *rand.Rand, session *channelapi.Session) {
	pause := func(d time.Duration) {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}
	for ctx.Err() == nil {
		options := []channelapi.Option{channelapi.Wait(time.Duration(1+r.IntN(20)) * time.Second)}
		if r.IntN(5) == 0 {
			options = append(options, channelapi.Lease(2*time.Second))
		}
		asking, cancel := context.WithCancel(ctx)
		if r.IntN(4) == 0 {
			time.AfterFunc(time.Duration(r.IntN(3000))*time.Millisecond, cancel)
		}
		lock := session.Lock(fleetLocks[r.IntN(len(fleetLocks))], options...)
		grant, err := lock.Acquire(asking)
		cancel()
		if err != nil {
			pause(time.Duration(r.IntN(2000)) * time.Millisecond)
			continue
		}
		var again channelapi.Grant
		if r.IntN(3) == 0 {
			again, _ = lock.Acquire(ctx)
		}
		pause(time.Duration([]int{0, 1, 1, 5, 50, 50, 50, 300, 800, 3000}[r.IntN(10)]) * time.Millisecond)
		if r.IntN(50) == 0 {
			pause(45 * time.Second)
		}
		if again.Token() != 0 {
			_ = again.Release(ctx) // a fixed lease may have run out
		}
		_ = grant.Release(ctx)
		pause(time.Duration(r.IntN(3000)) * time.Millisecond)
	}
}

// at waits until a time of the history.
func (f *fleet) at(d time.Duration) { time.Sleep(time.Until(f.began.Add(d))) }

// keep has an owner of agent n hold a lock for some seconds from now on, so that something happens
// while it is held.
func (f *fleet) keep(n int, name string, d time.Duration) {
	f.t.Helper()
	b := f.agents[n]
	grant, err := b.Lock(name, channelapi.Wait(2*time.Minute)).Acquire(b.ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	f.work.Go(func() {
		select {
		case <-time.After(d):
		case <-b.ctx.Done():
		}
		_ = grant.Release(context.Background()) // it may be lost
	})
}

var errAway = errors.New("the network is down")

// orderly are troubles of three minutes that leave nothing open: calls to the store fail for a while, or the stream
// cannot be reached, or an agent ends and its identity goes on in the next epoch.
func orderly(f *fleet) {
	f.at(20 * time.Second)
	f.keep(1, "stock", 30*time.Second)
	f.agents[1].store.SetOutage(errAway)
	time.Sleep(12 * time.Second) // long enough that a renewal fails
	f.agents[1].store.SetOutage(nil)

	f.at(35 * time.Second)
	over := f.agents[2].cutOff()
	time.Sleep(40 * time.Second)
	over()

	f.at(80 * time.Second)
	f.keep(0, "mail", time.Minute)
	f.agents[0].store.SetOutage(errAway)
	time.Sleep(45 * time.Second) // longer than a lease: the hold is lost
	f.agents[0].store.SetOutage(nil)

	f.at(150 * time.Second)
	f.agents[3].stop(f.t)
	f.join(3, f.agents[3].ID(), 2)
}

// stormy are troubles that the log explains: a break and a reset of which the holder hears late, and
// steps of the clock of the store.
func stormy(f *fleet) {
	orderly(f)
	f.at(5 * time.Minute) // each of the four locks that it keeps may be busy for 45 s, or for longer
	f.whileDeaf(0, "orders/42", func() {
		if held, err := f.agents[1].Lock("orders/42").Break(f.ctx, "olga"); err != nil || !held {
			f.t.Errorf("broken: %v, %v", held, err)
		}
	})
	f.whileDeaf(2, "orders/42", f.memory.Reset)
	time.Sleep(20 * time.Second)
	f.keep(1, "stock", 500*time.Millisecond) // at the step, so nothing is proven of it
	f.memory.StepClock(20 * time.Second)
	time.Sleep(10 * time.Second)
	f.memory.StepClock(-7 * time.Second)
}

// whileDeaf frees a lock that agent n holds while it does not reach the store. Agent 3 has the lock next.
func (f *fleet) whileDeaf(n int, name string, free func()) {
	f.t.Helper()
	f.keep(n, name, 20*time.Second)
	time.Sleep(time.Millisecond) // tokens grow over a break only if the holds before it took some time
	f.agents[n].store.SetOutage(errAway)
	free()
	f.keep(3, name, time.Second)
	time.Sleep(3 * time.Second)
	f.agents[n].store.SetOutage(nil)
}

// An agent crashes and another one takes its place. Another one crashes and goes on in its next
// epoch.
func crashes(f *fleet) {
	orderly(f)
	f.at(8 * time.Minute)
	f.keep(1, "stock", time.Minute)
	f.crashed = append(f.crashed, f.agents[1])
	f.agents[1].crash()
	time.Sleep(20 * time.Second)
	f.join(1, lockagent.NewAgentID(), 1)
	f.at(9 * time.Minute)
	f.keep(2, "mail", time.Minute)
	f.crashed = append(f.crashed, f.agents[2])
	f.agents[2].crash()
	f.join(2, f.agents[2].ID(), 2)
}

func kindsOf(log []events.Record) map[lockagent.EventKind]int {
	kinds := make(map[lockagent.EventKind]int)
	for _, r := range log {
		kinds[r.Kind]++
	}
	return kinds
}

// Ten minutes of a mixed life are proven, from what the publishers really send.
func TestTenMinutesAreProven(t *testing.T) {
	t.Parallel()
	log := orderlyMinutes(t)
	r := reportOf(t, log)
	if found := r.Findings(); r.Verdict != audit.Proven || len(found) > 0 {
		t.Fatalf("%q\n%v", found, r)
	}
	kinds := kindsOf(log)
	for _, k := range []lockagent.EventKind{
		lockagent.EventQueued, lockagent.EventGranted, lockagent.EventReentered, lockagent.EventUncertain,
		lockagent.EventReleased,
		lockagent.EventExpired, lockagent.EventLost, lockagent.EventReturned, lockagent.EventTimedOut,
		lockagent.EventCancelled,
		lockagent.EventAgentStarted, lockagent.EventAgentStopped, lockagent.EventHeld, lockagent.EventAlive,
	} {
		if kinds[k] == 0 {
			t.Errorf("nothing was %v", k)
		}
	}
	if r.Grants < 500 || r.HandOffs < 10 || r.Losses["deadline"] == 0 || r.Losses["expired"] == 0 ||
		r.Agents != fleetSize || r.Locks != len(fleetLocks) {
		t.Errorf("%v", r)
	}
	t.Logf("%d records in %d messages\n%v", len(log), log[len(log)-1].Position, r)
}

// What resets, breaks and steps of a clock do to a history is explained. Only what was beside a step is left open.
func TestTenStormyMinutesAreExplained(t *testing.T) {
	t.Parallel()
	log := tenMinutes(t, stormy)
	r := reportOf(t, log)
	if r.Verdict != audit.Incomplete || r.Explained.Count == 0 || r.Resets.Count != 3 {
		t.Fatalf("%q\n%v", r.Findings(), r)
	}
	for _, reason := range r.Unproven.Reasons {
		if !strings.Contains(reason.Why, "somebody set the clock of the store") {
			t.Errorf("%d holds: %s", reason.Count, reason.Why)
		}
	}
	t.Logf("%v", r)
}

// A crash leaves open what the agent may have done last, and nothing else.
func TestTenMinutesWithCrashes(t *testing.T) {
	t.Parallel()
	log := tenMinutes(t, crashes)
	r := reportOf(t, log)
	if r.Verdict != audit.Incomplete || r.Tails.Count != 2 || r.RecordHoles.Count+r.Late.Count+r.Explained.Count > 0 {
		t.Fatalf("%q\n%v", r.Findings(), r)
	}
	for _, u := range r.Unproven.First {
		if !slices.ContainsFunc(r.Tails.First, func(tail audit.Tail) bool {
			return u.Hold.Start < tail.To && (u.Hold.End == 0 || u.Hold.End > tail.From)
		}) {
			t.Errorf("no crash touches %v", u)
		}
	}
	t.Logf("%v", r)
}
