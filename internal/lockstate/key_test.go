package lockstate

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/maphash"
	"slices"
	"time"

	"github.com/lockagent/lockagent"
)

// keyer finds out whether two worlds are the same in everything that can matter later. Instants
// count from now, and all past instants are the same. Of numbers and tokens only the order counts.
type keyer struct {
	seed    maphash.Seed
	buf     []byte
	numbers [3][]uint64 // of tenures, for each agent, sorted
	tokens  []lockagent.Token
}

func newKeyer() *keyer { return &keyer{seed: maphash.MakeSeed()} }

func (k *keyer) int(i int64) { k.buf = binary.AppendVarint(k.buf, i) }

func (k *keyer) flags(flags ...bool) {
	var bits int64
	for _, f := range flags {
		bits <<= 1
		if f {
			bits |= 1
		}
	}
	k.int(bits)
}

// until is an instant in the future, or -1 if it is past.
func (k *keyer) until(i, now Instant) { k.int(max(int64(i.Sub(now)), -1)) }

// since is how long ago an instant was, up to the time that matters.
func (k *keyer) since(i, now Instant, matters time.Duration) { k.int(int64(min(now.Sub(i), matters))) }

func (k *keyer) number(agent int, n uint64) {
	i, _ := slices.BinarySearch(k.numbers[agent], n)
	k.int(int64(i))
}

func (k *keyer) token(t lockagent.Token) {
	i, _ := slices.BinarySearch(k.tokens, t)
	k.int(int64(i))
}

// collect finds the numbers and tokens that are in use.
func (k *keyer) collect(w *world) {
	k.tokens = append(k.tokens[:0], w.last.all, w.last.exclusive, w.store.guard, lockagent.Token(w.storeTime()))
	for i, a := range w.agents {
		k.numbers[i] = append(append(k.numbers[i][:0], 0), a.told...)
		for _, s := range a.parts {
			k.numbers[i] = append(
				k.numbers[i], s.attempt.number, s.attempt.ghost, s.attempt.disowned, s.tenure.number,
			)
			k.tokens = append(k.tokens, s.tenure.next(), s.tenure.last, s.floor)
			if o := s.attempt.offer; o != nil {
				k.tokens = append(k.tokens, o.Token)
			}
		}
		if f := a.fair; f != nil {
			k.tokens = append(k.tokens, f.floor)
		}
		for _, c := range a.inbox {
			number, token := about(c)
			k.numbers[i] = append(k.numbers[i], number)
			k.tokens = append(k.tokens, token)
		}
		if w.left.kills > 0 {
			k.tokens = append(k.tokens, a.journal.Floor)
		}
		for j := range a.journal.Tenures {
			t := &a.journal.Tenures[j]
			k.numbers[i] = append(k.numbers[i], t.Number)
			k.tokens = append(k.tokens, t.First+lockagent.Token(t.Holds), t.Last)
		}
	}
	for _, list := range [][]seat{w.store.holders, w.store.queue, {w.store.ghost}} {
		for _, t := range list {
			k.numbers[t.agent] = append(k.numbers[t.agent], t.number)
		}
	}
	for _, list := range [][]tenureID{w.store.withdrawn, w.store.excused} {
		for _, t := range list {
			k.numbers[t.agent] = append(k.numbers[t.agent], t.number)
		}
	}
	for i := range w.calls {
		c := &w.calls[i]
		k.numbers[c.agent] = append(k.numbers[c.agent], c.number)
		k.tokens = append(k.tokens, c.acquire.Token, c.token)
	}
	for i := range k.numbers {
		slices.Sort(k.numbers[i])
		k.numbers[i] = slices.Compact(k.numbers[i])
	}
	slices.Sort(k.tokens)
	k.tokens = slices.Compact(k.tokens)
}

func (k *keyer) key(w *world) uint64 {
	k.collect(w)
	k.buf = k.buf[:0]
	for _, n := range w.asked {
		k.int(int64(n))
	}
	l := &w.left
	for _, n := range [...]int{
		l.lost, l.refused, l.order, l.late, l.broken, l.resets, l.ghosts, l.steps, l.crashes, l.restart, l.kills, l.gone,
		l.closed, l.cancels, l.outside, l.unseats, l.turns,
	} {
		k.int(int64(n))
	}
	k.flags(
		w.lateNow, w.dropped, w.missed, w.blank, w.haunted, w.slow, w.fair && w.strays, w.store.announced, w.store.open,
		w.store.turn,
	)
	k.token(w.last.all)
	k.token(w.last.exclusive)
	k.token(w.store.guard)
	k.token(lockagent.Token(w.storeTime()))
	k.store(w)
	for i, a := range w.agents {
		k.agent(i, a, w)
	}
	k.calls(w)
	return maphash.Bytes(k.seed, k.buf)
}

// about is the tenure and the token of a message.
func about(c Command) (number uint64, token lockagent.Token) {
	switch c := c.(type) {
	case Passed:
		return c.Tenure, c.Token
	case Standby:
		return c.Tenure, 0
	case Wanted:
		return c.Tenure, 0
	case Broken:
		return c.Tenure, 0
	}
	return 0, 0
}

