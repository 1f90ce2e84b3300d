package redisson

import (
	"errors"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// short is a lease whose end a test can wait for. It is renewed three times before it would end.
const short = 2 * time.Second

// Five renewals take longer than the lease.
const renewals = 5

func TestJavaKeepsItsLockForLongerThanALease(t *testing.T) {
	t.Parallel()
	w := single(t)
	java, ours := w.startJava(t, short), w.open(t, short)
	java.do(t, "main", "plain.lock", "kept", kept)
	w.awaitRenewals(t, "kept", renewals)
	_, err := ours.Lock("kept").TryAcquire(t.Context())
	want(t, "our try is refused", errors.Is(err, lockagent.ErrHeld), true)
	java.do(t, "main", "plain.unlock", "kept")
	release(t, hold(t, ours.Lock("kept")))
}

func TestWeKeepOurLockForLongerThanALease(t *testing.T) {
	t.Parallel()
	w := single(t)
	java, ours := w.startJava(t, short), w.open(t, short)
	g := hold(t, ours.Lock("kept"))
	w.awaitRenewals(t, "kept", renewals)
	want(t, "tryLock", java.do(t, "main", "plain.tryLock", "kept", 0, kept), "false")
	want(t, "held", g.Held(), true)
	release(t, g)
	want(t, "tryLock of the free lock", java.do(t, "main", "plain.tryLock", "kept", 0, kept), "true")
}

func TestWeGetTheLockOfAKilledJavaWhenItsLeaseEnds(t *testing.T) {
	t.Parallel()
	w := single(t)
	java, ours := w.startJava(t, short), w.open(t, short)
	java.do(t, "main", "plain.lock", "orphan", kept)
	grant := ours.Lock("orphan").AcquireAsync(t.Context())
	w.awaitRenewals(t, "orphan", renewals) // so it is not free while Java lives
	pending(t, grant)
	java.kill()
	g := receive(t, grant)
	must(t, g.Err())
	release(t, g)
}

func TestJavaGetsTheLockOfAKilledAgentWhenItsLeaseEnds(t *testing.T) {
	t.Parallel()
	w := single(t)
	java, agent := w.startJava(t, short), w.startAgent(t, short)
	agent.do(t, "main", "plain.lock", "orphan")
	locked := java.send("main", "plain.lock", "orphan", kept)
	w.awaitRenewals(t, "orphan", renewals) // so it is not free while the agent lives
	pending(t, locked)
	agent.kill()
	value(t, locked)
	java.do(t, "main", "plain.unlock", "orphan")
}
