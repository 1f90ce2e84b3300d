package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/faultproxy"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/redisstore"
	"github.com/lockagent/lockagent/storetest"
)

// unavailable expects an error that says so, and that nobody takes for the end of
// a context of the caller's.
func unavailable(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, lockagent.ErrStoreUnavailable) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, context.Canceled) {
		t.Errorf("%s: error %v; want ErrStoreUnavailable", what, err)
	}
}

// persistently tries until the store is available.
func persistently(t *testing.T, store *redisstore.Store, req lockagent.AcquireRequest) lockagent.AcquireReply {
	t.Helper()
	var reply lockagent.AcquireReply
	waittest.Until(t, "the store to be available", func() bool {
		var err error
		reply, err = storetest.Acquire(t, store, req)
		if err != nil {
			unavailable(t, "Acquire", err)
		}
		return err == nil
	})
	return reply
}

func TestAServerThatIsKilledAndComesBackEmpty(t *testing.T) {
	server := redistest.Start(t)
	store := open(t, server.URL())
	told := make(chan lockagent.Reset, 10)
	defer store.OnReset(func(r lockagent.Reset) { told <- r })()
	before := acquire(t, store, wish("orders", agentA, 1))

	server.Kill()
	_, err := storetest.Acquire(t, store, wish("orders", agentA, 2))
	unavailable(t, "Acquire", err)
	_, err = storetest.Renew(t, store, lockagent.RenewRequest{
		Name: "orders", Tenure: lockagent.Tenure{Agent: agentA, Number: 1}, Lease: time.Minute,
	})
	unavailable(t, "Renew", err)

	server.Restart()
	after := persistently(t, store, wish("orders", agentB, 1))
	if !after.Granted || after.Token <= before.Token || after.Incarnation == before.Incarnation {
		t.Errorf("granted %+v after %+v", after, before)
	}
	reset := await(t, told)
	if reset.From != before.Incarnation || reset.Reason != "emptied" || reset.After < before.At ||
		reset.Before < reset.After {
		t.Errorf("told %+v after %+v and %+v", reset, before, after)
	}

	// That was all: what is told next is that it happened again.
	server.Kill()
	server.Restart()
	persistently(t, store, wish("orders", agentB, 2))
	if again := await(t, told); again.From != reset.To || again.Reason != "emptied" {
		t.Errorf("told %+v after %+v", again, reset)
	}
}

func await[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	return waittest.Receive(t, "what the test waits for", c)
}

// A server that was restarted with its data may lack the latest writes. So the store tells of
// the restart, even if it makes no call.
func TestAServerThatIsRestartedWithItsData(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.WithConfig("appendonly yes", "appendfsync always"))
	store := open(t, server.URL())
	told := make(chan lockagent.Reset, 10)
	defer store.OnReset(func(r lockagent.Reset) { told <- r })()
	req := wish("orders", agentA, 1)
	before := acquire(t, store, req)
	server.Restart()
	reset := await(t, told)
	if reset.From != before.Incarnation || reset.Reason != "restarted" {
		t.Errorf("told %+v after %+v", reset, before)
	}
	if renewed, err := storetest.Renew(t, store, lockagent.RenewRequest{
		Name: req.Name, Tenure: req.Tenure, Lease: time.Minute,
	}); err != nil || !renewed.Held {
		t.Errorf("Renew = %+v, %v; want it still held", renewed, err)
	}
	if again := acquire(t, store, req); again.Incarnation != reset.To {
		t.Errorf("incarnation %q after %+v", again.Incarnation, reset)
	}
	select {
	case reset := <-told:
		t.Errorf("told of another reset, %+v", reset)
	default:
	}
	server.Restart()
	if again := await(t, told); again.From != reset.To {
		t.Errorf("told %+v after %+v", again, reset)
	}
}

