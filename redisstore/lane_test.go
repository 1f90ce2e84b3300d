package redisstore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/storetest"
)

// gate is a client whose exchanges tell that they have begun, and then wait until the
// test lets them go on.
type gate struct {
	rueidis.Client
	begun chan struct{} // has room for all
	goOn  chan struct{}
}

func (g *gate) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	g.begun <- struct{}{}
	<-g.goOn
	return g.Client.Do(ctx, command)
}

// openLane opens a lane with a gate, which nobody runs yet. end ends its life.
func openLane(t *testing.T) (l *lane, g *gate, end func()) {
	t.Helper()
	server := redistest.Start(t)
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true, DisableRetry: true, ForceSingleClient: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	for _, s := range []*script{acquireScript, releaseScript} {
		server.Do("SCRIPT", "LOAD", s.source) // so that an exchange is one command
	}
	g = &gate{Client: client, begun: make(chan struct{}, 100), goOn: make(chan struct{}, 100)}
	life, end := context.WithCancel(context.Background())
	t.Cleanup(end)
	l = newLane(life, g, true, 4*storetest.Patience, new(dialer))
	l.packer = *newTestPacker()
	l.answered, l.quick = true, storetest.Patience
	return l, g, end
}

// ask calls for a lock. The answer is nil if it was granted; there is room for a second
// one, which must not come.
func ask(ctx context.Context, l *lane, name lockagent.Name) (answers chan error) {
	answers = make(chan error, 2)
	l.acquire(ctx, acquireCall{req: wishOf(name), done: func(r lockagent.AcquireReply, err error) {
		if err == nil && !r.Granted {
			err = errors.New("held by " + r.Holder)
		}
		answers <- err
	}})
	return answers
}

func wishOf(name lockagent.Name) lockagent.AcquireRequest {
	return lockagent.AcquireRequest{Name: name, Tenure: lockagent.Tenure{Agent: one, Number: 1}, Lease: time.Minute, Tokens: 1}
}

// finish finishes an errand on a goroutine of its own. The channel is closed when that
// ends.
func finish(e *lockagent.Errand) <-chan struct{} {
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		e.Finish()
	}()
	return finished
}

// receive waits for a value.
func receive[T any](t *testing.T, what string, c <-chan T) (value T) {
	t.Helper()
	select {
	case value = <-c:
	case <-time.After(storetest.Patience):
		t.Fatalf("waited in vain for %s", what)
	}
	return value
}

// Nobody runs the lane here: what is done is done by the caller.
func TestACallerMakesTheExchangeItself(t *testing.T) {
	l, g, _ := openLane(t)
	for i := range 3 { // the next one finds the lane as the first did
		e := lockagent.NewErrand(t.Context())
		answers := ask(e, l, lockagent.Name(fmt.Sprint("orders/", i)))
		if len(g.begun) > 0 || len(answers) > 0 {
			t.Error("the exchange did not wait for the caller")
		}
		g.goOn <- struct{}{}
		e.Finish()
		if len(g.begun) != 1 || len(answers) != 1 {
			t.Fatalf("%d exchanges and %d answers when the caller had finished", len(g.begun), len(answers))
		}
		if err := <-answers; err != nil {
			t.Error(err)
		}
		<-g.begun
	}

	e := lockagent.NewErrand(t.Context())
	released := make(chan bool, 2)
	l.release(e, releaseCall{
		req:  lockagent.ReleaseRequest{Name: "orders/0", Tenure: wishOf("orders/0").Tenure},
		done: func(r lockagent.ReleaseReply, _ error) { released <- r.Released },
	})
	g.goOn <- struct{}{}
	e.Finish()
	if len(released) != 1 || !<-released {
		t.Error("not released when the caller had finished")
	}
}

