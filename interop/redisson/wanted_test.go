package redisson

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/waittest"
)

// A holder of ours learns with its next renewal that Java waits, and not before somebody does.
func TestJavaWantsALock(t *testing.T) {
	t.Parallel()
	w := single(t)
	java, ours := w.startJava(t, 30*time.Second), w.locks(t, w.store(t), 3*time.Second)
	for kind, lock := range map[string]func(name string) channelapi.AnyLock{
		"plain":  func(name string) channelapi.AnyLock { return ours.Lock(name) },
		"fair":   func(name string) channelapi.AnyLock { return ours.FairLock(name) },
		"fenced": func(name string) channelapi.AnyLock { return ours.FencedLock(name) },
		"write":  func(name string) channelapi.AnyLock { return ours.WriteLock(name) },
		"read":   func(name string) channelapi.AnyLock { return ours.ReadLock(name) },
	} {
		theirs := kind
		if kind == "read" {
			theirs = "write" // Java can read beside us
		}
		g := hold(t, lock("wanted "+kind))
		wanted := g.Wanted()
		select {
		case <-wanted:
			t.Errorf("%s: it is wanted, and nobody waits", kind)
		default:
		}
		j := java.lock(theirs, "wanted "+kind, "main")
		locked := j.send("lock", kept)
		waittest.Receive(t, kind+": word of Java", wanted)
		release(t, g)
		value(t, locked)
		j.unlock(t)
	}
}
