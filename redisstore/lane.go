package redisstore

import (
	"context"
	"errors"
	"fmt"
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
	// done is called once, with the reply or an error of the lockagent package.
	done func(reply rueidis.RedisMessage, err error)
}

// lane carries calls to the server. Those that arrive while others are under way
// gather and travel together afterwards; one that arrives alone leaves at once.
// One goroutine serves a lane, however many calls there are.
type lane struct {
	client rueidis.Client
	life   context.Context // done when the store is closed
	bound  time.Duration   // of a call, from when it was made
	// silence is called when an exchange had no answer, with how long that is.
	silence func(time.Duration)

	mu     sync.Mutex // guards what follows
	work   sync.Cond  // signals that queue is not empty, or closed true
	queue  []*call
	closed bool
}

func newLane(life context.Context, client rueidis.Client, bound time.Duration, silence func(time.Duration)) *lane {
	l := &lane{client: client, life: life, bound: bound, silence: silence}
	l.work.L = &l.mu
	return l
}

// send takes a call. It does not wait.
func (l *lane) send(c *call) {
	c.made = time.Now()
	l.mu.Lock()
	closed := l.closed
	if !closed {
		l.queue = append(l.queue, c)
	}
	l.mu.Unlock()
	if closed {
		c.done(rueidis.RedisMessage{}, lockagent.ErrClosed)
		return
	}
	l.work.Signal()
}

// close answers the calls that wait. Those under way end when life is done, and
// run after them.
func (l *lane) close() {
	l.mu.Lock()
	l.closed = true
	waiting := l.queue
	l.queue = nil
	l.mu.Unlock()
	l.work.Signal()
	for _, c := range waiting {
		c.done(rueidis.RedisMessage{}, lockagent.ErrClosed)
	}
}

// run serves the lane until it is closed.
func (l *lane) run() {
	var batch []*call
	for l.next(&batch) {
		if batch = l.dropStale(batch); len(batch) > 0 {
			l.exchange(batch)
		}
		clear(batch[:cap(batch)]) // let go of what was answered
	}
}

// next waits for calls and moves them into batch. It reports false if the lane
// is closed.
func (l *lane) next(batch *[]*call) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) == 0 && !l.closed {
		l.work.Wait()
	}
	n := min(len(l.queue), maxBatch)
	*batch = append((*batch)[:0], l.queue[:n]...)
	rest := copy(l.queue, l.queue[n:])
	clear(l.queue[rest:])
	l.queue = l.queue[:rest]
	return !l.closed
}

// dropStale answers the calls that waited for half of the bound already. The
// exchange has the other half, so that each call is answered within the bound.
func (l *lane) dropStale(batch []*call) []*call {
	now := time.Now()
	fresh := batch[:0]
	for _, c := range batch {
		if now.Sub(c.made) > l.bound/2 {
			c.done(rueidis.RedisMessage{}, fmt.Errorf("%w: waited for %v behind calls without an answer", lockagent.ErrStoreUnavailable, l.bound/2))
			continue
		}
		fresh = append(fresh, c)
	}
	return fresh
}

// exchange sends the calls in one go, and answers them.
func (l *lane) exchange(batch []*call) {
	ctx, cancel := context.WithTimeout(l.life, l.bound/2)
	defer cancel()
	commands := make(rueidis.Commands, len(batch))
	for i, c := range batch {
		commands[i] = c.script.byDigest(l.client.B(), c.keys, c.args)
	}
	replies := l.client.DoMulti(ctx, commands...)
	l.repeatBySource(ctx, batch, replies)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		l.silence(l.bound / 4) // less than the exchange had, because it may have begun with dialling
	}
	for i, c := range batch {
		c.done(l.answer(replies[i]))
	}
}

// repeatBySource makes those calls once more whose script the server did not
// have, and puts the new replies in place of the old.
func (l *lane) repeatBySource(ctx context.Context, batch []*call, replies []rueidis.RedisResult) {
	var commands rueidis.Commands
	var places []int
	for i, c := range batch {
		if missing(replies[i]) {
			commands = append(commands, c.script.bySource(l.client.B(), c.keys, c.args))
			places = append(places, i)
		}
	}
	if len(places) == 0 {
		return
	}
	for i, reply := range l.client.DoMulti(ctx, commands...) {
		replies[places[i]] = reply
	}
}

func (l *lane) answer(reply rueidis.RedisResult) (rueidis.RedisMessage, error) {
	message, err := reply.ToMessage()
	if err != nil && l.life.Err() != nil {
		return message, lockagent.ErrClosed
	}
	return message, storeError(err)
}
