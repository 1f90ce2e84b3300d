package redisstore

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/storetest"
)

// A change of a semaphore at a server that forgot is refused until the holders have come back, also if it is the first
// call that finds it so. Afterwards it is made.
func TestNoChangeOfPermitsAtAServerThatForgot(t *testing.T) {
	for where, start := range whereOrdersIs {
		for _, kind := range []lockagent.LockKind{lockagent.Semaphore, lockagent.Permits} {
			t.Run(where+"/"+string(kind), func(t *testing.T) {
				t.Parallel()
				url, server := start(t)
				holder, periods := graced(t, url, agent)
				other, _ := graced(t, url, rival)
				renewal := holdsOfEachKind(t, holder)[kind]
				hearsOfTheHolder(t, other)
				server.Do("FLUSHALL")
				deletion := lockagent.PermitsRequest{
					Name: renewal.Name, Kind: kind, Op: lockagent.DeletePermits, Change: string(lockagent.NewAgentID()),
				}
				refused := func(when string) {
					t.Helper()
					_, err := storetest.Permits(t, other, deletion)
					grace, ok := errors.AsType[*lockagent.GraceError](err)
					if !ok || grace.Name != renewal.Name || grace.Left < 30*time.Second {
						t.Errorf("%s: %v", when, err)
					}
				}
				refused("before anybody has looked")
				began := waittest.Receive(t, "the beginning", periods)
				refused("in the period")
				if r, err := storetest.Renew(t, holder, renewal); err != nil || !r.Held {
					t.Errorf("the renewal: %+v, %v", r, err)
				}
				refused("the holder has come back")
				other.Reasserted(began.Incarnation)
				holder.Reasserted(began.Incarnation)
				_ = waittest.Receive(t, "the end", periods)
				if r, err := storetest.Permits(t, other, deletion); err != nil || !r.Done {
					t.Errorf("after the period: %+v, %v", r, err)
				}
			})
		}
	}
}

// Whoever changes a semaphore that the server has just forgotten waits for its holder, and reckons from what it was.
func TestAChangeOfForgottenPermits(t *testing.T) {
	server := redistest.Start(t)
	locks := func() *channelapi.Locks {
		store, err := Config{GraceFirst: NoGraceFirst, DialTimeout: storetest.Patience}.Open(t.Context(), server.URL())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		l, err := channelapi.New(channelapi.Config{Store: store})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	ours, theirs := locks(), locks()
	pool, seats := theirs.Permits("pool"), theirs.Semaphore("seats")
	for what, set := range map[string]func(context.Context, int) (bool, error){
		"pool": pool.TrySetPermits, "seats": seats.TrySetPermits,
	} {
		if done, err := set(t.Context(), 5); err != nil || !done {
			t.Fatalf("%s: %t, %v", what, done, err)
		}
	}
	held, err := ours.Permits("pool").Acquire(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	seat, err := ours.Semaphore("seats").Acquire(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	// A grant that is dropped comes back.
	defer runtime.KeepAlive([]channelapi.Grant{held, seat})
	if g, err := pool.Acquire(t.Context(), 1); err != nil || g.Release(t.Context()) != nil { // now it knows of the holder
		t.Fatal(err)
	}
	server.Do("FLUSHALL")
	if free, err := pool.AddPermits(t.Context(), 4); err != nil || free != 7 {
		t.Errorf("%d are free after 4 were added to 3: %v", free, err)
	}
	server.Do("FLUSHALL")
	if set, err := seats.TrySetPermits(t.Context(), 1); err != nil || set {
		t.Errorf("set anew: %t, %v", set, err)
	}
	if !held.Held() {
		t.Errorf("the holder has lost its permits: %v", held.Cause())
	}
	server.Do("FLUSHALL")
	released, deleted := pool.ReleaseIDAsync(t.Context(), held.PermitIDs()[1]), seats.DeleteAsync(t.Context())
	if err := <-released; err != nil {
		t.Errorf("the release of a permit: %v", err)
	}
	if r := <-deleted; r.Err != nil || !r.Value {
		t.Errorf("deleted: %t, %v", r.Value, r.Err)
	}
	if s, err := seats.Status(t.Context()); err != nil || s.Exists {
		t.Errorf("after that: %+v, %v", s, err)
	}
}