// Calls that come while a caller makes an exchange are left to the lane's goroutine.
func TestCallsDuringTheExchangeOfACaller(t *testing.T) {
	l, g, end := openLane(t)
	ended := make(chan struct{})
	go func() { l.run(new(sync.WaitGroup)); close(ended) }()
	for i := range 10 {
		name := func(suffix string) lockagent.Name { return lockagent.Name(fmt.Sprintf("orders/%d/%s", i, suffix)) }
		e := lockagent.NewErrand(t.Context())
		first := ask(e, l, name("first"))
		finished := finish(e)
		receive(t, "the caller's exchange", g.begun)
		second := ask(t.Context(), l, name("second"))
		other := lockagent.NewErrand(t.Context())
		third := ask(other, l, name("third"))
		if !lockagent.LeaveToCaller(other, func(context.Context) {}) {
			t.Fatal("another caller was left an exchange at the same time")
		}

		g.goOn <- struct{}{}
		receive(t, "the caller to finish", finished)
		if err := receive(t, "its answer", first); err != nil {
			t.Error(err)
		}
		receive(t, "the exchange of those that came meanwhile", g.begun)
		g.goOn <- struct{}{}
		for _, answers := range []chan error{second, third} {
			if err := receive(t, "the answer to a call that came meanwhile", answers); err != nil {
				t.Error(err)
			}
		}
	}
	l.close()
	end()
	receive(t, "the lane to end", ended)
	if len(g.begun) > 0 {
		t.Errorf("%d exchanges too many", len(g.begun))
	}
}

// A lane that is closed does not wait for a caller who makes an exchange, and the
// caller is answered all the same, once.
func TestALaneIsClosedDuringTheExchangeOfACaller(t *testing.T) {
	l, g, end := openLane(t)
	ended := make(chan struct{})
	go func() { l.run(new(sync.WaitGroup)); close(ended) }()
	e := lockagent.NewErrand(t.Context())
	first := ask(e, l, "first")
	finished := finish(e)
	receive(t, "the caller's exchange", g.begun)
	waiting := ask(t.Context(), l, "waiting")

	l.close()
	late := lockagent.NewErrand(t.Context())
	refused := ask(late, l, "late")
	if !lockagent.LeaveToCaller(late, func(context.Context) {}) {
		t.Error("a lane that is closed left an exchange to a caller")
	}
	for what, answers := range map[string]chan error{"waiting": waiting, "late": refused} {
		if err := receive(t, what+" to be answered", answers); !errors.Is(err, lockagent.ErrClosed) {
			t.Errorf("%s: %v, want ErrClosed", what, err)
		}
	}
	receive(t, "the lane to end", ended)
	end()
	g.goOn <- struct{}{}
	receive(t, "the caller to finish", finished)
	if err := receive(t, "its answer", first); !errors.Is(err, lockagent.ErrClosed) {
		t.Errorf("the caller heard %v, want ErrClosed", err)
	}
	if len(g.begun)+len(first)+len(waiting)+len(refused) > 0 {
		t.Error("somebody was answered twice, or asked for again")
	}
}

// What was left when the lane was closed has been answered, and is not done any more.
func TestALaneIsClosedBeforeTheExchangeOfACaller(t *testing.T) {
	l, g, _ := openLane(t)
	e := lockagent.NewErrand(t.Context())
	answers := ask(e, l, "orders")
	l.close()
	if len(answers) != 1 || !errors.Is(<-answers, lockagent.ErrClosed) {
		t.Error("the call is not answered by ErrClosed")
	}
	g.goOn <- struct{}{}
	e.Finish()
	if len(g.begun)+len(answers) > 0 {
		t.Error("the caller went on with a call that was answered")
	}
}

// Code that is called with the answer may end the goroutine of the caller who makes the
// exchange, as a test does that fails. The lane goes on without it.
func TestACallerEndsDuringItsExchange(t *testing.T) {
	l, g, end := openLane(t)
	ended := make(chan struct{})
	go func() { l.run(new(sync.WaitGroup)); close(ended) }()
	e := lockagent.NewErrand(t.Context())
	l.acquire(e, acquireCall{req: wishOf("first"), done: func(lockagent.AcquireReply, error) { runtime.Goexit() }})
	finished := finish(e)
	receive(t, "the caller's exchange", g.begun)
	second := ask(t.Context(), l, "second")
	g.goOn <- struct{}{}
	receive(t, "the caller to end", finished)
	receive(t, "the exchange of the call that came meanwhile", g.begun)
	g.goOn <- struct{}{}
	if err := receive(t, "its answer", second); err != nil {
		t.Error(err)
	}
	l.close()
	end()
	receive(t, "the lane to end", ended)
}

