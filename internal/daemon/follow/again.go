package follow

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/daemon/refusal"
	"github.com/lockagent/lockagent/internal/daemon/wire"
)

// AnswerTime is for how long a call waits for the daemon to answer. A daemon that answers later than its store is slow,
// but well.
const AnswerTime = 12 * time.Second

// Glance is for how long a holder does not look at the boot clock at most. Timers stand still while the machine is
// suspended, and deadlines do not.
const Glance = time.Second

// Told is what the daemon has said of a call that failed with err. It is nil if nobody knows whether the daemon has
// seen the call.
func Told(err error) error {
	told := wire.Refused(err)
	if told == err { //nolint:errorlint // it is the same value if the daemon has not said anything
		return nil
	}
	return told
}

// Leaves reports whether the daemon has refused something because it is about to end, or drains. The next daemon does
// it.
func Leaves(told error) bool {
	return errors.Is(told, lockagent.ErrClosed) || errors.Is(told, refusal.ErrDraining)
}

const (
	leastPause = 20 * time.Millisecond
	mostPause  = 250 * time.Millisecond // a daemon that is back may have only moments before the next restart
)

// Pause is for how long a client waits before it asks again, after a number of attempts. It differs from client to
// client, so that they do not come to the next daemon all at once.
func Pause(attempts int) time.Duration {
	pause := min(leastPause<<min(attempts, 16), mostPause)
	return pause/2 + rand.N(pause)
}

// Repeat makes a call until it has no error, or ctx ends. patience tells of an error for how long calls are made, from
// the first one on.
func Repeat(ctx context.Context, patience func(error) time.Duration, call func() error) error {
	began := time.Now()
	for attempts := 0; ; attempts++ {
		err := call()
		if err == nil || time.Since(began) >= patience(err) {
			return err
		}
		select {
		case <-time.After(Pause(attempts)):
		case <-ctx.Done():
			return err
		}
	}
}
