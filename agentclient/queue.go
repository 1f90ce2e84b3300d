package agentclient

import (
	"container/list"
	"strconv"
	"time"

	"github.com/lockagent/lockagent"
)

// queue has the requests of this process that want one lock alone, in the order of their arrival. The daemon knows of
// the first one, which has a claim. When the hold of the first one ends, the next one gets that claim and holds the
// lock, and the daemon need not hear of it. So many holds cost one conversation with the daemon. The hand-off within an
// agent has the same rules:
//
//   - The daemon bounds how many holds a claim may serve, and gives each of them a token. The queue bounds for how
//     long new holds begin. Then the claim is released, and the next request asks for another one, behind those of
//     other processes.
//   - No hold begins under a claim that was released, is over, is past its deadline, or that the daemon has not
//     confirmed over the present link.
//   - Each request has a wait of its own, which the client bounds. The wait of the first may end, and then the next
//     one takes its place. So a claim that others may get has no wait. One who is alone has a claim for its own wait.
//     It leaves the queue to whoever comes while it waits.
//   - Whoever has waited for longer than [patienceInQueue] leaves the queue, and asks for a claim of its own. So where
//     holds last, the daemon knows everybody who waits, and serves all processes in the order of arrival.
//
// The mutex of the agent guards it.
type queue struct {
	agent  *agent
	of     lockName
	first  *claim
	rest   list.List   // of *claim: those who wait behind the first, and have no claim
	served bool        // the first has waited behind others
	timer  *time.Timer // for the patience of those who wait; nil until somebody has waited
	armed  bool
}

// lockName is a lock, as a queue has it.
type lockName struct {
	name lockagent.Name
	kind lockagent.LockKind
}

// Bounds of a queue.
const (
	handOnTime      = 2 * time.Millisecond
	patienceInQueue = 50 * time.Millisecond
)

// shares reports whether a request may share a claim with others: what it asks of the daemon does not differ from
// theirs. If its trace is sampled, the daemon's events of its claim belong to that trace.
func (c *claim) shares() bool {
	r, kind := &c.req, c.req.Kind.OrPlain()
	if trace := c.agent.cfg.TraceParent; trace != nil && sampled(trace(c.caller)) {
		return false
	}
	return (kind == lockagent.PlainLock || kind == lockagent.FencedLock) &&
		orExclusive(r.Mode) == lockagent.Exclusive &&
		!r.Session && !r.Try && !r.NoRest && r.Lease == 0
}

// sampled reports whether the last bit of a W3C trace context says that its trace is sampled.
func sampled(traceParent string) bool {
	if len(traceParent) < 2 {
		return false
	}
	flags, err := strconv.ParseUint(traceParent[len(traceParent)-2:], 16, 8)
	return err == nil && flags&1 == 1
}

// join puts a request in its queue. It reports false if the request has to ask for a claim. The mutex must be held, as
// for all that follows.
func (a *agent) join(c *claim) bool {
	if !c.shares() {
		return false
	}
	of := lockName{c.name, c.req.Kind.OrPlain()}
	q := a.queues[of]
	if q == nil {
		q = &queue{agent: a, of: of, first: c}
		a.queues[of], c.queue = q, q
		return false
	}
	c.queue = q
	if alone := q.first; alone.bounded && alone.stage == waiting {
		alone.queue = nil // its claim ends with its wait, so it is of no use to others
		q.first, q.served = c, true
		return false
	}
	c.place = q.rest.PushBack(c)
	q.first.warn()
	q.arm(patienceInQueue)
	return true
}

// busy reports whether a claim of the queue will serve more than one request.
func (q *queue) busy() bool { return q.served || q.rest.Len() > 0 }

// next takes the request out of the queue that waits behind the first, and makes it the first. It returns nil if there
// is none.
func (q *queue) next() *claim {
	e := q.rest.Front()
	if e == nil {
		delete(q.agent.queues, q.of)
		if q.timer != nil {
			q.timer.Stop()
		}
		q.first = nil
		return nil
	}
	c := q.rest.Remove(e).(*claim)
	c.place = nil
	q.first, q.served = c, true
	return c
}

// handOn gives the claim of c, which is over for its owner, to the next request of the queue. If c was not granted, the
// next one waits in its place. It reports false if the daemon has to hear of the end.
func (a *agent) handOn(c *claim) bool {
	q := c.queue
	if q == nil || q.first != c || q.rest.Len() == 0 || a.closed || c.over {
		return false
	}
	if waits := c.First == 0; waits && a.linked && !c.asked || !waits && !c.mayServe() {
		return false
	}
	next := q.next()
	c.queue = nil
	a.settle(c, nil)
	delete(a.claims, next.ref)
	next.ticket = c.ticket
	a.claims[next.ref] = next
	if c.First != 0 {
		next.more--
		next.hold(c.token+1, c.count, c.replicas, time.Duration(c.until.Load()))
	}
	return true
}

// mayServe reports whether another hold may begin under the claim.
func (c *claim) mayServe() bool {
	a := c.agent
	now := a.now()
	return a.linked && c.asked && c.confirmed && c.more > 0 && now < c.began+handOnTime &&
		now < time.Duration(c.until.Load())
}

// follow has the next request of the queue of c ask for a claim. That of c is over, or its release is on its way.
func (a *agent) follow(c *claim) {
	q := c.queue
	if q == nil || q.first != c {
		return
	}
	c.queue = nil
	if next := q.next(); next != nil && !a.closed {
		a.submit(next)
	}
}

// step has c, which is over, leave its queue.
func (a *agent) step(c *claim) {
	if c.place != nil {
		c.queue.rest.Remove(c.place)
		c.queue, c.place = nil, nil
		return
	}
	a.follow(c)
}

// asks is the claim that the daemon knows of, for this one.
func (c *claim) asks() *claim {
	if c.place != nil {
		return c.queue.first
	}
	return c
}

// waitsFor is who has the lock for which c waits, as far as that is known.
func (c *claim) waitsFor() string {
	if first := c.asks(); first != c && first.stage == held {
		return string(first.req.Owner)
	}
	return c.agent.holderOf(c.name, c.asks().Holder)
}

// arm has the queue look after a time for those who have waited for long.
func (q *queue) arm(after time.Duration) {
	switch {
	case q.armed:
		return
	case q.timer == nil:
		q.timer = time.AfterFunc(after, q.look)
	default:
		q.timer.Reset(after)
	}
	q.armed = true
}

// look has those ask for a claim of their own who have waited for long.
func (q *queue) look() {
	a := q.agent
	a.mu.Lock()
	defer a.mu.Unlock()
	q.armed = false
	for e := q.rest.Front(); e != nil; e = q.rest.Front() {
		c := e.Value.(*claim)
		if left := patienceInQueue - time.Since(c.begin); left > 0 {
			q.arm(left)
			return
		}
		q.rest.Remove(e)
		c.queue, c.place = nil, nil
		a.submit(c)
	}
}