// Nor is a call that travelled with such a one left without an answer, or one that comes
// later, whoever made the exchange.
func TestNeighboursOfACallThatEndsItsGoroutine(t *testing.T) {
	for name, ctx := range map[string]context.Context{"a caller's": lockagent.NewErrand(t.Context()), "the lane's": t.Context()} {
		t.Run(name, func(t *testing.T) {
			l, g, end := openLane(t)
			ends := func(lockagent.AcquireReply, error) { runtime.Goexit() }
			l.acquire(ctx, acquireCall{req: wishOf("first"), done: ends})
			neighbour := ask(t.Context(), l, "neighbour")
			l.acquire(t.Context(), acquireCall{req: wishOf("third"), done: ends})
			last := ask(t.Context(), l, "last")
			var runs sync.WaitGroup
			runs.Go(func() { l.run(&runs) })
			if e, of := ctx.(*lockagent.Errand); of {
				finish(e)
			}
			receive(t, "the exchange", g.begun)
			g.goOn <- struct{}{}
			for _, answers := range []chan error{neighbour, last} {
				if err := receive(t, "the answer to a neighbour", answers); err != nil {
					t.Error(err)
				}
			}
			later := ask(t.Context(), l, "later")
			g.goOn <- struct{}{}
			if err := receive(t, "the answer to a later call", later); err != nil {
				t.Error(err)
			}
			l.close()
			end()
			runs.Wait()
		})
	}
}

// A call that was not sent because the store was being closed is answered.
func TestACallIsNotPutBackIntoALaneThatIsClosed(t *testing.T) {
	l, _, _ := openLane(t)
	answers := ask(lockagent.NewErrand(t.Context()), l, "orders")
	l.batch, l.queue = l.queue, gathered{} // as whoever serves takes it
	l.close()
	l.putBack()
	if len(answers) != 1 || !errors.Is(<-answers, lockagent.ErrClosed) {
		t.Error("the call is not answered by ErrClosed")
	}
}

// A stale call that ends its goroutine keeps neither another one nor a fresh one from an
// answer.
func TestNeighboursOfAStaleCallThatEndsItsGoroutine(t *testing.T) {
	l, g, end := openLane(t)
	l.acquire(t.Context(), acquireCall{req: wishOf("stale"), done: func(lockagent.AcquireReply, error) { runtime.Goexit() }})
	stale := ask(t.Context(), l, "also stale")
	for i := range l.queue.acquires {
		l.queue.acquires[i].made = time.Now().Add(-l.bound)
	}
	fresh := ask(t.Context(), l, "fresh")
	g.goOn <- struct{}{}
	var runs sync.WaitGroup
	runs.Go(func() { l.run(&runs) })
	if err := receive(t, "the answer to a stale call", stale); !errors.Is(err, lockagent.ErrStoreUnavailable) {
		t.Errorf("a stale call was answered %v", err)
	}
	if err := receive(t, "the answer to a fresh call", fresh); err != nil {
		t.Error(err)
	}
	l.close()
	end()
	runs.Wait()
}

// A caller who may lose interest would have to wait for an exchange that is slow, or that
// has to dial first.
func TestWhatIsNotLeftToACaller(t *testing.T) {
	l, g, end := openLane(t)
	var runs sync.WaitGroup
	runs.Go(func() { l.run(&runs) })
	for what, unfit := range map[string]func(){
		"slow":        func() { l.took = l.quick },
		"unconnected": func() { l.answered = false },
		"shared":      func() { l.direct = false },
	} {
		l.mu.Lock()
		l.took, l.answered, l.direct = 0, true, true
		unfit()
		l.mu.Unlock()
		e := lockagent.NewErrand(t.Context())
		answers := ask(e, l, lockagent.Name(what))
		if !lockagent.LeaveToCaller(e, func(context.Context) {}) {
			t.Errorf("%s: the exchange was left to the caller", what)
		}
		g.goOn <- struct{}{}
		if err := receive(t, "the answer", answers); err != nil {
			t.Error(err)
		}
	}
	l.close()
	end()
	runs.Wait()
}
