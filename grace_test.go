package lockagent_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/faultproxy"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/redisstore"
)

// A server that forgot everything costs neither an overlap nor a hold, whatever the kind: the holder goes on, and the
// waiter is granted the lock when the holder has released it.
func TestAServerForgets(t *testing.T) {
	for how, forget := range map[string]func(*redistest.Server){
		"it is emptied":       func(s *redistest.Server) { s.Do("FLUSHALL") },
		"it comes back empty": func(s *redistest.Server) { s.Kill(); s.Restart() },
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			redis := redistest.Start(t)
			alpha := openAgent(t, redisstore.Config{}, redis.Addr(), channelapi.Config{})
			beta := openAgent(t, redisstore.Config{}, redis.Addr(), channelapi.Config{})
			kinds := map[string]func(*channelapi.Locks) *channelapi.Lock{
				"plain":  func(l *channelapi.Locks) *channelapi.Lock { return l.Lock("plain") },
				"fair":   func(l *channelapi.Locks) *channelapi.Lock { return l.FairLock("fair") },
				"fenced": func(l *channelapi.Locks) *channelapi.Lock { return l.FencedLock("fenced") },
				"spin":   func(l *channelapi.Locks) *channelapi.Lock { return l.SpinLock("spin") },
				"write":  func(l *channelapi.Locks) *channelapi.Lock { return l.WriteLock("write") },
			}
			holds, waits := map[string]lockagent.Grant{}, map[string]<-chan lockagent.Grant{}
			for kind, lock := range kinds {
				holds[kind] = receive(t, lock(alpha).AcquireAsync(t.Context()))
			}
			holds["read"] = receive(t, alpha.ReadLock("read").AcquireAsync(t.Context()))
			kinds["read"] = func(l *channelapi.Locks) *channelapi.Lock { return l.WriteLock("read") }
			for kind, lock := range kinds {
				waits[kind] = lock(beta).AcquireAsync(t.Context())
			}
			for kind := range kinds {
				waittest.Until(t, kind+" to be waited for", func() bool { return isWanted(holds[kind]) || kind == "spin" })
			}
			forget(redis)
			if try, err := beta.Lock("another").TryAcquire(t.Context()); err == nil {
				must(t, try.Release(t.Context()))
			} else if !errors.Is(err, lockagent.ErrStoreUnavailable) {
				t.Errorf("a try: %v", err)
			}
			// When the store grants again, all holders have come back.
			g := receive(t, beta.Lock("another").AcquireAsync(t.Context()))
			for kind, hold := range holds {
				if !hold.Held() {
					t.Errorf("%s: lost: %v", kind, hold.Cause())
				}
				select {
				case g := <-waits[kind]:
					t.Errorf("%s: granted beside the holder: token %d, held is %v: %v", kind, g.Token(), g.Held(), g.Err())
				default:
				}
			}
			must(t, g.Release(t.Context()))
			for kind, hold := range holds {
				must(t, hold.Release(t.Context()))
				if next := receive(t, waits[kind]); next.Token() <= hold.Token() {
					t.Errorf("%s: token %d after %d", kind, next.Token(), hold.Token())
				}
			}
		})
	}
}

func isWanted(g lockagent.Grant) bool {
	select {
	case <-g.Wanted():
		return true
	default:
		return false
	}
}

// The lease of the holder's agent bounds a grace period: the agent is cut off, and nothing is granted before its lease
// is over.
func TestAServerForgetsAnAgentThatIsCutOff(t *testing.T) {
	t.Parallel()
	const lease = 4 * time.Second
	redis := redistest.Start(t)
	proxy := faultproxy.Start(t, redis.Addr())
	alpha := openAgent(t, redisstore.Config{}, proxy.Addr(), channelapi.Config{Lease: lease})
	beta := openAgent(t, redisstore.Config{}, redis.Addr(), channelapi.Config{Lease: lease})
	hold := holdOf(t, alpha, "orders")
	must(t, holdOf(t, beta, "bills").Release(t.Context())) // so the server tells beta of alpha
	proxy.Refuse(true)
	proxy.Cut()
	redis.Do("FLUSHALL")
	next := holdOf(t, beta, "orders")
	if hold.Held() || next.Token() <= hold.Token() {
		t.Errorf("granted with token %d, and held with %d is %v", next.Token(), hold.Token(), hold.Held())
	}
}

// The holders bring the number of permits back, too.
func TestAServerForgetsASemaphore(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	alpha := openAgent(t, redisstore.Config{}, redis.Addr(), channelapi.Config{})
	beta := openAgent(t, redisstore.Config{}, redis.Addr(), channelapi.Config{})
	for kind, open := range map[string]func(*channelapi.Locks) permits{
		"semaphore": func(l *channelapi.Locks) permits { return l.Semaphore("semaphore") },
		"permits":   func(l *channelapi.Locks) permits { return l.Permits("permits") },
	} {
		ours, theirs := open(alpha), open(beta)
		if _, err := ours.TrySetPermits(t.Context(), 5); err != nil {
			t.Fatal(err)
		}
		two := receive(t, ours.AcquireAsync(t.Context(), 2))
		one := receive(t, theirs.AcquireAsync(t.Context(), 1))
		waits := theirs.AcquireAsync(t.Context(), 3)
		waittest.Until(t, "the holder to be wanted", func() bool { return isWanted(two) })
		redis.Do("FLUSHALL")
		must(t, receive(t, beta.Lock("another").AcquireAsync(t.Context())).Release(t.Context()))
		if !two.Held() || !one.Held() {
			t.Errorf("%s: lost: %v, %v", kind, two.Cause(), one.Cause())
		}
		select {
		case g := <-waits:
			t.Errorf("%s: three of two free permits were granted: %v", kind, g.Err())
		default:
		}
		must(t, one.Release(t.Context()))
		must(t, receive(t, waits).Release(t.Context()))
		must(t, two.Release(t.Context()))
		if s, err := ours.Status(t.Context()); s.Free != 5 || err != nil {
			t.Errorf("%s: %+v, %v", kind, s, err)
		}
	}
}

// permits is what both kinds of semaphores have.
type permits interface {
	TrySetPermits(ctx context.Context, n int) (bool, error)
	AcquireAsync(ctx context.Context, n int) <-chan lockagent.Grant
	Status(ctx context.Context) (channelapi.PermitsStatus, error)
}
