package sizing

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/memstore"
)

// world is a fleet at work.
type world struct {
	*testing.T
	fleet
	meter *meter
	away  atomic.Bool // Redis is
	hosts []*host

	work sync.WaitGroup
	stop context.CancelFunc
}

// host is one agent and what it does.
type host struct {
	*world
	number int
	random *rand.Rand // of the goroutine that sets the host up
	link   *link
	locks  *channelapi.Locks
	mine   []lockagent.Grant
	heir   []lockagent.Grant // of locks that another host kept; a dropped grant would be given back
}

// newWorld starts the agents of a fleet over one memory, to be measured for at most
// d. They do nothing yet.
func newWorld(t *testing.T, f fleet, d time.Duration) *world {
	t.Helper()
	w := &world{T: t, fleet: f, meter: newMeter(d)}
	memory := memstore.New()
	for i := range f.hosts {
		h := &host{world: w, number: i, random: rand.New(rand.NewPCG(1, uint64(i))), link: newLink(memory, w.meter, &w.away)}
		locks, err := channelapi.New(channelapi.Config{Store: h.link, Recorder: h, Lease: f.lease})
		if err != nil {
			t.Fatal(err)
		}
		h.locks = locks
		w.hosts = append(w.hosts, h)
	}
	return w
}

// Record counts the events that a publisher would publish.
func (h *host) Record(_ context.Context, e lockagent.Event) {
	switch {
	case h.link.dead.Load(), e.Kind == lockagent.EventRenewed: // which is off unless asked for
		return
	case e.Kind == lockagent.EventLost:
		h.meter.count(e.Lock, lost)
	}
	h.meter.count(e.Lock, fact)
}

// keep has every host acquire its locks within d: at random moments, or all at once
// if d is 0.
func (w *world) keep(d time.Duration) {
	var all sync.WaitGroup
	for _, h := range w.hosts {
		all.Go(func() { h.keep(d) })
	}
	all.Wait()
}

func (h *host) keep(d time.Duration) {
	began := time.Now()
	after := make([]time.Duration, h.fleet.locks)
	for i := range after {
		after[i] = h.moment(d)
	}
	slices.Sort(after)
	h.mine = make([]lockagent.Grant, len(after))
	for i := range after {
		pause(context.Background(), after[i]-time.Since(began))
		h.mine[i] = <-h.locks.Lock(h.name(i)).AcquireAsync(context.Background())
	}
}

func (h *host) name(i int) string {
	return fmt.Sprintf("%v/%d/%d", kept, h.number, i)
}

// moment is a random one within d, to the millisecond: a simulation has less to do
// if much happens at the same time.
func (h *host) moment(d time.Duration) time.Duration {
	if d < time.Millisecond {
		return 0
	}
	return time.Duration(h.random.Int64N(int64(d/time.Millisecond))) * time.Millisecond
}

// begin has every host do what it does beside keeping locks, until finish.
func (w *world) begin() {
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	for _, h := range w.hosts {
		first := h.moment(time.Second)
		w.work.Go(func() { h.shortHolds(ctx, first) })
	}
	for i := range w.contended {
		for n := range min(w.rivals, len(w.hosts)) {
			rival := i*w.rivals + n
			h := w.hosts[rival%len(w.hosts)]
			for u, rest := range map[use]time.Duration{now: w.rest, ever: 0} {
				name := lockagent.Name(fmt.Sprintf("%v/%d", u, i))
				random := rand.New(rand.NewPCG(uint64(u), uint64(rival)))
				w.work.Go(func() { h.compete(ctx, name, rest, random) })
			}
		}
	}
}

// shortHolds has locks for a moment each that nobody else wants.
func (h *host) shortHolds(ctx context.Context, first time.Duration) {
	const names = 10
	pause(ctx, first)
	for i := 0; ctx.Err() == nil; i++ {
		g := <-h.locks.Lock(fmt.Sprintf("%v/%d/%d", short, h.number, i%names)).AcquireAsync(ctx)
		if g.Err() != nil {
			continue // the work is over, or the host is dead
		}
		pause(ctx, h.holdTime)
		h.release(g)
		pause(ctx, time.Duration(float64(time.Second)/h.holds)-h.holdTime)
	}
}

// compete wants a lock that others want too, again and again, after a rest of about
// the given time.
func (h *host) compete(ctx context.Context, name lockagent.Name, rest time.Duration, random *rand.Rand) {
	for ctx.Err() == nil {
		pause(ctx, time.Duration(random.Int64N(int64(2*rest/time.Millisecond)+1))*time.Millisecond)
		g := <-h.locks.Lock(string(name)).AcquireAsync(ctx)
		if g.Err() != nil {
			continue
		}
		h.meter.count(name, grant)
		pause(ctx, h.holdTime)
		h.release(g)
	}
}

func (h *host) release(g lockagent.Grant) {
	// Nothing is confirmed while Redis is away.
	if err := <-g.ReleaseAsync(context.Background()); err != nil && !errors.Is(err, lockagent.ErrUnconfirmed) {
		h.Errorf("host %d: release of %s: %v", h.number, g.Name(), err)
	}
}

// pause waits for d, or until ctx is done.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// standBy has the host wait for every lock that another one keeps. The times when it
// got them come on the channel.
func (h *host) standBy(ctx context.Context, other *host) <-chan time.Time {
	got := make(chan time.Time, h.fleet.locks)
	h.heir = make([]lockagent.Grant, h.fleet.locks)
	for i := range h.fleet.locks {
		asked := h.locks.Lock(other.name(i)).AcquireAsync(ctx)
		h.work.Go(func() {
			if h.heir[i] = <-asked; h.heir[i].Err() == nil {
				got <- time.Now()
			}
		})
	}
	return got
}

// lend has another program keep all locks of the host, as an agent would.
func (h *host) lend(ctx context.Context) {
	for i := range h.fleet.locks {
		renew := func() {
			h.link.PlantHolder(lockagent.Name(h.name(i)), "0fe5bd4c-5ad5-4a0b-9d2d-96a9a4a0e5b1:77", 1, h.fleet.lease)
		}
		renew()
		first := h.moment(h.period())
		h.work.Go(func() {
			for pause(ctx, first); ctx.Err() == nil; pause(ctx, h.period()) {
				renew()
			}
		})
	}
}

// restart takes Redis away for d, and gives it back with what it had. Every agent
// notices within a second of that.
func (w *world) restart(d time.Duration) {
	w.away.Store(true)
	pause(context.Background(), d)
	w.away.Store(false)
	for _, h := range w.hosts {
		if !h.link.dead.Load() {
			time.AfterFunc(h.moment(time.Second), func() {
				h.link.onReset(lockagent.Reset{From: "first", To: "second", Reason: "restarted"})
			})
		}
	}
}

// finish ends what begin began.
func (w *world) finish() {
	if w.stop != nil {
		w.stop()
	}
	w.work.Wait()
}

// end finishes and closes the agents.
func (w *world) end() {
	w.finish()
	var all sync.WaitGroup
	for _, h := range w.hosts {
		all.Go(func() {
			if err := h.locks.Close(); err != nil && (!h.link.dead.Load() || !errors.Is(err, lockagent.ErrUnconfirmed)) {
				h.Errorf("host %d: Close: %v", h.number, err)
			}
		})
	}
	all.Wait()
}
