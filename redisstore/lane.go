package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockagent/lockagent"
)

// maxBatch is how many calls travel together. More would make the first of them
// wait for the replies to the last without making the rest any cheaper.
const maxBatch = 256

// call is one run of a script.
type call struct {
	script     *script
	keys, args []string
	made       time.Time
	packed     bool // made by a packer
	// done is called once, with the reply or an error of the lockagent package.
	done func(reply rueidis.RedisMessage, err error)
}

// gathered are calls that wait to travel. Those to acquire and to release a lock
// become few scripts for many locks; each of the others is one.
type gathered struct {
	acquires []acquireCall
	releases []releaseCall
	calls    []*call
}

func (g *gathered) empty() bool {
	return len(g.acquires) == 0 && len(g.releases) == 0 && len(g.calls) == 0
}

// refuse answers all of them with an error.
func (g *gathered) refuse(err error) {
	each(len(g.acquires)+len(g.releases)+len(g.calls), func(i int) {
		switch j := i - len(g.acquires); {
		case j < 0:
			g.acquires[i].done(lockagent.AcquireReply{}, err)
		case j < len(g.releases):
			g.releases[j].done(lockagent.ReleaseReply{}, err)
		default:
			g.calls[j-len(g.releases)].done(rueidis.RedisMessage{}, err)
		}
	})
}

// lane carries calls to the server. Those that arrive while others are under way
// gather and travel together afterwards; one that arrives alone leaves at once.
// One goroutine serves a lane, however many calls there are, but for callers who wait
// for the reply anyway and make an exchange themselves.
type lane struct {
	client rueidis.Client
	direct bool // the client is a direct one, and serves this lane only
	packer packer
	life   context.Context // done when the store is closed
	bound  time.Duration   // of a call, from when it was made
	quick  time.Duration   // below which an exchange is left to a caller, if the last one took so long
	dialer *dialer         // of the client's connections

	reply [1]rueidis.RedisResult // to an exchange of one command

	batch    gathered      // of the present exchange
	answered bool          // the last exchange was, so that the next need not dial first
	took     time.Duration // how long the last one took

	mu     sync.Mutex // guards what follows
	work   sync.Cond  // signals that there is something to serve, or closed true
	queue  gathered
	caller context.Context // the context of the caller who serves; nil if it has no end
	look   *time.Timer     // when to look whether it has
	busy   bool            // somebody serves, and has all above to themselves
	closed bool
}

func newLane(life context.Context, client rueidis.Client, direct bool, bound time.Duration, dialer *dialer) *lane {
	l := &lane{client: client, direct: direct, life: life, bound: bound, quick: quick, dialer: dialer}
	l.work.L = &l.mu
	return l
}

// send takes a call. It does not wait.
func (l *lane) send(c *call) {
	c.made = time.Now()
	if !put(l.life, l, &l.queue.calls, c) {
		c.done(rueidis.RedisMessage{}, lockagent.ErrClosed)
	}
}

// acquire is like send, but may leave the exchange to the caller.
func (l *lane) acquire(ctx context.Context, a acquireCall) {
	a.made = time.Now()
	if !put(ctx, l, &l.queue.acquires, a) {
		a.done(lockagent.AcquireReply{}, lockagent.ErrClosed)
	}
}

// release is like acquire.
func (l *lane) release(ctx context.Context, d releaseCall) {
	d.made = time.Now()
	if !put(ctx, l, &l.queue.releases, d) {
		d.done(lockagent.ReleaseReply{}, lockagent.ErrClosed)
	}
}

// put adds to one of the lane's queues. It reports false if the lane is closed.
func put[T any](ctx context.Context, l *lane, queue *[]T, c T) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	*queue = append(*queue, c)
	switch {
	case l.busy: // whoever serves sees to it
	case l.direct && l.answered && l.took < l.quick && lockagent.LeaveToCaller(ctx, l.help):
		l.busy = true
	default:
		l.work.Signal()
	}
	return true
}

