package scenarios

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/redistest"
)

func TestC01ManyLocksAndWrites(t *testing.T) {
	heavy(t)
}

func TestC02ManyLocksAndWritesWithShortWaits(t *testing.T) {
	heavy(t, func() channelapi.Option { return channelapi.Wait(rand.N(10 * time.Millisecond)) })
}

// heavy has owners of two agents acquire one lock after the other, all in the same order. Under each lock they
// count its grants in Redis, and need permits of a semaphore for it. With options, their waits may be in vain.
func heavy(t *testing.T, opts ...func() channelapi.Option) {
	onRedis(t, plain, func(w *world) {
		both := w.agents(2)
		pools := [2]*channelapi.Semaphore{both[0].Semaphore("writers"), both[1].Semaphore("writers")}
		set(w, pools[0], 3, true)
		for _, size := range []struct{ owners, loops int }{{2, 10}, {20, 10}} {
			subject := func(i int) string { return fmt.Sprintf("%d of %d owners", i, size.owners) }
			var mu sync.Mutex
			granted := make([]int, size.loops) // guarded by mu
			var wg sync.WaitGroup
			for o := range size.owners {
				conn := w.redis.Dial()
				wg.Go(func() {
					for i := range size.loops {
						var now []channelapi.Option
						for _, opt := range opts {
							now = append(now, opt())
						}
						g, err := both[o%2].Lock(subject(i), now...).Acquire(w.Context())
						if errors.Is(err, channelapi.ErrTimeout) && len(opts) > 0 {
							continue
						}
						if err == nil {
							err = pools[o%2].Do(
								w.Context(), 1+i%2,
								func(context.Context, channelapi.Grant) error { return increment(conn, "bucket "+subject(i)) },
							)
						}
						err = errors.Join(err, g.Release(w.Context()))
						if err != nil {
							w.Error(err)
							return
						}
						mu.Lock()
						granted[i]++
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			for i, n := range granted {
				counted, _ := w.redis.Do("GET", "bucket "+subject(i)).(string)
				if n > 0 && counted != strconv.Itoa(n) || n < size.owners && len(opts) == 0 {
					w.Errorf("%d of %d owners were granted lock %d, and counted %q", n, size.owners, i, counted)
				}
				must(w, grantOf(w, both[0].Lock(subject(i))).Release(w.Context())) // nobody is left in the way
			}
		}
	})
}

// increment is two commands, so callers must exclude each other.
func increment(conn *redistest.Conn, key string) error {
	reply, err := conn.Do("GET", key)
	if err != nil {
		return err
	}
	text, _ := reply.(string)
	n, _ := strconv.Atoi(text)
	_, err = conn.Do("SET", key, strconv.Itoa(n+1))
	return err
}
