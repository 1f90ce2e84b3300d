package actor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockagent/lockagent"
)

// timeEvery is how often the agent asks for the time of the store. The clocks of two machines
// drift apart by less than a second in the meantime.
const timeEvery = 10 * time.Minute

// storeTime asks the store for its time, which is for the event log: an audit can judge only what
// happened before the time that every agent has told. So the agent asks as soon as it starts,
// again and again until the store answers, and then from time to time.
type storeTime struct {
	mu    sync.Mutex // guards what follows, and is held while the answer is recorded
	timer *time.Timer
	pause time.Duration // after the last failure
	over  bool          // nothing is recorded any more
}

func (a *Agent) askTime() {
	var once sync.Once
	answer := func(at lockagent.StoreTime, err error) { once.Do(func() { a.tellTime(at, err) }) }
	defer func() {
		if p := recover(); p != nil {
			a.complain("store", p)
			answer(0, fmt.Errorf("%w: panic: %v", lockagent.ErrInternal, p))
		}
	}()
	a.layers.history.Time(context.Background(), answer)
}

func (a *Agent) tellTime(at lockagent.StoreTime, err error) {
	t := &a.storeTime
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over || errors.Is(err, lockagent.ErrClosed) {
		return
	}
	if err != nil {
		t.pause = min(max(2*t.pause, retryMin), maxSleep)
		t.timer = time.AfterFunc(t.pause, a.askTime)
		return
	}
	t.pause = 0
	t.timer = time.AfterFunc(timeEvery, a.askTime)
	a.record(context.Background(), &lockagent.Event{Kind: lockagent.EventAlive, StoreTime: at, Lease: a.cfg.Lease})
}

func (t *storeTime) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	if t.timer != nil {
		t.timer.Stop()
	}
}
