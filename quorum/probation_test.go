package quorum_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
	"github.com/lockagent/lockagent/quorum"
)

// What a node has forgotten may be held. So it has no vote until the longest lease is over.
func TestRestartedNodeRejoinsLate(t *testing.T) {
	restart, step := (*memstore.Store).Reset, func(m *memstore.Store) { m.StepClock(time.Hour) }
	for name, c := range map[string]struct {
		forget  func(*memstore.Store)
		late    bool // b hears of the reset only after its call was answered
		idle    bool // b has asked for nothing before
		starts  bool // b starts after the reset
		already time.Duration
	}{
		"restarted":                                    {forget: restart},
		"clock set forward":                            {forget: step},
		"told after the answer":                        {forget: restart, late: true},
		"told after the first answer":                  {forget: restart, late: true, idle: true},
		"told after the first answer, set forward":     {forget: step, late: true, idle: true},
		"before the program starts":                    {forget: restart, starts: true},
		"some time before the program starts":          {forget: restart, starts: true, already: 9 * time.Second},
		"clock set forward, before the program starts": {forget: step, starts: true},
	} {
		bubble(t, name, func(t *testing.T) {
			all := newMemories(3)
			a, b := newGuest(t, all), newGuest(t, all)
			if !c.idle {
				b.acquire(99)
				b.release(99)
			}
			a.nodes[2].SetOutage(errDown)
			a.acquire(1)
			resume := func() {}
			if c.late {
				resume = b.nodes[1].Hang()
			}
			c.forget(all[1])
			time.AfterFunc(time.Millisecond, resume)
			if time.Sleep(c.already); c.starts {
				b = newGuest(t, all)
			}
			guests := map[string]*guest{"a": a, "b": b}
			if reply := b.busy(1); reply.Holder != a.tenure(1).String() && reply.Holder != "" {
				t.Errorf("busy = %+v", reply)
			}
			time.Sleep(10 * time.Second)
			b.busy(2)
			all.holders(t, "a - -", guests)
			if len(b.notices) == 0 || b.notices[0].Kind != quorum.NodeAway || b.notices[0].Node != 1 ||
				b.notices[0].For < quorum.DefaultLongestLease-c.already {
				t.Errorf("notices %+v", b.notices)
			}
			time.Sleep(21 * time.Second) // the lease of a is over
			b.nodes[2].SetOutage(errDown)
			_, err := b.try(3)
			b.unavailable(err)
			time.Sleep(30 * time.Second)
			b.acquire(4)
			all.holders(t, "b b -", guests)
		})
	}
}

// A node may tell late since when it remembers. Its answers name another incarnation, so they do not count.
func TestAnotherIncarnationHasNoVote(t *testing.T) {
	bubble(t, "reset", func(t *testing.T) {
		all := newMemories(3)
		a, b := newGuest(t, all), &guest{t: t, id: "b"}
		var nodes []lockagent.Store
		for _, m := range all {
			b.nodes = append(b.nodes, m.Share())
			nodes = append(nodes, mute{b.nodes[len(b.nodes)-1]})
		}
		var err error
		if b.store, err = (quorum.Config{}).Open(nodes...); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = b.store.Close() })
		b.acquire(99)
		b.release(99)
		a.nodes[2].SetOutage(errDown)
		a.acquire(1)
		all[1].Reset()
		b.busy(1)
	})
}

// mute is a node that tells of no reset.
type mute struct{ *memstore.Store }

func (mute) OnReset(func(lockagent.Reset)) (cancel func()) { return func() {} }
func (mute) RemembersSince() time.Time                     { return time.Time{} }

func TestClockSetBackForgetsNothing(t *testing.T) {
	bubble(t, "set back", func(t *testing.T) {
		all := newMemories(3)
		g := newGuest(t, all)
		all[0].StepClock(-time.Hour)
		g.nodes[1].SetOutage(errDown)
		g.acquire(1)
	})
}

// Programs may say that nothing was forgotten before they started. What is forgotten later counts.
func TestNewNodesVoteAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newMemories(3)
		newGuest(t, all).acquire(1)
		for _, m := range all {
			m.Reset()
		}
		g := &guest{t: t, id: "new"}
		g.store, g.nodes = all.opened(t, quorum.Config{NewNodes: true})
		g.acquire(1)
		g.release(1)
		for _, m := range all[:2] {
			m.Reset()
		}
		_, err := g.try(2)
		g.unavailable(err)
	})
}