// close answers the calls that wait. Those under way end when life is done, and
// run after them.
func (l *lane) close() {
	l.mu.Lock()
	l.closed = true
	waiting := l.queue
	l.queue = gathered{}
	l.mu.Unlock()
	l.work.Signal()
	waiting.refuse(lockagent.ErrClosed)
}

// run serves the lane until it is closed. If code that is called with an answer ends the
// goroutine, as a test does that fails, another one goes on.
func (l *lane) run(runs *sync.WaitGroup) {
	closed := false
	defer func() {
		if !closed {
			runs.Go(func() { l.run(runs) })
		}
	}()
	for l.next() {
		l.serve(true)
	}
	closed = true
}

// An exchange is left to a caller if the last one took less than quick. If the next one takes
// longer, and the caller loses interest, that is found out when it has taken as long as
// patience, or another time as long.
const (
	quick    = 5 * time.Millisecond
	patience = 50 * time.Millisecond
)

// help makes one exchange for a caller, for as long as that has an interest in it. If the
// caller's context ends while the server is silent, the connection is given up: that is for
// all whose calls travel together as if it had been lost.
func (l *lane) help(caller context.Context) {
	if caller.Done() != nil {
		l.attend(caller)
	}
	l.serve(false)
}

// attend has the interest of a caller looked at from time to time, until served is called.
func (l *lane) attend(caller context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.caller = caller
	if l.look == nil { // made once: callers come often, and seldom leave
		l.look = time.AfterFunc(patience, l.lookAtCaller)
	} else {
		l.look.Reset(patience)
	}
}

func (l *lane) lookAtCaller() {
	l.mu.Lock()
	defer l.mu.Unlock() // not before, or this may be about another exchange
	if l.caller == nil {
		return
	}
	if l.caller.Err() != nil {
		l.dialer.interrupt()
	}
	l.look.Reset(patience)
}

// next waits until there is something to serve that nobody serves, and makes the lane
// busy. It reports false if the lane is closed.
func (l *lane) next() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for (l.busy || l.queue.empty()) && !l.closed {
		l.work.Wait()
	}
	l.busy = true
	return !l.closed
}

// serve makes one exchange with the calls that wait. Only one at a time may do so,
// who has made the lane busy. If it may not dial and has to, the calls go on waiting.
func (l *lane) serve(mayDial bool) {
	l.mu.Lock()
	l.batch.acquires = take(&l.queue.acquires, l.batch.acquires)
	l.batch.releases = take(&l.queue.releases, l.batch.releases)
	l.batch.calls = take(&l.queue.calls, l.batch.calls)
	l.mu.Unlock()
	// These happen also if code that is called with an answer ends the goroutine.
	defer l.served()
	defer func() {
		if !l.batch.empty() {
			l.exchange(l.packer.pack(&l.batch), mayDial)
		}
	}()
	l.batch.dropStale(l.bound / 2)
}

// served lets go of what was answered, which may be all that keeps much memory of the
// agent, and of the lane.
func (l *lane) served() {
	clear(l.batch.acquires)
	clear(l.batch.releases)
	clear(l.batch.calls)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy = false
	if l.caller != nil {
		l.caller = nil
		l.look.Stop()
	}
	if !l.queue.empty() {
		l.work.Signal()
	}
}

// putBack has the calls of the batch wait once more, before those that came after them.
func (l *lane) putBack() {
	l.mu.Lock()
	if l.closed { // nobody serves them any more
		l.mu.Unlock()
		l.batch.refuse(lockagent.ErrClosed)
		return
	}
	defer l.mu.Unlock()
	l.queue.acquires = append(slices.Clone(l.batch.acquires), l.queue.acquires...)
	l.queue.releases = append(slices.Clone(l.batch.releases), l.queue.releases...)
	l.queue.calls = append(slices.Clone(l.batch.calls), l.queue.calls...)
}

// take moves at most maxBatch calls out of a queue, in place of an earlier batch.
// It lets go of what it moves from and to.
func take[T any](queue *[]T, batch []T) []T {
	clear(batch)
	if len(*queue) <= maxBatch {
		taken := *queue
		*queue = batch[:0]
		return taken
	}
	batch = append(batch[:0], (*queue)[:maxBatch]...)
	rest := copy(*queue, (*queue)[maxBatch:])
	clear((*queue)[rest:])
	*queue = (*queue)[:rest]
	return batch
}

