package actor

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
)

// gate lets readers pass without a message to the actor, while other readers of this agent hold the lock
// and nobody else waits for it. For the state machine all of them together are one grant: that of
// the request which opened the gate. The machine has that grant until the last of the readers leaves.
//
//	first reader   --> actor: the store grants a tenure
//	second reader  --> actor: a grant beside the first one. It opens the gate, and is the first to pass it
//	third reader   --> gate
//	...
//	last one to leave the gate --> actor: releases the grant of the second reader
//
// So the gate decides nothing about exclusion. The actor shuts it whenever the machine would not grant
// the lock to another reader at once, such as when a writer waits. Those who have passed then leave one
// after the other.
//
// No events tell of these readers. So there is no gate if the agent has a recorder or a journal. All of them have the token of
// the grant.
type gate struct {
	request *request      // whose grant stands for all who pass; it is not over before they have left
	word    atomic.Uint64 // see below
	until   atomic.Int64  // the instant from which on nobody passes
	tells   atomic.Bool   // the next reader who passes has to tell the actor
	first   *reader       // the caller of the request; set when the grant is delivered
	passed  [passages]passage
}

// The parts of the word of a gate, from the highest bit on.
const (
	gateOpen  = 1 << 63              // the gate is open
	gateEmpty = 1 << 62              // the last reader has left for good
	gateTurns = gateEmpty - gateTurn // how often a reader came to the empty gate; it may wrap around
	gateTurn  = 1 << 32              // one of them
	gateCount = gateTurn - 1         // how many readers are inside
)

// passages is how many lists of readers a gate has, so that readers seldom wait for each other.
const passages = 16

// passage is one list of the readers inside.
type passage struct {
	mu      sync.Mutex // guards what follows
	shut    bool       // nobody is added any more
	readers []*reader
	_       [88]byte // no two passages in one cache line
}

// newGate returns a gate that is shut, with one reader inside: the caller of the request.
func newGate(r *request) *gate {
	g := &gate{request: r}
	g.word.Store(1)
	return g
}

// set opens or shuts the gate. An empty gate stays shut.
func (g *gate) set(open bool, until lockstate.Instant) {
	g.until.Store(int64(until))
	for {
		old := g.word.Load()
		word := old &^ gateOpen
		if open && old&gateEmpty == 0 {
			word |= gateOpen
		}
		if word == old || g.word.CompareAndSwap(old, word) {
			return
		}
	}
}

// enter has a reader pass. It reports false if the gate is shut.
func (g *gate) enter(owner lockagent.Owner) (*readerHandle, bool) {
	if !g.count() {
		return nil, false
	}
	if g.tells.Load() && g.tells.CompareAndSwap(true, false) {
		send(g.request.entry, &joinedMsg{})
	}
	return g.add(owner)
}

// count counts a reader who passes. It reports false if the gate is shut.
func (g *gate) count() bool {
	for {
		old := g.word.Load()
		if old&gateOpen == 0 || int64(g.request.agent.clock.now()) >= g.until.Load() {
			return false
		}
		word := old + 1
		if old&gateCount == 0 {
			word = old&^gateTurns | (old+gateTurn)&gateTurns | 1
		}
		if g.word.CompareAndSwap(old, word) {
			return true
		}
	}
}

// add adds a reader that has been counted. It reports false if all readers have lost the lock meanwhile. Then
// nobody needs the count any more.
func (g *gate) add(owner lockagent.Owner) (*readerHandle, bool) {
	r := &reader{gate: g, owner: owner, passage: &g.passed[rand.Uint32()%passages]}
	h := &readerHandle{reader: r}
	r.handle = h
	p := r.passage
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shut {
		return nil, false
	}
	r.at = len(p.readers)
	p.readers = append(p.readers, r)
	return h, true
}

// leave takes out a reader whose hold is over. It reports true to the last one. The gate is empty for good
// then, and the caller has to release the grant of the gate.
//
// While the gate is open, the last reader first lets the others run that can. If one of those enters, the lock stays held, and
// that reader will be the last. Without that, readers who hold the lock for an instant only would often leave it free
// between two of them.
func (g *gate) leave(r *reader) (last bool) {
	word := g.out(r)
	if word&gateCount > 0 {
		return false
	}
	if word&gateOpen != 0 { // otherwise a writer may wait
		runtime.Gosched()
	}
	return g.empty(word)
}

// out takes out a reader, and returns the word without it.
func (g *gate) out(r *reader) (word uint64) {
	g.remove(r)
	return g.word.Add(^uint64(0))
}

// empty makes a gate empty for good that was empty when it had a word. It reports false if somebody has come since then, and perhaps left:
// that reader lets the others run in its turn.
func (g *gate) empty(word uint64) (emptied bool) {
	for {
		now := g.word.Load()
		if now&gateCount > 0 || now&gateTurns != word&gateTurns || now&gateEmpty != 0 {
			return false
		}
		if g.word.CompareAndSwap(now, now&^gateOpen|gateEmpty) {
			return true
		}
	}
}

func (g *gate) remove(r *reader) {
	p := r.passage
	p.mu.Lock()
	defer p.mu.Unlock()
	last := p.readers[len(p.readers)-1]
	p.readers[r.at], last.at = last, r.at
	p.readers[len(p.readers)-1] = nil
	p.readers = p.readers[:len(p.readers)-1]
}

// all returns the readers inside.
func (g *gate) all() (readers []*reader) {
	for i := range g.passed {
		p := &g.passed[i]
		p.mu.Lock()
		readers = append(readers, p.readers...)
		p.mu.Unlock()
	}
	return readers
}

// lose ends the holds of all readers inside, because the grant of the gate is over. Nobody passes any more. It
// returns the readers whose holds it ended.
func (g *gate) lose(why error) (lost []*reader) {
	all := false
	defer func() {
		if !all { // a callback ended the goroutine, and the others have to learn it, too
			g.lose(why)
		}
	}()
	g.set(false, 0)
	for i := range g.passed {
		p := &g.passed[i]
		p.mu.Lock()
		p.shut = true
		p.mu.Unlock()
	}
	for _, r := range g.all() {
		if r.lose(why) {
			lost = append(lost, r)
		}
	}
	all = true
	return lost
}

// recall takes out the first reader, who has not received its grant and never will. It reports whether the gate is
// empty for good then.
func (g *gate) recall() (empty bool) { return g.leave(g.first) }

// someone is the owner of a reader inside, or empty if there is none.
func (g *gate) someone() lockagent.Owner {
	for i := range g.passed {
		p := &g.passed[i]
		p.mu.Lock()
		if len(p.readers) > 0 {
			defer p.mu.Unlock()
			return p.readers[0].owner
		}
		p.mu.Unlock()
	}
	return ""
}

// endDropped ends the holds of readers that dropped their grants. See [lock.endDropped].
func (g *gate) endDropped(warn func(lockagent.Owner)) (empty bool) {
	for _, r := range g.all() {
		switch {
		case r.handle != nil:
			runtime.AddCleanup(r.handle, func(dropped *atomic.Bool) { dropped.Store(true) }, &r.dropped)
			r.handle = nil
		case r.dropped.Load() && r.lose(g.request.lost(lockagent.LostUnclaimed)):
			warn(r.owner)
			empty = g.leave(r) || empty
		}
	}
	return empty
}
