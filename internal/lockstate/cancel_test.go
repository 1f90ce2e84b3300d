package lockstate

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestCancel(t *testing.T) {
	t.Run("of a request that waits answers it", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann", "bob", "cid")
		r.cancel("bob")
		r.want("Answered bob: timeout")
		r.release("ann")
		r.want("Ended ann", "Granted cid 102 by hand-off", "Unlocked 1")
	})
	t.Run("tells a passed wait from an ended context", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann", "bob", "cid")
		r.cancel("bob")
		if e := r.last(Answered); !e.TimedOut || e.Cancelled {
			t.Errorf("a passed wait is told as %+v", e)
		}
		r.step(Cancel{ID: r.ids["cid"], Err: context.Canceled})
		if e := r.last(Answered); e.TimedOut || !e.Cancelled || !errors.Is(e.Err, context.Canceled) {
			t.Errorf("an ended context is told as %+v", e)
		}
	})
	t.Run("of a request that was answered means nothing", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann", "bob")
		r.cancel("bob")
		r.skip()
		r.cancel("bob")
		r.want()
	})
	t.Run("while the lock is asked for returns it if it was granted", func(t *testing.T) {
		r := newRig(t)
		r.acquire("ann")
		r.cancel("ann")
		r.want("Requested ann", "Attempted 30s", "Answered ann: timeout")
		r.granted()
		r.want("Began", "Returning")
		r.returned(0)
		r.want("Returned")
		r.idle(true)
	})
	t.Run("while the lock is asked for forgets it if it was not granted", func(t *testing.T) {
		r := newRig(t)
		r.acquire("ann")
		r.cancel("ann")
		r.skip()
		r.busy(time.Second)
		r.want("FoundBusy", "Forgot")
	})
	t.Run("while asleep forgets the lock", func(t *testing.T) {
		r := newRig(t)
		r.acquire("ann")
		r.busy(time.Second)
		r.skip()
		r.cancel("ann")
		r.want("Answered ann: timeout", "Forgot")
	})
}

func TestCancelOfAGrantThatNobodyMayHaveReceived(t *testing.T) {
	t.Run("has the grant taken back", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann", "bob")
		r.cancel("ann")
		r.want("Reclaiming ann")
		r.step(Unclaimed{ID: r.ids["ann"]})
		r.want("Ended ann: unclaimed", "Granted bob 102 by hand-off")
	})
	t.Run("is over if somebody had received it", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann", "bob")
		r.cancel("ann")
		r.skip()
		r.cancel("ann") // nothing was taken back
		r.pass(9 * time.Second)
		r.want()
	})
}

func TestGrantIsTakenBackWhenTheTimeToClaimItHasPassed(t *testing.T) {
	claim := func(c *Config) { c.Claim = 5 * time.Second }
	t.Run("and handed off if nobody received it", func(t *testing.T) {
		r := newRig(t, claim)
		r.hold("ann", "bob")
		r.pass(5*time.Second - 1)
		r.want()
		r.pass(1)
		r.want("Reclaiming ann")
		r.step(Unclaimed{ID: r.ids["ann"]})
		r.want("Ended ann: unclaimed", "Granted bob 102 by hand-off")
	})
	t.Run("once, and not again if somebody has it", func(t *testing.T) {
		r := newRig(t, claim)
		r.hold("ann")
		r.pass(10*time.Second - 1)
		r.want("Reclaiming ann")
	})
	t.Run("for each grant of a hold by itself", func(t *testing.T) {
		r := newRig(t, claim)
		r.hold("ann+")
		r.pass(time.Second)
		r.acquire("ann+")
		second := r.ids["ann+"]
		r.skip()
		r.pass(4 * time.Second)
		r.want("Reclaiming ann+")
		r.pass(time.Second)
		r.want("Reclaiming ann+")
		r.step(Unclaimed{ID: second})
		r.want("Ended ann+: unclaimed, 1 left")
		if _, _, count, _ := r.s.Hold(); count != 1 {
			t.Errorf("%d grants are left, want 1", count)
		}
	})
	t.Run("without a claim for a grant that is over", func(t *testing.T) {
		r := newRig(t, claim)
		r.hold("ann")
		r.release("ann")
		r.skip()
		r.step(Unclaimed{ID: r.ids["ann"]})
		r.want()
	})
}
