package contender

import (
	"context"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

var rueidislockKinds = []Kind{
	{
		Name: "rueidislock", Family: Rueidislock, Waits: true,
		Setup: "as it comes: each lock is two of three keys, 5 s long, extended every 2.5 s",
		Open:  openRueidislock(rueidislock.LockerOption{}),
	},
	{
		Name: "rueidislock-best", Family: Rueidislock, Waits: true,
		Setup: "KeyMajority 1, which is as safe on one server, NoLoopTracking, as its README advises for speed, one " +
			"connection, which pipelines best, and TryNextAfter 1 s: who has no answer within the default of 20 ms waits " +
			"for a message that may never come",
		Open: openRueidislock(rueidislock.LockerOption{
			KeyMajority: 1, NoLoopTracking: true, TryNextAfter: time.Second,
			ClientOption: rueidis.ClientOption{PipelineMultiplex: -1},
		}),
	},
}

type rueidisLocker struct{ locker rueidislock.Locker }

func openRueidislock(option rueidislock.LockerOption) func(context.Context, string) (Contender, error) {
	return func(_ context.Context, addr string) (Contender, error) {
		option := option
		option.ClientOption.InitAddress = []string{addr}
		locker, err := rueidislock.NewLocker(option)
		if err != nil {
			return nil, err
		}
		return &rueidisLocker{locker}, nil
	}
}

type rueidisHeld struct {
	ctx     context.Context
	release context.CancelFunc
}

func (r *rueidisLocker) Lock(ctx context.Context, name string) (Held, error) {
	held, release, err := r.locker.WithContext(ctx, name)
	if err != nil {
		return nil, err
	}
	return &rueidisHeld{held, release}, nil
}

func (r *rueidisLocker) Close() { r.locker.Close() }

// Unlock returns when the keys are deleted, or could not be: the library does not
// tell which.
func (h *rueidisHeld) Unlock() error {
	h.release()
	return nil
}

func (h *rueidisHeld) Lost() bool { return h.ctx.Err() != nil }
