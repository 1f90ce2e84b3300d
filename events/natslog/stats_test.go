package natslog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/internal/eventstest"
	"github.com/lockagent/lockagent/events/internal/queue"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	"github.com/lockagent/lockagent/internal/waittest"
)

// alonePublisher returns a publisher without a sender, and what it logs at level warn.
func alonePublisher(t *testing.T, cfg Config) (*Publisher, *heard) {
	t.Helper()
	var log heard
	cfg.Connection = Connection{InProcess: &link{}, Logger: log.logger()}
	cfg.Agent = eventstest.Agent
	if err := cfg.check(); err != nil {
		t.Fatal(err)
	}
	p := unstarted(cfg)
	p.stop = func() {}
	close(p.done)
	return p, &log
}

// TestDropsAreLogged drops events for a minute of virtual time.
func TestDropsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, log := alonePublisher(t, Config{QueueSize: 2})
		drop := func(n int) {
			for range n {
				p.Record(t.Context(), requested(0))
			}
		}
		wantLogged := func(lines, records int) {
			t.Helper()
			synctest.Wait()
			all := strings.Split(strings.TrimSpace(log.String()), "\n")
			if len(all) != lines ||
				!strings.Contains(all[len(all)-1], fmt.Sprintf("events=%d records=\"requested=%d\"", records, records)) &&
					!strings.Contains(all[len(all)-1], fmt.Sprintf("events=%d records=requested=%d", records, records)) {
				t.Errorf("want %d lines, the last with %d:\n%s", lines, records, log.String())
			}
		}
		drop(2)
		time.Sleep(time.Minute)
		if log.String() != "" {
			t.Errorf("nothing is dropped:\n%s", log.String())
		}
		drop(5)
		if synctest.Wait(); log.String() != "" {
			t.Errorf("it does not wait for more:\n%s", log.String())
		}
		time.Sleep(time.Second)
		wantLogged(1, 5)
		for range 95 { // 9.5 s
			drop(1)
			time.Sleep(100 * time.Millisecond)
		}
		wantLogged(1, 5)
		time.Sleep(time.Second)
		wantLogged(2, 100)
		drop(1)
		if err := p.Close(t.Context()); err == nil {
			t.Error("nothing was lost")
		}
		wantLogged(3, 101)
		drop(1)
		time.Sleep(time.Hour)
		wantLogged(3, 101)
		if s := p.Stats(); s.Dropped != 102 || s.DroppedByKind[lockagent.EventRequested] != 102 {
			t.Errorf("got %+v", s)
		}
	})
}

// TestStallsAreLogged has the publisher fail for an hour, for one reason after the other.
func TestStallsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, log := alonePublisher(t, Config{})
		full, gone := errors.New("full"), errors.New("gone")
		stall := func(err error, d time.Duration) {
			for range d / time.Second {
				p.stall(err)
				time.Sleep(time.Second)
			}
		}
		time.Sleep(time.Second)
		stall(full, time.Minute)
		stall(gone, time.Minute)
		for range 30 {
			p.recovered()
			stall(full, time.Second)
		}
		// One for each reason, and then one in ten seconds.
		if got := strings.Count(log.String(), "\n"); got != 2+3 {
			t.Errorf("%d lines:\n%s", got, log.String())
		}
		if err := p.Stats().Err; !errors.Is(err, full) {
			t.Errorf("got %v", err)
		}
		p.recovered()
		if err := p.Stats().Err; err != nil {
			t.Errorf("got %v", err)
		}
	})
}

// TestStallsOfManyServersAreLogged has a publisher try one server after the other for ten minutes.
func TestStallsOfManyServersAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, log := alonePublisher(t, Config{})
		time.Sleep(time.Second)
		for i := range 600 {
			p.stall(fmt.Errorf("read tcp 10.0.0.1:%d->10.0.0.%d:4222: connection refused", 40_000+i, i%3))
			time.Sleep(time.Second)
		}
		if got := strings.Count(log.String(), "\n"); got != 3 {
			t.Errorf("%d lines:\n%s", got, log.String())
		}
		for i := range 100 {
			p.stall(fmt.Errorf("reason %d", i))
			time.Sleep(quiet)
		}
		if n := len(p.stalled.logged); n != mostLogged {
			t.Errorf("it keeps %d reasons", n)
		}
	})
}

// TestRests follows when the sender would have to work.
func TestRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := alonePublisher(t, Config{})
		rests := func() time.Duration { return p.rests(time.Since(p.began)) }
		leave := func() (texts []string) {
			items, _, _ := p.leave(time.Since(p.began), nil)
			for _, it := range items {
				texts = append(texts, it.Kind.String())
			}
			return texts
		}
		woken := func() bool {
			select {
			case <-p.wake:
				return true
			default:
				return false
			}
		}
		if got := rests(); got != forEver {
			t.Errorf("rests %v", got)
		}
		now := requested(1)
		now.Time = time.Now()
		p.Record(t.Context(), now)
		if got := rests(); got != DefaultLinger || !woken() {
			t.Errorf("rests %v", got)
		}
		time.Sleep(2 * time.Millisecond)
		p.Record(t.Context(), requested(2))
		if got := rests(); got != 3*time.Millisecond || woken() {
			t.Errorf("rests %v, or was woken", got)
		}
		time.Sleep(rests())
		if got := leave(); len(got) != 1 {
			t.Errorf("%v left", got)
		}
		rests()
		p.Record(t.Context(), lockagent.Event{Kind: lockagent.EventLost, Lock: "a"})
		if got := rests(); got != 0 || !woken() {
			t.Errorf("rests %v", got)
		}
		if got := leave(); len(got) != 2 {
			t.Errorf("%v left", got)
		}
		if got := rests(); got != DefaultHeartbeat-5*time.Millisecond {
			t.Errorf("rests %v", got)
		}
		time.Sleep(rests())
		p.Record(t.Context(), requested(3))
		if got := leave(); len(got) != 2 || got[1] != "alive" {
			t.Errorf("%v left", got)
		}
		p.Record(t.Context(), lockagent.Event{Kind: lockagent.EventRenewed})
		if got := rests(); got != queue.RenewalDelay {
			t.Errorf("rests %v", got)
		}
		p.Record(t.Context(), lockagent.Event{Kind: 200})
		if got := rests(); got != 0 {
			t.Errorf("something was dropped, and it rests %v", got)
		}
		p.outbox.full = true
		if got := rests(); got != forEver {
			t.Errorf("there is no room, and it rests %v", got)
		}
		woken()
		p.Record(t.Context(), lockagent.Event{Kind: lockagent.EventLost, Lock: "a"})
		if woken() || len(leave()) > 0 {
			t.Error("something leaves although there is no room")
		}
	})
}