// A store that only renews hears that the server was emptied from the denial.
func TestADeniedRenewalHasTheServerLookedAt(t *testing.T) {
	server := redistest.Start(t)
	store := open(t, server.URL())
	told := make(chan lockagent.Reset, 10)
	defer store.OnReset(func(r lockagent.Reset) { told <- r })()
	req := wish("orders", agentA, 1)
	acquire(t, store, req)
	server.Do("FLUSHALL")
	if renewed, err := storetest.Renew(t, store, lockagent.RenewRequest{
		Name: req.Name, Tenure: req.Tenure, Lease: req.Lease,
	}); err != nil || renewed.Held {
		t.Fatalf("Renew = %+v, %v; want it denied", renewed, err)
	}
	if reset := await(t, told); reset.Reason != "emptied" {
		t.Errorf("told %+v", reset)
	}
}

// Where the server was emptied, locks are free that nobody released.
func TestAResetWakes(t *testing.T) {
	server := redistest.Start(t)
	store := open(t, server.URL())
	acquire(t, store, wish("orders", agentA, 1))
	sub := storetest.Subscribe(t, store, "orders")
	server.Do("FLUSHALL")
	acquire(t, store, wish("another", agentA, 1)) // finds it out
	sub.Await()
}

func TestALostReplyOfAnAcquire(t *testing.T) {
	server := redistest.Start(t)
	proxy := faultproxy.Start(t, server.Addr())
	store := open(t, "redis://"+proxy.Addr())
	acquire(t, store, wish("warm", agentA, 1)) // the server has the script now
	req := wish("orders", agentA, 1)
	lost := proxy.LoseReply(string(req.Name))
	_, err := storetest.Acquire(t, store, req)
	unavailable(t, "Acquire", err)
	await(t, lost)
	seen, err := storetest.Inspect(t, store, "orders")
	if err != nil || seen.Holder != req.Tenure.String() {
		t.Fatalf("Inspect = %+v, %v; want the lock held, or no reply was lost", seen, err)
	}
	acquire(t, store, req)
	if seen, err := storetest.Inspect(t, store, "orders"); err != nil || seen.HoldCount != 1 {
		t.Errorf("Inspect = %+v, %v; want it held once", seen, err)
	}
	release(t, store, req)
	if seen, err := storetest.Inspect(t, store, "orders"); err != nil || seen.Held {
		t.Errorf("Inspect = %+v, %v; want it free", seen, err)
	}
}

func TestALostReplyOfARelease(t *testing.T) {
	server := redistest.Start(t)
	proxy := faultproxy.Start(t, server.Addr())
	store, other := open(t, "redis://"+proxy.Addr()), open(t, server.URL())
	warm := wish("warm", agentA, 1)
	acquire(t, store, warm)
	release(t, store, warm) // the server has the script now
	req := wish("orders", agentA, 2)
	acquire(t, store, req)
	lost := proxy.LoseReply(string(req.Name))
	_, err := storetest.Release(t, store, end(req))
	unavailable(t, "Release", err)
	await(t, lost)
	// Somebody else has it when the release is repeated.
	theirs := wish("orders", agentB, 1)
	acquire(t, other, theirs)
	if reply, err := storetest.Release(t, store, end(req)); err != nil || reply.Released {
		t.Errorf("repeated, Release = %+v, %v; want that it was over", reply, err)
	}
	if seen, err := storetest.Inspect(t, other, "orders"); err != nil || seen.Holder != theirs.Tenure.String() {
		t.Errorf("Inspect = %+v, %v; want it held by the other", seen, err)
	}
}

