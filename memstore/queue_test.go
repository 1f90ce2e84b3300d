package memstore

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
)

func TestMessagesOfAPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guests := newGuests(t, 5)
		one, two, three, four, five := guests[0], guests[1], guests[2], guests[3], guests[4]
		one.acquire(orders, 1)
		for _, g := range guests[1:] {
			g.queue(1)
		}
		about := lockagent.Message{
			Kind: lockagent.MessageWanted, Name: orders, LockKind: lockagent.PlainLock, Tenure: one.tenure(1),
		}
		for _, wanted := range one.hears(about.Kind, about.Kind, about.Kind, about.Kind) {
			if wanted != about {
				t.Errorf("told %+v", wanted)
			}
		}
		released := one.release(orders, 1)
		passed := two.hears(lockagent.MessagePassed)[0]
		want := lockagent.Message{
			Kind: lockagent.MessagePassed, Name: orders, LockKind: lockagent.PlainLock, Tenure: two.tenure(1),
			Token: lockagent.Token(released.At), At: released.At,
			Clock: one.store.memory.clock.name, Incarnation: one.store.memory.clock.incarnation,
			Contested: true, // by three and the others
		}
		if passed != want || !released.Passed || released.Others != 0 {
			t.Errorf("Release = %+v, told %+v; want %+v", released, passed, want)
		}
		for _, g := range []*guest{three, four} {
			want := lockagent.Message{
				Kind: lockagent.MessageStandby, Name: orders, LockKind: lockagent.PlainLock, Tenure: g.tenure(1),
				AskAfter: lockagent.PassLease,
			}
			if standby := g.hears(want.Kind)[0]; standby != want {
				t.Errorf("told %+v", standby)
			}
		}
		five.hears()
		if !four.breaks(orders) {
			t.Error("not broken")
		}
		broken := two.hears(lockagent.MessageBroken)[0]
		if broken.Tenure != two.tenure(1) || broken.Name != orders || broken.At < passed.At {
			t.Errorf("told %+v", broken)
		}
	})
}

// A failover may bring a holder back before one that waits already, and messages may be lost.
func TestEveryAttemptTellsThatTheHolderIsWanted(t *testing.T) {
	guests := newGuests(t, 3)
	one, two, three := guests[0], guests[1], guests[2]
	one.acquire(orders, 1)
	two.queue(1)
	two.queue(1)
	one.hears(lockagent.MessageWanted, lockagent.MessageWanted)
	two.store.memory.locks[orders].holders[0].tenure = three.tenure(7) // a ghost
	two.queue(1)
	one.hears()
	if wanted := three.hears(lockagent.MessageWanted)[0]; wanted.Tenure != three.tenure(7) {
		t.Errorf("told %+v", wanted)
	}
}

// An agent that waits for its own tenure gets no MessageWanted.
func TestNobodyIsWantedByItself(t *testing.T) {
	g := newGuests(t, 1)[0]
	g.acquire(orders, 1)
	g.queue(2)
	g.hears()
}