// dropStale answers the calls that waited for half of the bound already. The
// exchange has the other half, so that each call is answered within the bound.
func (g *gathered) dropStale(wait time.Duration) {
	var stale gathered
	oldest := time.Now().Add(-wait)
	drop(&g.acquires, &stale.acquires, func(a *acquireCall) bool { return a.made.Before(oldest) })
	drop(&g.releases, &stale.releases, func(d *releaseCall) bool { return d.made.Before(oldest) })
	drop(&g.calls, &stale.calls, func(c **call) bool { return (*c).made.Before(oldest) })
	if !stale.empty() {
		stale.refuse(fmt.Errorf("%w: waited for %v behind calls without an answer", lockagent.ErrStoreUnavailable, wait))
	}
}

// drop moves the stale calls, which come first: calls are in the order in which
// they were made, but for a few that met in send.
func drop[T any](from, to *[]T, stale func(*T) bool) {
	n := 0
	for n < len(*from) && stale(&(*from)[n]) {
		n++
	}
	if n > 0 {
		*to = append(*to, (*from)[:n]...)
		*from = slices.Delete(*from, 0, n)
	}
}

// exchange sends the calls in one go, and answers them.
func (l *lane) exchange(batch []*call, mayDial bool) {
	began := time.Now()
	deadline := began.Add(l.bound / 2)
	ctx, cancel := l.within(deadline)
	defer cancel()
	commands := make([]rueidis.Completed, len(batch))
	for i, c := range batch {
		commands[i] = c.script.byDigest(l.client.B(), c.keys, c.args)
	}
	replies := l.do(ctx, commands)
	if errors.Is(replies[0].Error(), errUnsent) {
		if !mayDial {
			l.answered = false
			l.putBack()
			return
		}
		replies = l.do(ctx, commands) // with another connection
	}
	l.repeatBySource(ctx, batch, replies)
	l.answered = replies[len(replies)-1].NonRedisError() == nil
	l.took = time.Since(began)
	if l.took >= l.bound/2 {
		l.dialer.cutSilent(l.bound / 4) // less than the exchange had, because it may have begun with dialling
	}
	each(len(batch), func(i int) { batch[i].done(l.answer(replies[i])) })
}

// each answers all of n, one after the other, also if one of them ends the goroutine.
func each(n int, answer func(i int)) {
	i := 0
	defer func() {
		if rest := i + 1; rest < n {
			each(n-rest, func(i int) { answer(rest + i) })
		}
	}()
	for ; i < n; i++ {
		answer(i)
	}
}

// within returns a context that ends at a time.
func (l *lane) within(deadline time.Time) (context.Context, context.CancelFunc) {
	if !l.direct {
		return context.WithDeadline(l.life, deadline)
	}
	return &timed{l.life, deadline}, func() {}
}

// do makes commands. They may not be used any more unless they failed.
func (l *lane) do(ctx context.Context, commands []rueidis.Completed) []rueidis.RedisResult {
	if len(commands) > 1 {
		return l.client.DoMulti(ctx, commands...)
	}
	l.reply[0] = l.client.Do(ctx, commands[0])
	return l.reply[:]
}

// repeatBySource makes those calls once more whose script the server did not
// have, and puts the new replies in place of the old. If one fails, so do the rest.
func (l *lane) repeatBySource(ctx context.Context, batch []*call, replies []rueidis.RedisResult) {
	for i, c := range batch {
		if missing(replies[i]) {
			replies[i] = l.client.Do(ctx, c.script.bySource(l.client.B(), c.keys, c.args))
			if replies[i].NonRedisError() != nil {
				for rest := i + 1; rest < len(replies); rest++ {
					replies[rest] = replies[i]
				}
				return
			}
		}
	}
}

func (l *lane) answer(reply rueidis.RedisResult) (rueidis.RedisMessage, error) {
	message, err := reply.ToMessage()
	if err != nil && l.life.Err() != nil {
		return message, lockagent.ErrClosed
	}
	return message, storeError(err)
}