func (k *keyer) store(w *world) {
	m, now := &w.store, w.now
	k.int(int64(len(m.holders)))
	for i := range m.holders {
		k.seat(&m.holders[i], now)
	}
	for agent := range k.numbers { // sorted, as the lists are in the order of events
		for _, n := range k.numbers[agent] {
			t := tenureID{agent, n}
			k.flags(slices.Contains(m.withdrawn, t), slices.Contains(m.excused, t))
		}
	}
	k.int(int64(m.announcedOf))
	k.int(int64(m.outsiders))
	k.until(m.kept, now)
	if m.outsiders > 0 {
		k.since(m.arrival, now, longestUnaware+1)
	}
	k.int(int64(len(m.queue)))
	for i := range m.queue {
		k.seat(&m.queue[i], now)
	}
	if w.left.ghosts > 0 {
		k.seat(&m.ghost, now)
	}
}

func (k *keyer) seat(s *seat, now Instant) {
	k.int(int64(s.agent))
	k.number(s.agent, s.number)
	k.int(int64(s.mode))
	k.int(int64(s.permits))
	k.flags(s.rests)
	k.until(s.expiry, now)
}

// clock is an instant on the store's clock that has passed.
func (k *keyer) clock(t lockagent.StoreTime, w *world) { k.int(int64(w.storeTime().Sub(t))) }

// pass is a pass that an agent may still take up. Only then do its instants matter.
func (k *keyer) pass(p *Passed, t *attempt, w *world) {
	k.token(p.Token)
	k.clock(p.At, w)
	k.flags(p.At >= t.busy.at, p.Clock == t.busy.clock, p.Clock == w.store.clockName(), p.Outsiders > 0)
}

func (k *keyer) message(i int, c Command, s *State, w *world) {
	number, _ := about(c)
	k.number(i, number)
	switch c := c.(type) {
	case Passed:
		k.int(1)
		k.pass(&c, &s.attempt, w)
	case Standby:
		k.int(2)
		k.int(int64(c.Remaining))
	case Wanted:
		k.int(3)
	case Woken:
		k.int(5)
	case Broken:
		k.int(4)
		k.flags(c.At >= s.tenure.storeTime, c.At == s.tenure.storeTime)
	}
}

func (k *keyer) agent(i int, a *agentModel, w *world) {
	k.flags(a.subscribed, a.waking, a.missing, a.resetting, a.crashed)
	k.int(int64(len(a.told)))
	for _, ghost := range a.told {
		k.number(i, ghost)
	}
	if f := a.fair; f != nil {
		k.token(f.floor)
		k.int(int64(len(f.owed)))
		k.int(int64(len(f.ghosts)))
	}
	k.int(int64(len(a.inbox)))
	for _, c := range a.inbox {
		number, _ := about(c)
		about := a.parts[0]
		for _, s := range a.parts {
			if s.has(number) {
				about = s
			}
		}
		k.message(i, c, about, w)
	}
	k.int(int64(len(a.parts)))
	for _, s := range a.parts {
		k.part(i, a, s, w)
	}
	if w.left.kills > 0 || a.doomed > 0 {
		k.int(int64(a.doomed))
		k.snapshot(i, &a.journal, w)
	}
}

// snapshot is what an agent would go on from.
func (k *keyer) snapshot(i int, n *Snapshot, w *world) {
	now := w.now
	k.token(n.Floor)
	part := func(number uint64) int {
		return slices.IndexFunc(w.agents[i].parts, func(s *State) bool { return s.part == number })
	}
	for j := range n.Requests {
		r := &n.Requests[j]
		k.buf = append(k.buf, r.Owner[0])
		k.int(int64(part(r.Part)))
		k.until(r.Fixed, now)
		known := w.agents[i].ledger.waiter(r.ID) >= 0
		if r.Tenure != 0 {
			known = w.agents[i].ledger.grant(r.ID) >= 0
		}
		k.flags(known, r.Tenure != 0, r.ClaimBy != 0)
	}
	for j := range n.Tenures {
		t := &n.Tenures[j]
		k.int(int64(part(t.Part)))
		k.number(i, t.Number)
		k.flags(t.Asks, t.Queued, t.Unanswered, t.Outsiders, t.Contested, t.Wanted, t.Mode == Shared, t.Holds > 0)
		k.since(t.Began, now, worldConfig().HandOffTime)
		k.until(t.Deadline, now)
		k.until(t.Until, now)
		k.int(int64(t.Lease))
		k.int(int64(t.Open))
		k.token(t.First + lockagent.Token(t.Holds))
		k.token(t.Last)
	}
}

