package lockstate

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

func TestWokenInEveryPhase(t *testing.T) {
	t.Run("free: nothing to do", func(t *testing.T) {
		r := newRig(t)
		r.step(Woken{})
		r.want()
	})
	t.Run("yielding: not before the others had their turn", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann")
		r.release("ann")
		r.returned(1)
		r.acquire("bob")
		r.skip()
		r.step(Woken{})
		r.want()
		r.pass(time.Second)
		r.want("Attempted 2s")
	})
	t.Run("asking: remembered, and followed when the answer is that somebody has the lock", func(t *testing.T) {
		r := newRig(t)
		r.acquire("ann")
		r.skip()
		r.step(Woken{})
		r.want("Woke")
		r.busy(time.Minute)
		r.want("FoundBusy", "Queued ann", "Attempted 30s")
		r.busy(time.Minute) // one wake-up is worth one attempt
		r.want("FoundBusy")
	})
	t.Run("asking: granted all the same", func(t *testing.T) {
		r := newRig(t)
		r.acquire("ann")
		r.step(Woken{})
		r.skip()
		r.granted()
		r.want("Began", "Granted ann 101")
	})
	t.Run("asking: of no use when the store did not answer", func(t *testing.T) {
		r := newRig(t)
		r.acquire("ann")
		r.step(Woken{})
		r.skip()
		r.attemptFails(errStore)
		r.want("AttemptFailed")
		r.alarmIn(500*time.Millisecond, time.Second)
	})
	t.Run("sleeping: one attempt however many wait", func(t *testing.T) {
		r := newRig(t)
		r.acquire("ann", "bob", "cid")
		r.busy(time.Minute)
		r.skip()
		r.step(Woken{})
		r.step(Woken{})
		r.want("Woke", "Attempted 30s", "Woke")
	})
	t.Run("sleeping: not before the others had their turn", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann")
		r.release("ann")
		r.returned(1)
		r.acquire("bob")
		r.try("cid") // makes an attempt all the same
		r.busy(time.Minute)
		r.skip()
		r.step(Woken{})
		r.want("Woke")
		r.pass(time.Second)
		r.want("Attempted 2s")
	})
	t.Run("held and returning: nothing to do", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann")
		r.step(Woken{})
		r.want()
		r.release("ann")
		r.skip()
		r.step(Woken{})
		r.want()
	})
}

func TestListening(t *testing.T) {
	listening := func(r *rig, want bool) {
		r.t.Helper()
		if got := r.s.Listening(); got != want {
			r.t.Fatalf("at %v Listening is %t, want %t", time.Duration(r.now), got, want)
		}
	}
	t.Run("does not begin when the store cannot be reached", func(t *testing.T) {
		r := newRig(t)
		r.acquire("ann")
		r.attemptFails(errStore)
		listening(r, false)
	})
	t.Run("lingers after the last waiter left, and then ends", func(t *testing.T) {
		r := newRig(t)
		r.acquire("ann")
		r.busy(time.Minute)
		r.pass(5 * time.Second)
		r.cancel("ann")
		r.skip()
		r.idle(false)
		r.pass(20*time.Second - 1)
		listening(r, true)
		r.want()
		r.pass(1)
		r.want("Quieted")
		listening(r, false)
		r.idle(true)
		r.noAlarm()
	})
	for name, tt := range map[string]struct {
		reply lockagent.ReleaseReply
		wait  time.Duration // after the release
	}{
		"lingers anew when a release passes the lock on": {lockagent.ReleaseReply{Passed: true, Others: 1}, 20 * time.Second},
		"does not linger for others that may linger":     {lockagent.ReleaseReply{Others: 1}, 5 * time.Second},
		"does not linger for own use":                    {lockagent.ReleaseReply{}, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.acquire("ann")
			r.busy(time.Minute)
			r.cancel("ann")
			r.pass(15 * time.Second)
			r.acquire("ann")
			r.granted()
			r.release("ann")
			tt.reply.Released, tt.reply.At = true, storeTime(r.now)
			r.step(ReleaseReplied{Tenure: r.asked, Reply: tt.reply})
			r.skip()
			r.pass(tt.wait - 1)
			r.want()
			r.pass(1)
			r.want("Quieted")
		})
	}
	t.Run("does not linger for a lock that rested elsewhere", func(t *testing.T) {
		r := restRig(t)
		r.acquire("ann")
		r.acquireReplied(
			lockagent.AcquireReply{Holder: "other:7", Remaining: time.Second, HolderRests: true, At: storeTime(r.now)}, nil,
		)
		listening(r, true)
		r.acquire("bob")
		r.step(Woken{})
		r.granted()
		r.release("ann")
		r.release("bob")
		r.skip()
		r.returned(0)
		r.want("Returned", "Unlocked 2", "Quieted")
	})
	t.Run("goes on as long as somebody waits", func(t *testing.T) {
		r := newRig(t)
		r.acquire("ann")
		r.busy(time.Minute)
		for range 3 {
			r.pass(time.Minute + 101*time.Millisecond)
			r.busy(time.Minute)
		}
		listening(r, true)
	})
}

func TestQueuedIsToldAtOnceIfALockCannotBeGranted(t *testing.T) {
	r := newRig(t)
	r.hold("ann")
	r.acquire("bob", "cid")
	r.want("Requested bob", "Queued bob", "Requested cid", "Queued cid")
	if got := r.last(Queued).Waiters; got != 2 || r.s.Waiters() != 2 {
		t.Errorf("%d wait, and %d, want 2", got, r.s.Waiters())
	}
}