// An acquire that is given up and withdrawn must not take effect when it arrives
// after all.
func TestAWithdrawnAcquireThatArrivesLate(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := faultproxy.Start(t, server.Addr())
	store := openConfig(t, redisstore.Config{CallTimeout: time.Second}, "redis://"+proxy.Addr())
	other := open(t, server.URL())
	persistently(t, store, wish("warm", agentA, 1))
	proxy.DelayRequests(time.Hour)
	req := wish("orders", agentA, 1)
	_, err := storetest.Acquire(t, store, req)
	unavailable(t, "Acquire", err)
	withdrawal := end(req)
	withdrawal.Unanswered = true
	if reply, err := storetest.Release(t, other, withdrawal); err != nil || reply.Released {
		t.Fatalf("Release = %+v, %v; want it withdrawn", reply, err)
	}
	record := record(t, server)
	proxy.DelayRequests(0)
	waittest.Until(t, "the late acquire to arrive", func() bool {
		return slices.ContainsFunc(record.lines(t), func(line string) bool {
			return strings.Contains(line, string(req.Name))
		})
	})
	if seen, err := storetest.Inspect(t, other, "orders"); err != nil || seen.Held {
		t.Errorf("Inspect = %+v, %v; want it free", seen, err)
	}
}

func TestAServerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store := openConfig(t, redisstore.Config{CallTimeout: time.Second}, server.URL())
	req := wish("orders", agentA, 1)
	persistently(t, store, req)
	server.Pause()
	// The first ones travel, and are not answered. The last ones do not even travel,
	// or they would be answered much later.
	const calls = 2000
	answers := make(chan error, calls)
	for i := range calls - 1 {
		store.Acquire(
			context.Background(), wish(lockagent.Name(fmt.Sprintf("others/%d", i)), agentA, 1),
			func(_ lockagent.AcquireReply, err error) { answers <- err },
		)
	}
	store.Renew(
		context.Background(), lockagent.RenewRequest{Name: req.Name, Tenure: req.Tenure, Lease: req.Lease},
		func(_ lockagent.RenewReply, err error) { answers <- err },
	)
	var behind int
	for range calls {
		err := await(t, answers)
		unavailable(t, "a call", err)
		if strings.Contains(err.Error(), "behind") {
			behind++
		}
	}
	if behind == 0 || behind == calls {
		t.Errorf("%d of %d calls did not travel", behind, calls)
	}
	server.Resume()
	persistently(t, store, req)
}

// A way that swallows everything is given up for a new one after the first call
// that had no answer.
func TestAConnectionThatIsDeadIsReplaced(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := faultproxy.Start(t, server.Addr())
	store := openConfig(t, redisstore.Config{CallTimeout: time.Second}, "redis://"+proxy.Addr())
	req := wish("orders", agentA, 1)
	persistently(t, store, req)
	proxy.DropRequests(true)
	_, err := storetest.Acquire(t, store, req)
	unavailable(t, "Acquire", err)
	proxy.DropRequests(false) // for new connections: the old one has lost a request, and answers no more
	persistently(t, store, req)
}

