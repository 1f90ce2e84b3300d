package memstore

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
)

func TestMessagesOfAPass(t *testing.T) {
	guests := newGuests(t, 4)
	one, two, three, four := guests[0], guests[1], guests[2], guests[3]
	one.acquire(orders, 1)
	for _, g := range guests[1:] {
		g.queue(1)
		g.queue(1)
	}
	for _, wanted := range one.hears(lockagent.MessageWanted, lockagent.MessageWanted, lockagent.MessageWanted) {
		if wanted != (lockagent.Message{Kind: lockagent.MessageWanted, Name: orders, Tenure: one.tenure(1)}) {
			t.Errorf("told %+v", wanted)
		}
	}
	released := one.release(orders, 1)
	passed := two.hears(lockagent.MessagePassed)[0]
	want := lockagent.Message{
		Kind: lockagent.MessagePassed, Name: orders, Tenure: two.tenure(1),
		Token: lockagent.Token(released.At), At: released.At, Incarnation: one.store.memory.incarnation,
	}
	if passed != want || !released.Passed || released.Others != 0 {
		t.Errorf("Release = %+v, told %+v; want %+v", released, passed, want)
	}
	standby := three.hears(lockagent.MessageStandby)[0]
	if standby != (lockagent.Message{Kind: lockagent.MessageStandby, Name: orders, Tenure: three.tenure(1), Remaining: lockagent.PassLease}) {
		t.Errorf("told %+v", standby)
	}
	four.hears()
	if !four.breaks(orders) {
		t.Error("not broken")
	}
	if broken := two.hears(lockagent.MessageBroken)[0]; broken.Tenure != two.tenure(1) || broken.Name != orders || broken.At < passed.At {
		t.Errorf("told %+v", broken)
	}
}

// An agent that waits for what it has itself is not told that it is wanted.
func TestNobodyIsWantedByItself(t *testing.T) {
	g := newGuests(t, 1)[0]
	g.acquire(orders, 1)
	g.queue(2)
	g.hears()
}

func TestDeadPlaces(t *testing.T) {
	for _, test := range []struct {
		name   string
		dead   int
		passed bool
	}{
		{"one", 1, true},
		{"as many as are looked at with the living one", mostLooked - 1, true},
		{"as many as are looked at", mostLooked, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			guests := newGuests(t, test.dead+2)
			one, living := guests[0], guests[test.dead+1]
			one.acquire(orders, 1)
			for _, g := range guests[1:] {
				g.queue(1)
			}
			for _, g := range guests[1 : 1+test.dead] {
				if err := g.store.Close(); err != nil {
					t.Fatal(err)
				}
			}
			reply := one.release(orders, 1)
			if reply.Passed != test.passed {
				t.Errorf("Release = %+v; want Passed %t", reply, test.passed)
			}
			if test.passed {
				living.hears(lockagent.MessagePassed)
				return
			}
			if reply.Others != 1 || living.woken != 2 {
				t.Errorf("Release = %+v; woken %d times", reply, living.woken)
			}
			one.acquire(orders, 2) // the place behind those that were looked at is there still
			one.release(orders, 2)
			living.hears(lockagent.MessagePassed)
		})
	}
}

// Who dies while it waits for a lock that is held for long leaves nothing behind.
func TestANewPlaceRemovesDeadOnes(t *testing.T) {
	one := newGuests(t, 1)[0]
	one.acquire(orders, 1)
	for range 20 {
		g := newGuest(t, one.store.Share())
		g.queue(1)
		if err := g.store.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if places := len(one.store.memory.locks[orders].queue); places > mostCleared {
		t.Errorf("%d places of the dead", places)
	}
}

func TestOutsidersTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guests := newGuests(t, 4)
		woken := 0
		defer guests[0].store.PlantOutsider(orders, func() { woken++ })()
		numbers := make([]uint64, len(guests))
		take := func(i int, ask func(*guest, uint64)) {
			numbers[i]++
			ask(guests[i], numbers[i])
		}
		take(0, func(g *guest, n uint64) { g.acquire(orders, n) })
		for i := 1; i < len(guests); i++ {
			take(i, (*guest).wait)
		}
		holder := 0
		for range 3 { // as many as there are places
			guests[holder].heard, guests[holder+1].heard = nil, nil
			if reply := guests[holder].release(orders, numbers[holder]); !reply.Passed {
				t.Fatalf("Release of agent %d = %+v; want the lock passed", holder, reply)
			}
			if passed := guests[holder+1].hears(lockagent.MessagePassed)[0]; passed.Outsiders != 1 {
				t.Errorf("told %+v; want 1 outsider", passed)
			}
			take(holder, (*guest).wait)
			holder++
		}
		reply := guests[holder].release(orders, numbers[holder])
		if reply.Passed || reply.Others != 4 || woken != 2 {
			t.Fatalf("Release = %+v, woken %d times; want the outsiders' turn", reply, woken)
		}
		time.Sleep(4 * time.Millisecond)
		seen := guests[1].queue(numbers[1])
		if seen.Holder != "" || seen.Remaining != 6*time.Millisecond || seen.Outsiders != 2 {
			t.Errorf("Acquire in the outsiders' turn = %+v", seen) // the last holder has no place
		}
		time.Sleep(seen.Remaining)
		guests[1].acquire(orders, numbers[1])
		// Not as many passes as there are places, but long ago.
		time.Sleep(turnEvery - turnLasts)
		if reply := guests[1].release(orders, numbers[1]); reply.Passed {
			t.Errorf("Release = %+v, %v after the last turn", reply, turnEvery)
		}
		// The turn is of no use to others than agents.
		guests[0].store.PlantHolder(orders, "somebody", 1, time.Millisecond)
		if seen := guests[1].queue(numbers[1]); seen.Holder != "somebody" || seen.Remaining != time.Millisecond {
			t.Errorf("Acquire = %+v", seen)
		}
	})
}

// A lock that agents hold for longer than the outsiders wait is freed each time.
func TestOutsidersOfALockThatIsHeldForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guests := newGuests(t, 2)
		one, two := guests[0], guests[1]
		defer one.store.PlantOutsider(orders, func() {})()
		passes := 0
		for number := uint64(1); number <= 10; number++ {
			one.acquire(orders, number)
			two.queue(number)
			time.Sleep(10 * time.Second)
			if one.release(orders, number).Passed {
				passes++
				two.release(orders, number)
			}
			time.Sleep(turnLasts)
			two.release(orders, number)
		}
		if passes != 1 { // the first
			t.Errorf("passed %d times, want once", passes)
		}
	})
}

// A pass allocates what it tells and whom; nothing grows.
func BenchmarkPass(b *testing.B) {
	var stores [2]*Store
	var tenures [2]lockagent.Tenure
	stores[0] = New()
	stores[1] = stores[0].Share()
	for i, s := range stores {
		tenures[i] = lockagent.Tenure{Agent: lockagent.NewAgentID(), Number: 1}
		s.Subscribe(orders, func() {})
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
		stores[i].Release(b.Context(), lockagent.ReleaseRequest{Name: orders, Tenure: tenures[i]}, func(reply lockagent.ReleaseReply, err error) {
			if err != nil || !reply.Passed {
				b.Fatal(reply, err)
			}
		})
		tenures[i].Number++
		ask(i)
	}
}
