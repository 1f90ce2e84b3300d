package lockstate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// latchVariants are the worlds to explore: what may happen, and the count at the beginning.
var latchVariants = []struct {
	name  string
	left  latchChances
	count int
}{
	{"counted down", latchChances{asks: 2, order: 3, downs: 2, cancels: 1}, 2},
	{"from nothing", latchChances{asks: 1, order: 3, sets: 1, downs: 2}, 0},
	{"lossy", latchChances{asks: 1, order: 3, lost: 2, downs: 1}, 1},
	{"counted down by outsiders", latchChances{asks: 1, order: 3, lost: 1, outside: 1}, 1},
	{"deleted", latchChances{asks: 1, order: 3, lost: 1, deletes: 1, cancels: 1}, 1},
	{"set again", latchChances{asks: 1, order: 2, lost: 1, sets: 2, downs: 2, outside: 1, deletes: 1}, 1},
	{
		"a bad day",
		latchChances{asks: 1, order: 3, lost: 1, refused: 1, resets: 1, forgets: 1, sets: 1, downs: 1, outside: 1},
		1,
	},
	{"closed", latchChances{asks: 2, order: 3, lost: 1, downs: 1, closed: 2}, 1},
}

func TestSmallWorldOfALatch(t *testing.T) { exploreLatch(t, few) }

func exploreLatch(t *testing.T, most int) {
	collectSeldom(t)
	for _, v := range latchVariants {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			e := latchExploration{t: t, count: v.count, left: v.left}
			e.run(newLatchWorld(v.left, v.count), most)
		})
	}
}

func TestLongWalksThroughTheSmallWorldOfALatch(t *testing.T) { walkLatch(t, walks) }

func walkLatch(t *testing.T, times uint64) {
	collectSeldom(t)
	for _, v := range latchVariants {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			for _, n := range v.left.all() {
				*n *= 20
			}
			v.left.closed /= 20 // nothing happens after that
			e := latchExploration{t: t, count: v.count, left: v.left}
			for seed := range times {
				e.walk(newLatchWorld(v.left, v.count), rand.New(rand.NewPCG(seed, 0)), 400)
			}
		})
	}
}

// latchExploration is the search through the worlds of a latch, see [exploration].
type latchExploration struct {
	t     *testing.T
	count int
	left  latchChances
}

func (e *latchExploration) run(w *latchWorld, most int) {
	k := newKeyer()
	seen := map[uint64]bool{w.key(k): true}
	depth, steps := 0, 0
	for edge := []*latchWorld{w}; len(edge) > 0; depth++ {
		var next []*latchWorld
		for _, from := range edge {
			for _, d := range from.actions() {
				w := from.clone()
				w.do(d)
				steps++
				e.look(w)
				if key := w.key(k); !seen[key] {
					seen[key] = true
					next = append(next, w)
					if len(seen)%8 == 0 {
						e.finish(w, latchEndings[len(seen)/8%len(latchEndings)])
					}
				}
				if len(seen) >= most {
					e.t.Logf("%d states, %d steps; all that %d actions can lead to", len(seen), steps, depth)
					return
				}
			}
		}
		edge = next
	}
	e.t.Logf("%d states, %d steps, and that is all there is", len(seen), steps)
}

func (e *latchExploration) walk(w *latchWorld, rnd *rand.Rand, length int) {
	for range length {
		choice := w.actions()
		if len(choice) == 0 {
			break
		}
		d := choice[rnd.IntN(len(choice))]
		if errand, busy := w.errand(); busy && rnd.IntN(2) == 0 {
			d = errand
		}
		w.do(d)
		e.look(w)
	}
	for _, end := range latchEndings {
		e.finish(w, end)
	}
}

// look ends the test with the actions that led to a violation.
func (e *latchExploration) look(w *latchWorld) {
	if w.problem == "" {
		return
	}
	var path []action
	for p := w.past; p != nil; p = p.before {
		path = append(path, p.by)
	}
	slices.Reverse(path)
	var story strings.Builder
	again := newLatchWorld(e.left, e.count)
	again.log = func(line string) { fmt.Fprintln(&story, line) }
	for _, d := range path {
		again.log(again.describe(d))
		again.do(d)
	}
	e.t.Fatalf("%s\n%s", w.problem, story.String())
}

// latchEndings are the ways for a world to come to rest: whoever waits gives up, the latch is counted down to 0 or
// deleted, or both agents are closed.
var latchEndings = []actionKind{doCancel, doDown, doDownOutside, doDelete, doClose}

// finish brings a world to rest and looks whether everybody has an answer there.
func (e *latchExploration) finish(w *latchWorld, end actionKind) {
	w = w.clone()
	for range 200 {
		d, ok := w.errand()
		if !ok {
			d, ok = w.leaving(end)
		}
		if !ok {
			d = action{kind: doWait}
			_, ok = w.next()
		}
		if !ok {
			break
		}
		w.do(d)
		e.look(w)
	}
	for i := range w.agents {
		if a := &w.agents[i]; len(a.ledger.waiting) > 0 || !a.l.Idle() {
			w.fail("agent %d does not come to rest", i+1)
		}
	}
	e.look(w)
}

// leaving is what somebody does next who wants the world to come to rest.
func (w *latchWorld) leaving(end actionKind) (action, bool) {
	for i := range w.agents {
		a := &w.agents[i]
		waits := len(a.ledger.waiting) > 0
		switch end {
		case doCancel:
			if waits {
				return action{kind: end, a: uint8(i)}, true
			}
		case doClose:
			if !a.ledger.closed {
				return action{kind: end, a: uint8(i)}, true
			}
		default:
			if waits && w.count > 0 {
				return action{kind: end}, true
			}
		}
	}
	return action{}, false
}