func TestDeadPlaces(t *testing.T) {
	const dead = 20
	guests := newGuests(t, dead+2)
	one, living := guests[0], guests[dead+1]
	one.acquire(orders, 1)
	for _, g := range guests[1:] {
		g.queue(1)
	}
	for _, g := range guests[1 : 1+dead] {
		if err := g.store.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if reply := one.release(orders, 1); !reply.Passed {
		t.Errorf("Release = %+v; want it passed to the one that lives", reply)
	}
	living.hears(lockagent.MessagePassed)
}

// Who dies while it waits for a lock that is held for long leaves nothing behind.
func TestANewPlaceRemovesDeadOnes(t *testing.T) {
	for _, live := range []int{0, 3} { // in front of them
		guests := newGuests(t, 1+live)
		one := guests[0]
		one.acquire(orders, 1)
		for _, g := range guests[1:] {
			g.queue(1)
		}
		for range 20 {
			g := newGuest(t, one.store.Share())
			g.queue(1)
			if err := g.store.Close(); err != nil {
				t.Fatal(err)
			}
		}
		queue := one.store.memory.locks[orders].queue
		if len(queue) > live+1 { // the last one has died since
			t.Errorf("%d places of the dead behind %d", len(queue)-live, live)
		}
		for i, g := range guests[1:] {
			if queue[i].tenure != g.tenure(1) {
				t.Errorf("place %d is that of %v, want %v", i, queue[i], g.tenure(1))
			}
		}
	}
}

func TestOutsidersTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const places = 3
		guests := newGuests(t, places+1)
		woken := 0
		cancel := guests[0].store.PlantOutsider(orders, func() { woken++ })
		numbers := make([]uint64, len(guests))
		queue := func(i int) lockagent.AcquireReply {
			numbers[i]++
			return guests[i].queue(numbers[i])
		}
		numbers[0]++
		guests[0].acquire(orders, 1)
		for i := range places {
			queue(i + 1)
		}
		holder := 0
		// The first turn is at once. The next one is after as many passes as there are places.
		for turn := range 3 {
			for passes := 0; turn > 0 && passes < places; passes++ {
				next := (holder + 1) % len(guests)
				guests[next].heard = nil
				if reply := guests[holder].release(orders, numbers[holder]); !reply.Passed {
					t.Fatalf("Release %d of turn %d = %+v; want the lock passed", passes, turn, reply)
				}
				if passed := guests[next].heard[0]; passed.Kind != lockagent.MessagePassed || passed.Outsiders != 1 {
					t.Errorf("told %+v; want 1 outsider", passed)
				}
				queue(holder)
				holder = next
			}
			reply := guests[holder].release(orders, numbers[holder])
			if reply.Passed || reply.Others != len(guests) || woken != turn+2 {
				t.Fatalf("Release in turn %d = %+v, outsider woken %d times; want everybody woken", turn, reply, woken)
			}
			time.Sleep(4 * time.Millisecond)
			seen := queue(holder)
			if seen.Holder != "" || seen.Remaining != turnLasts-4*time.Millisecond || seen.Outsiders != 1 {
				t.Errorf("Acquire in turn %d = %+v", turn, seen)
			}
			time.Sleep(seen.Remaining)
			guests[holder].acquire(orders, numbers[holder])
		}
		guests[holder].release(orders, numbers[holder])
		// It does not concern them what the agents wait for.
		guests[0].store.PlantHolder(orders, "somebody", 1, time.Millisecond)
		if seen := queue(holder); seen.Holder != "somebody" || seen.Remaining != time.Millisecond {
			t.Errorf("Acquire = %+v", seen)
		}
		// Without outsiders there are no turns.
		cancel()
		time.Sleep(time.Hour)
		guests[0].acquire(orders, 1000)
		if reply := guests[0].release(orders, 1000); !reply.Passed {
			t.Errorf("Release = %+v; want the lock passed", reply)
		}
	})
}

// Nothing is kept for outsiders if nobody has a place.
func TestOutsidersAlone(t *testing.T) {
	g := newGuests(t, 1)[0]
	defer g.store.PlantOutsider(orders, func() {})()
	for number := uint64(1); number <= 3; number++ {
		g.acquire(orders, number)
		if reply := g.release(orders, number); reply.Others != 1 {
			t.Errorf("Release = %+v", reply)
		}
	}
}

// A pass allocates what it tells and whom; nothing grows.
func BenchmarkPass(b *testing.B) {
	var stores [2]*Store
	var tenures [2]lockagent.Tenure
	stores[0] = New()
	stores[1] = stores[0].Share()
	for i, s := range stores {
		tenures[i] = lockagent.Tenure{Agent: lockagent.NewAgentID(), Number: 1}
		s.Subscribe(orders, lockagent.PlainLock, func() {})
		s.Listen(tenures[i].Agent, func(lockagent.Message) {})
	}
	ask := func(i int) {
		req := lockagent.AcquireRequest{Name: orders, Tenure: tenures[i], Lease: time.Minute, Queue: true}
		stores[i].Acquire(b.Context(), req, func(_ lockagent.AcquireReply, err error) {
			if err != nil {
				b.Fatal(err)
			}
		})
	}
	ask(0)
	ask(1)
	b.ReportAllocs()
	for i := 0; b.Loop(); i = 1 - i {
		stores[i].Release(
			b.Context(),
			lockagent.ReleaseRequest{Name: orders, Tenure: tenures[i]},
			func(reply lockagent.ReleaseReply, err error) {
				if err != nil || !reply.Passed {
					b.Fatal(reply, err)
				}
			},
		)
		tenures[i].Number++
		ask(i)
	}
}
