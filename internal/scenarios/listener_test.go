package scenarios

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
)

// listener is a recorder that wants some kinds of events, and keeps them until the test looks.
type listener struct {
	mu     sync.Mutex // guards what follows
	wanted []lockagent.EventKind
	heard  []lockagent.EventKind
}

func (l *listener) Enabled(context.Context) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.wanted) > 0
}

func (l *listener) Record(_ context.Context, e lockagent.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.Lock != "" && (len(l.wanted) == 0 || slices.Contains(l.wanted, e.Kind)) { // what comes unwanted is a defect
		l.heard = append(l.heard, e.Kind)
	}
}

func (l *listener) want(kinds ...lockagent.EventKind) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wanted = kinds
}

func (l *listener) wantHeard(t testing.TB, kinds ...lockagent.EventKind) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Equal(l.heard, kinds) {
		t.Errorf("heard %v, want %v", l.heard, kinds)
	}
	l.heard = nil
}

// Redisson's listeners hear what happens to the key. Ours hear the events of the lock.
func TestA26ListenersHearOfTheEnds(t *testing.T) {
	listen(t, func(l *channelapi.Lock, ctx context.Context) channelapi.Grant {
		g, _ := l.Acquire(ctx)
		return g
	})
}

func TestC09ListenersHearOfTheEndsOfWhatCameOnAChannel(t *testing.T) {
	listen(t, func(l *channelapi.Lock, ctx context.Context) channelapi.Grant { return <-l.AcquireAsync(ctx) })
}

func listen(t *testing.T, acquire func(*channelapi.Lock, context.Context) channelapi.Grant) {
	inMemory(t, plain, func(w *world) {
		var l listener
		a := w.agentWith(channelapi.Config{Store: w.open(), Recorder: &l})
		lapse := func() {
			must(w, acquire(a.Lock(name, channelapi.Lease(5*time.Second)), w.Context()).Err())
			w.sleep(6 * time.Second)
		}
		use := func() {
			must(w, acquire(a.Lock(name, channelapi.Lease(5*time.Second)), w.Context()).Release(w.Context()))
		}
		l.want(lockagent.EventReleased, lockagent.EventExpired)
		use()
		l.wantHeard(w, lockagent.EventReleased)
		lapse()
		l.wantHeard(w, lockagent.EventExpired)
		l.want(lockagent.EventReleased)
		lapse()
		l.wantHeard(w)
		use()
		l.wantHeard(w, lockagent.EventReleased)
		l.want()
		use()
		lapse()
		l.wantHeard(w)
	})
}