// errand is the next thing that happens by itself, see [world.errand].
func (w *latchWorld) errand() (action, bool) {
	for i := range w.agents {
		if d, ok := w.errandOf(i); ok {
			return d, true
		}
	}
	return action{}, false
}

// errandOf is the next that concerns one agent.
func (w *latchWorld) errandOf(i int) (action, bool) {
	for at := range w.calls {
		switch c := &w.calls[at]; {
		case c.agent != i || c.zombie:
		case c.executed:
			return action{kind: doReply, a: uint8(at)}, true
		default:
			return action{kind: doExecute, a: uint8(at)}, true
		}
	}
	a := &w.agents[i]
	return a.errand(&a.l, uint8(i), len(a.inbox) > 0, w.now)
}

// actions are what can happen next.
func (w *latchWorld) actions() (out []action) {
	errand, busy := w.errand()
	add := func(may bool, k actionKind, a, b int) {
		d := action{k, uint8(a), uint8(b)}
		n := w.left.of(d)
		if may && (n == nil || *n > 0) && (!busy || d == errand || w.left.order > 0) {
			out = append(out, d)
		}
	}
	for p := range latchPeople {
		who := &latchPeople[p]
		waits := slices.ContainsFunc(w.agents[who.agent].ledger.waiting, func(r Request) bool { return r.Owner == who.owner })
		add(w.asked[p] < w.left.asks && !waits, doAsk, p, 0)
	}
	due := false
	for i := range w.agents {
		a := &w.agents[i]
		for b := range a.ledger.waiting {
			add(true, doCancel, i, b)
		}
		at, ok := a.l.Alarm()
		tick := ok && at <= w.now
		due = due || tick
		add(a.l.Listening() && !a.subscribed, doSubscribe, i, 0)
		add(a.waking, doWake, i, 0)
		add(len(a.inbox) > 0, doHear, i, 0)
		add(len(a.inbox) > 0, doMissMessage, i, 0)
		add(a.subscribed, doInterrupt, i, 0)
		add(a.missing, doTellMissed, i, 0)
		add(len(a.ledger.waiting) > 0, doOtherMissed, i, 0)
		add(a.resetting, doNews, i, 0)
		add(tick, doTick, i, 0)
		add(!a.ledger.closed, doClose, i, 0)
	}
	for i := range w.calls {
		c := &w.calls[i]
		add(!c.executed, doExecute, i, 0)
		add(c.executed, doReply, i, 0)
		add(c.executed && !c.zombie, doReplyTwice, i, 0)
		add(!c.zombie, doLose, i, 0)
		add(!c.executed && !c.zombie, doRefuse, i, 0)
	}
	add(w.count == 0, doSet, 0, 0)
	add(w.count == 0, doSet, 1, 0)
	add(w.count > 0, doDown, 0, 0)
	add(w.count > 0, doDownOutside, 0, 0)
	add(w.count > 0, doDelete, 0, 0)
	add(w.count > 0, doReset, 0, 0)
	add(w.opened, doForget, 0, 0)
	_, more := w.next()
	add(more && !due, doWait, 0, 0)
	return out
}

// next is the next instant at which an agent wants a tick.
func (w *latchWorld) next() (Instant, bool) {
	next := never
	for i := range w.agents {
		if at, ok := w.agents[i].l.Alarm(); ok && at > w.now {
			next = min(next, at)
		}
	}
	return next, next != never
}

// of is the bound on an action, or nil.
func (c *latchChances) of(d action) *int {
	switch d.kind {
	case doLose, doReplyTwice, doMissMessage, doInterrupt, doOtherMissed:
		return &c.lost
	case doRefuse:
		return &c.refused
	case doCancel:
		return &c.cancels
	case doClose:
		return &c.closed
	case doSet:
		return &c.sets
	case doDown:
		return &c.downs
	case doDownOutside:
		return &c.outside
	case doDelete:
		return &c.deletes
	case doReset:
		return &c.resets
	case doForget:
		return &c.forgets
	}
	return nil
}

// all are all bounds.
func (c *latchChances) all() []*int {
	return []*int{
		&c.asks, &c.order, &c.lost, &c.refused, &c.cancels, &c.closed, &c.sets, &c.downs, &c.outside, &c.deletes, &c.resets,
		&c.forgets,
	}
}

// describe says what an action is, in the world before it.
func (w *latchWorld) describe(d action) string {
	names := map[actionKind]string{
		doCancel: "cancel", doExecute: "question executed", doReply: "reply", doReplyTwice: "reply for the first time",
		doLose: "reply lost", doRefuse: "refused",
		doSubscribe: "subscribed", doWake: "woken", doHear: "hears", doMissMessage: "does not hear",
		doInterrupt: "interrupted", doTellMissed: "told so", doOtherMissed: "told that messages were missed",
		doTick: "tick", doWait: "time goes on", doClose: "close", doNews: "hears of the reset", doReset: "store forgets",
		doSet: "set", doDown: "count down",
		doDownOutside: "an outsider counts down", doDelete: "delete", doForget: "note forgotten",
	}
	if d.kind == doAsk {
		return fmt.Sprintf("%4v  %s asks", time.Duration(w.now), latchPeople[d.a].owner)
	}
	return fmt.Sprintf("%4v  (count %d) %s %d %d", time.Duration(w.now), w.count, names[d.kind], d.a, d.b)
}