// part is a part of an agent.
func (k *keyer) part(i int, a *agentModel, s *State, w *world) {
	now := w.now
	k.flags(s.contended, s.closed, s.call != 0, s.leaving.inFlight, w.fair && s.attempt.placed)
	if !w.fair {
		k.token(s.floor)
	}
	k.int(int64(s.phase))

	k.int(int64(s.requests.waiting.len()))
	upto := 0
	for r := range s.requests.waiters {
		k.buf = append(k.buf, r.Owner[0])
		k.int(int64(r.Lease))
		k.flags(r.Try, r.Session, r.Mode == Shared, r.queued, r.Arrived <= s.attempt.sent)
		if r.ID <= s.attempt.upto {
			upto++
		}
	}

	t := &s.attempt
	k.number(i, t.number)
	k.flags(t.unanswered, t.queued(), t.woken, t.doubt, t.contested, t.mode == Shared, t.offer != nil, t.rests)
	k.number(i, t.ghost)
	k.number(i, t.disowned)
	if t.notified != 0 {
		k.until(t.notified.add(recallTime), now)
		k.buf = append(k.buf, t.rival.holder...)
	}
	if t.offer != nil {
		k.pass(t.offer, t, w)
	}
	if t.queued() {
		k.int(int64(t.busy.at.Sub(storeTime(t.busy.sent).Add(w.store.ahead))))
		k.flags(t.busy.clock == w.store.clockName())
	}
	k.int(int64(t.open))
	if s.phase == asking {
		k.since(t.sent, now, t.lease)
		k.int(int64(t.lease))
		k.int(int64(upto))
	}

	switch s.phase {
	case free:
		k.until(s.notBefore, now)
		if s.contended {
			k.until(s.quietAt, now)
		}
	case sleeping:
		k.until(s.notBefore, now)
		k.until(s.retryAt, now)
		k.flags(s.failures > 0)
	case held:
		h := &s.tenure
		k.number(i, h.number)
		k.flags(
			h.unanswered, h.doubt, h.downgrading, h.outsiders, h.contested, h.joined, h.mode == Shared,
			h.storeTime == w.storeTime(), h.rests, h.resting,
		)
		k.int(int64(h.unbudgeted))
		k.since(h.budgetFrom, now, s.cfg.HandOffTime)
		if h.resting {
			k.until(s.restUntil(), now)
		}
		k.int(int64(max(s.left(now), w.least())))
		k.int(int64(h.holds))
		k.since(h.began, now, max(s.cfg.HandOffTime, s.cfg.Rest))
		k.until(h.deadline, now)
		if h.unaware() {
			k.until(h.replied.add(longestUnaware), now)
		}
		k.int(int64(h.lease))
		k.token(h.next())
		k.token(h.last)
		for g := range s.requests.grants {
			k.buf = append(k.buf, g.Owner[0])
			k.until(g.fixed, now)
			k.until(g.claimBy, now)
			k.token(g.token)
			k.flags(g.fixed != 0, g.claimBy != 0, g.Mode == Shared, a.ledger.grants[a.ledger.grant(g.ID)].reclaiming)
		}
		r := &s.renewal
		k.flags(r.inFlight, r.stale, r.failures > 0)
		k.until(r.retryAt, now)
		if r.inFlight {
			k.since(r.sent, now, r.lease)
			k.int(int64(r.lease))
		}
	case releasing:
		k.number(i, s.tenure.number)
		k.token(s.tenure.last)
		l := &s.leaving
		k.flags(s.tenure.unanswered, s.tenure.holds > 0, l.withdraws, l.inTime, l.unanswered)
		k.until(l.dropAt, now)
		if !l.inFlight {
			k.until(s.retryAt, now)
		}
	}
}

// calls writes the calls on their way, in an order that does not depend on when they were sent.
func (k *keyer) calls(w *world) {
	start := len(k.buf)
	var ends []int
	for i := range w.calls {
		c := &w.calls[i]
		k.int(int64(c.agent))
		k.int(int64(c.kind))
		k.number(c.agent, c.number)
		k.int(int64(c.lease))
		k.int(int64(c.mode))
		k.int(int64(c.permits))
		k.flags(c.executed, c.zombie, c.err != nil, errors.Is(c.err, lockagent.ErrWithdrawn),
			c.acquire.Granted, c.renew.Held, c.release.Released, c.release.Others != 0, c.release.Passed, c.queue,
			c.acquire.Queued,
			c.acquire.Outsiders > 0, c.unanswered, c.rests, c.acquire.Rests, c.acquire.HolderRests)
		k.token(c.acquire.Token)
		k.token(c.token)
		k.buf = append(k.buf, c.acquire.Holder...)
		k.int(int64(c.acquire.Remaining))
		if c.kind == callAcquire && !c.zombie {
			k.since(c.sent, w.now, c.lease)
			if c.acquire.Queued {
				k.int(int64(c.acquire.At.Sub(storeTime(c.sent).Add(w.store.ahead))))
				k.buf = append(k.buf, c.acquire.Clock...)
			}
		}
		ends = append(ends, len(k.buf))
	}
	if len(ends) < 2 {
		return
	}
	var parts [][]byte
	for i, end := range ends {
		begin := start
		if i > 0 {
			begin = ends[i-1]
		}
		parts = append(parts, slices.Clone(k.buf[begin:end]))
	}
	slices.SortFunc(parts, bytes.Compare)
	k.buf = k.buf[:start]
	for _, p := range parts {
		k.buf = append(k.buf, p...)
	}
}