func TestCloseDoesNotWaitForTheServer(t *testing.T) {
	server := redistest.Start(t)
	store := openConfig(t, redisstore.Config{CallTimeout: time.Hour}, server.URL())
	acquire(t, store, wish("orders", agentA, 1))
	storetest.Subscribe(t, store, "orders")
	server.Pause()
	defer server.Resume()
	answers := make(chan error, 1000)
	for i := range 500 {
		name := lockagent.Name(fmt.Sprintf("others/%d", i))
		store.Acquire(
			context.Background(), wish(name, agentA, 1), func(_ lockagent.AcquireReply, err error) { answers <- err },
		)
		store.Renew(
			context.Background(),
			lockagent.RenewRequest{Name: name, Tenure: lockagent.Tenure{Agent: agentA, Number: 1}, Lease: time.Hour},
			func(_ lockagent.RenewReply, err error) { answers <- err },
		)
	}
	closed := make(chan error, 2)
	for range 2 {
		go func() { closed <- store.Close() }()
	}
	for range 2 {
		if err := await(t, closed); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	if len(answers) != cap(answers) {
		t.Errorf("%d of %d calls were answered when Close had returned", len(answers), cap(answers))
	}
	for range len(answers) {
		if err := <-answers; !errors.Is(err, lockagent.ErrClosed) {
			t.Fatalf("a call under way ended with %v", err)
		}
	}
}

// Everything is answered, once, and nobody has a lock together with somebody else,
// while connections are cut all the time.
func TestConnectionsThatAreCutAllTheTime(t *testing.T) {
	t.Parallel()
	cutAllTheTime(t, 100)
}

func cutAllTheTime(t *testing.T, turnsTaken int) {
	server := redistest.Start(t)
	proxy := faultproxy.Start(t, server.Addr())
	stores := []*redisstore.Store{open(t, "redis://"+proxy.Addr()), open(t, "redis://"+proxy.Addr())}
	var (
		all    sync.WaitGroup
		inside sync.Mutex
		holder lockagent.AgentID
		grants int
	)
	stop, turns := make(chan struct{}), make(chan struct{})
	for i := range 8 {
		store, agent := stores[i%2], lockagent.NewAgentID()
		all.Go(func() {
			sub := store.Subscribe("orders", lockagent.PlainLock, func() {})
			defer sub()
			for number := uint64(1); ; number++ {
				select {
				case <-stop:
					return
				case turns <- struct{}{}:
				}
				req := wish("orders", agent, number)
				reply, err := storetest.Acquire(t, store, req)
				if err == nil && reply.Granted {
					inside.Lock()
					if holder != "" {
						t.Errorf("%s was granted the lock while %s had it", agent, holder)
					}
					holder = agent
					grants++
					inside.Unlock()
					inside.Lock()
					holder = ""
					inside.Unlock()
				}
				for tries := 0; ; tries++ {
					_, err := storetest.Release(t, store, end(req))
					if err == nil {
						break
					}
					unavailable(t, "Release", err)
				}
			}
		})
	}
	for i := range turnsTaken {
		<-turns
		switch i % 10 {
		case 3:
			proxy.CutAfterReplies(500)
		case 7:
			proxy.CutAfterRequests(500)
		case 9:
			proxy.Cut()
		}
	}
	close(stop)
	all.Wait()
	if grants == 0 {
		t.Error("nobody was granted the lock")
	}
	if seen, err := storetest.Inspect(t, open(t, server.URL()), "orders"); err != nil || seen.Held {
		t.Errorf("Inspect = %+v, %v; want it free", seen, err)
	}
}

func TestAServerThatIsFull(t *testing.T) {
	server := redistest.Start(t)
	store := open(t, server.URL())
	req := wish("orders", agentA, 1)
	acquire(t, store, req)
	server.Do("CONFIG", "SET", "maxmemory", "1")
	_, err := storetest.Acquire(t, store, wish("others", agentA, 1))
	unavailable(t, "Acquire", err)
	if err != nil && !strings.Contains(err.Error(), "OOM") {
		t.Errorf("the error does not tell why: %v", err)
	}
	if renewed, err := storetest.Renew(t, store, lockagent.RenewRequest{
		Name: req.Name, Tenure: req.Tenure, Lease: req.Lease,
	}); err != nil || !renewed.Held {
		t.Errorf("Renew = %+v, %v; want it held", renewed, err)
	}
	release(t, store, req)
}

// A server may close a connection that is idle. The next call does not suffer for it.
func TestAnIdleConnectionThatIsClosed(t *testing.T) {
	server := redistest.Start(t, redistest.WithTLS())
	for name, store := range map[lockagent.Name]*redisstore.Store{
		"plain":  open(t, server.URL()),
		"socket": open(t, "unix://"+server.Socket()),
		"tls":    openConfig(t, redisstore.Config{TLS: server.TLSConfig()}, server.TLSURL()),
	} {
		for number := uint64(1); number <= 5; number++ {
			req := wish(name, agentA, number)
			acquire(t, store, req)
			server.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
			release(t, store, req)
		}
	}
}
