package lockstate

import (
	"testing"
	"time"
)

// A session that shares the lock would wait for itself if it asked for the lock alone.
func TestUpgradeIsRefused(t *testing.T) {
	t.Run("at once", func(t *testing.T) {
		r := newRig(t)
		r.read("ann+")
		r.granted()
		r.skip()
		r.acquire("ann+")
		r.want("Requested ann+", "Answered ann+: upgrade")
		r.try("ann+")
		r.want("Requested ann+", "Answered ann+: upgrade")
	})
	t.Run("as soon as the session reads, if it asked before", func(t *testing.T) {
		r := newRig(t)
		r.hold("bob")
		r.read("ann+")
		r.acquire("ann+")
		r.skip()
		r.release("bob")
		r.want("Ended bob", "Granted ann+ 102 by hand-off", "Answered ann+: upgrade", "Unlocked 1", "Renewing 30s shared")
	})
	t.Run("also past others who wait", func(t *testing.T) {
		r := newRig(t)
		r.read("ann+")
		r.granted()
		r.acquire("bob")
		r.skip()
		r.acquire("ann+")
		r.want("Requested ann+", "Answered ann+: upgrade")
	})
	t.Run("but not if the session also has the lock alone", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann+")
		r.read("ann+")
		r.acquire("ann+")
		r.want("Requested ann+", "Reentered ann+ 101 x2", "Requested ann+", "Reentered ann+ 101 x3")
	})
	t.Run("but not to another owner", func(t *testing.T) {
		r := newRig(t)
		r.read("ann+")
		r.granted()
		r.skip()
		r.acquire("bob+")
		r.want("Requested bob+", "Queued bob+")
	})
}

// downgrading is a session that has written and goes on reading.
func downgrading(t *testing.T) *rig {
	r := newRig(t)
	r.hold("ann+")
	writes := r.ids["ann+"]
	r.read("ann+")
	r.skip()
	r.step(Release{ID: writes, Call: 1})
	r.want("Ended ann+, 1 left", "Unlocked 1", "Renewing 30s shared")
	if e := r.last(Renewing); !e.Urgent {
		t.Error("the store may put the downgrade off")
	}
	return r
}

func TestDowngrade(t *testing.T) {
	t.Run("lets readers join without any bound", func(t *testing.T) {
		r := downgrading(t)
		r.renewed(true)
		r.want("Renewed")
		if e := r.last(Renewed); e.Mode != Shared {
			t.Errorf("renewed in mode %d", e.Mode)
		}
		r.pass(time.Second)
		r.read("bob", "cid", "dan", "eve")
		r.want(
			"Requested bob", "Granted bob 102 by hand-off", "Renewing 30s shared", "Requested cid",
			"Granted cid 103 by hand-off",
			"Requested dan", "Granted dan 104 by hand-off", "Requested eve", "Granted eve 105 by hand-off")
	})
	t.Run("is told once", func(t *testing.T) {
		r := downgrading(t)
		r.renewed(true)
		r.skip()
		r.pass(10 * time.Second)
		r.want("Renewing 30s shared")
		r.renewed(true)
		r.want("Renewed")
	})
	t.Run("is told until the store has answered", func(t *testing.T) {
		r := downgrading(t)
		r.renewFails()
		r.want("RenewFailed")
		r.pass(time.Second)
		r.want("Renewing 30s shared")
	})
	t.Run("may have happened when nobody has answered", func(t *testing.T) {
		r := downgrading(t)
		r.renewFails()
		r.acquire("bob")
		r.skip()
		r.release("ann+")
		r.want("Ended ann+", "Returning")
	})
	t.Run("is told by whoever goes on with the holds", func(t *testing.T) {
		r := downgrading(t)
		cfg := rigConfig()
		next := rigOn(t, Resume("orders", &cfg, r.s.Snapshot(), 0, r.now))
		next.now, next.fresh = r.now, 100
		next.step(Tick{})
		next.want("Renewing 30s shared")
	})
	t.Run("comes after a renewal that is under way", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann+")
		writes := r.ids["ann+"]
		r.read("ann+")
		r.pass(10 * time.Second)
		r.skip()
		r.step(Release{ID: writes, Call: 1})
		r.want("Ended ann+, 1 left", "Unlocked 1")
		r.renewed(true)
		r.want("Renewed", "Renewing 30s shared")
	})
	t.Run("waits while a local writer is next", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann")
		r.read("bob")
		r.acquire("cid")
		r.skip()
		r.release("ann")
		r.want("Ended ann", "Granted bob 102 by hand-off", "Unlocked 1")
		r.release("bob")
		r.want("Ended bob", "Granted cid 103 by hand-off", "Unlocked 2")
	})
	t.Run("does not wait for that writer for long", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann")
		r.read("bob")
		r.acquire("cid")
		r.release("ann")
		r.skip()
		r.pass(10 * time.Second)
		r.want("Renewing 30s shared")
		r.renewed(true)
		r.skip()
		r.release("bob")
		r.want("Ended bob", "Returning")
	})
	t.Run("that comes too late", func(t *testing.T) {
		r := downgrading(t)
		r.renewed(false)
		r.want("Ended ann+: denied", "Denied")
	})
	t.Run("keeps a fixed lease", func(t *testing.T) {
		r := newRig(t)
		r.request(Request{Owner: "ann+", Lease: time.Hour})
		r.granted()
		writes := r.ids["ann+"]
		r.request(Request{Owner: "ann+", Mode: Shared, Lease: time.Minute})
		r.skip()
		r.step(Release{ID: writes, Call: 1})
		// A session has one lease, which does not become shorter.
		r.want("Ended ann+, 1 left", "Unlocked 1", "Renewing 1h0m0s shared")
	})
	t.Run("is not for a lock that is held alone", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann")
		r.pass(10 * time.Second)
		if e := r.last(Renewing); e.Mode != Exclusive {
			t.Errorf("renews in mode %d", e.Mode)
		}
	})
}