// TestFlushWaitsForAnAnswer has a request be answered while a caller waits until it is in the stream. Then the answer
// tells of it.
func TestFlushWaitsForAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := alonePublisher(t, Config{})
		p.done = make(chan signal)
		p.Record(t.Context(), eventstest.Step(lockagent.EventRequested, "a", 1))
		flushed := make(chan error, 1)
		go func() { flushed <- p.Flush(t.Context()) }()
		synctest.Wait()
		p.Record(t.Context(), eventstest.Step(lockagent.EventRequested, "b", 2)) // nobody waits for this one
		p.Record(t.Context(), eventstest.Step(lockagent.EventGranted, "a", 1))
		p.Record(t.Context(), eventstest.Step(lockagent.EventRequested, "c", 3))
		p.Record(t.Context(), eventstest.Step(lockagent.EventGranted, "c", 3))
		settle := func(n int) { // the first n records leave, and the stream takes them
			items := p.queue.Take(time.Hour, n, nil)
			packer := queue.NewPacker(p.cfg.Agent, 1, p.cfg.Prefix)
			p.arrive(packer.Pack(items, events.Drops{}, items[0].Order, time.Now()))
			p.mu.Lock()
			defer p.mu.Unlock()
			p.outbox.begin()
			for m, i := p.outbox.take(); m != nil; m, i = p.outbox.take() {
				_, _ = p.outbox.settle(i)
			}
			p.endFlushes()
		}
		over := func() bool {
			synctest.Wait()
			return len(flushed) > 0
		}
		settle(1)
		if over() {
			t.Error("the grant is not in the stream")
		}
		settle(1)
		if !over() {
			t.Error("the grant is in the stream")
		}
		if err := <-flushed; err != nil {
			t.Error(err)
		}
	})
}

// TestAliveSoon has an agent do nothing but renew, or tell the time of its store, in virtual time. Nothing
// but that wakes the sender.
func TestAliveSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := alonePublisher(t, Config{Heartbeat: 3 * time.Second})
		s := newSender(p)
		s.begun = true
		var sent []time.Duration
		s.post = func(*nats.Msg) error {
			sent = append(sent, time.Since(p.began))
			n := uint64(len(sent))
			s.settleBy(0, n-1, answered{Seq: n}, nil)
			return nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		s.end = func(err error) { t.Error(err) }
		ended := make(chan error)
		go func() { ended <- s.send(ctx) }()
		synctest.Wait()
		p.Record(t.Context(), lockagent.Event{Kind: lockagent.EventAlive, StoreTime: 7, Time: time.Now()})
		time.Sleep(3*time.Second + 500*time.Millisecond)
		p.Record(t.Context(), lockagent.Event{
			Kind: lockagent.EventRenewed, Lock: "a", Tenure: 1, StoreTime: 9, Time: time.Now(),
		})
		time.Sleep(1200 * time.Millisecond)
		cancel()
		<-ended
		if want := []time.Duration{3 * time.Second, 4500 * time.Millisecond}; !slices.Equal(sent, want) {
			t.Errorf("it tells that it is alive at %v, want %v", sent, want)
		}
	})
}

// TestAlive has a publisher say that its agent runs.
func TestAlive(t *testing.T) {
	t.Parallel()
	c := Connection{InProcess: natstest.Start(t, natsserver.Config{})}
	p := newPublisher(t, Config{Connection: c, Heartbeat: minHeartbeat})
	p.Record(t.Context(), lockagent.Event{Kind: lockagent.EventAgentStarted, Store: "s"})
	grant := eventstest.Step(lockagent.EventGranted, "a", 1)
	grant.How = lockagent.ByStore
	p.Record(t.Context(), grant)
	flushed(t, p)
	waittest.Until(t, "it says so twice", func() bool { return p.Stats().Records >= 4 })
	p.Record(t.Context(), lockagent.Event{Kind: lockagent.EventAgentStopped})
	if err := p.Close(waittest.Context(t)); err != nil {
		t.Fatal(err)
	}
	all := written(t, c, "")
	for i, r := range all[2 : len(all)-1] {
		if r.Kind != lockagent.EventAlive || r.Seq != uint64(i)+3 || r.Count != 1 || r.Store != "s" || r.StoreTime < 7 {
			t.Errorf("got %+v", r)
		}
	}
	if last := all[len(all)-1]; last.Kind != lockagent.EventAgentStopped {
		t.Errorf("the last is %+v", last)
	}
}
