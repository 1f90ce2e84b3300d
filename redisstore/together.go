package redisstore

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/redisstore/internal/script"
	"github.com/lockagent/lockagent/redisstore/internal/transport"
)

// call is one call of the store, with a request Q and an answer A.
type call[Q, A any] struct {
	req  Q
	of   *family
	slot uint16
	done func(A, error)
}

// Refuse implements [transport.Item].
func (c *call[Q, A]) Refuse(err error) {
	var none A
	c.done(none, err)
}

type (
	acquireCall = call[lockagent.AcquireRequest, lockagent.AcquireReply]
	releaseCall = call[script.ReleaseRequest, lockagent.ReleaseReply]
)

// packer makes few scripts of many calls. Most of the work of a server is for the commands of a
// script, and little is for the locks. One script makes all Acquires of a batch that are of one kind, and
// one makes all Releases. Where slots mean something, there are two such scripts for each slot. Each
// track of a lane has a packer.
type packer struct {
	store *Store

	calls  []*transport.Call // what pack returned last
	groups []group           // of the present items, one for each kind
}

// group has the calls of one kind.
type group struct {
	of        *family
	acquiring []*acquireCall
	releasing []*releaseCall
}

// group returns the group of a kind.
func (p *packer) group(of *family) *group {
	i := slices.IndexFunc(p.groups, func(g group) bool { return g.of == of })
	if i < 0 {
		i = len(p.groups)
		p.groups = append(p.groups, group{of: of})
	}
	return &p.groups[i]
}

// pack is a [transport.Packer].
func (p *packer) pack(items []transport.Item) []*transport.Call {
	for _, i := range items {
		switch i := i.(type) {
		case *acquireCall:
			g := p.group(i.of)
			g.acquiring = append(g.acquiring, i)
		case *releaseCall:
			i.req.Subscribed = i.of.channel != nil &&
				p.store.subscriptions.Counted(i.of.channel(i.req.Name), p.store.room == script.Sharded)
			g := p.group(i.of)
			g.releasing = append(g.releasing, i)
		}
	}
	clear(p.calls)
	p.calls = p.calls[:0]
	// The releases of a kind come first, because they may free locks for the acquires.
	for i := range p.groups {
		g := &p.groups[i]
		p.calls = g.of.releases.join(p.calls, g.releasing)
		p.calls = g.of.acquires.join(p.calls, g.acquiring)
		clear(g.acquiring)
		clear(g.releasing)
		g.acquiring, g.releasing = g.acquiring[:0], g.releasing[:0]
	}
	return p.calls
}

// batches say how calls of one kind travel: acquires, releases, renewals, breaks or changes of permits. They
// are safe for concurrent use.
type batches[Q, A any] struct {
	store *Store
	// write writes the script for locks whose keys travel together.
	write func(c *script.Call, requests []Q, past script.Past)
	// read reads the reply.
	read func(reply string, past script.Past, outcomes []script.Outcome[A]) error
	// time is the store's time in an answer, and the token with which a tenure began, or 0.
	time func(*A) (lockagent.StoreTime, lockagent.Token)
	// lone says that one script serves one lock.
	lone bool
	// refused completes the error of a call. It may be nil.
	refused func(request *Q, err error) error
	// replicas is where an answer has the number of replicas that know of what was done. It is nil if
	// nobody asks.
	replicas func(*A) *int
	// look is told of the outcomes before any call is answered. epoch is that of the shard when the script was written.
	// look may be nil.
	look func(slot uint16, epoch uint64, outcomes []script.Outcome[A])

	spare sync.Pool // of *together
}

// join adds scripts that make all of the calls.
func (b *batches[Q, A]) join(into []*transport.Call, calls []*call[Q, A]) []*transport.Call {
	bySlot := func(a, b *call[Q, A]) int { return int(a.slot) - int(b.slot) }
	if !slices.IsSortedFunc(calls, bySlot) {
		slices.SortStableFunc(calls, bySlot)
	}
	for len(calls) > 0 {
		slot, n := calls[0].slot, 0
		t := b.blank(slot)
		for ; n < len(calls) && calls[n].slot == slot && (n == 0 || !b.lone); n++ {
			t.add(calls[n].req, calls[n].done)
		}
		into = append(into, t.write())
		calls = calls[n:]
	}
	return into
}

// together is one script for some calls.
type together[Q, A any] struct {
	transport.Call // in which the script travels
	by             *batches[Q, A]
	script         script.Call
	requests       []Q
	done           []func(A, error)

	looked   bool        // the store has looked at the server since the calls were made for the first time
	past     script.Past // that the script was told
	epoch    uint64      // of the shard, when the script was written
	written  time.Time   // before it was sent
	outcomes []script.Outcome[A]
}

// blank returns a script without calls.
func (b *batches[Q, A]) blank(slot uint16) *together[Q, A] {
	t, _ := b.spare.Get().(*together[Q, A])
	if t == nil {
		t = &together[Q, A]{by: b}
		t.Done = t.answer
	}
	t.Slot, t.Replicated = slot, b.replicas != nil
	return t
}

func (t *together[Q, A]) add(req Q, done func(A, error)) {
	t.requests, t.done = append(t.requests, req), append(t.done, done)
}

// giveBack keeps the memory of a script that was answered for another one.
func (t *together[Q, A]) giveBack() {
	clear(t.requests)
	clear(t.done)
	clear(t.outcomes)
	t.requests, t.done, t.looked = t.requests[:0], t.done[:0], false
	t.by.spare.Put(t)
}

// write writes the script, and returns the call in which it travels.
func (t *together[Q, A]) write() *transport.Call {
	t.past, t.epoch = t.by.store.past(t.Slot)
	t.written = time.Now()
	t.by.write(&t.script, t.requests, t.past)
	carry(&t.Call, &t.script)
	return &t.Call
}

// single returns a script for the i-th call alone.
func (t *together[Q, A]) single(i int) *together[Q, A] {
	s := t.by.blank(t.Slot)
	s.add(t.requests[i], t.done[i])
	return s
}

// answer is [transport.Call.Done]: it answers the calls of the script.
func (t *together[Q, A]) answer(r transport.Reply, err error) {
	defer t.giveBack()
	n := len(t.requests)
	if err != nil && n > 1 && script.Several(refusal(err)) {
		// One lock may have caused the error. It must not fail the others, so try each alone.
		for i := range n {
			t.by.store.lanes.Send(t.single(i).write())
		}
		return
	}
	var text string
	text, err = understood(r, err)
	if errors.Is(err, script.ErrForgotten) && !t.looked && t.by.store.incarnate() {
		t.lookFirst()
		return
	}
	if err == nil {
		t.outcomes = append(t.outcomes[:0], make([]script.Outcome[A], n)...)
		err = t.by.read(text, t.past, t.outcomes)
	}
	if grace, ok := errors.AsType[*script.GraceError](err); ok {
		store := t.by.store
		store.incarnations.refused(store.shard(t.Slot), grace, t.epoch)
	}
	if err == nil {
		t.learn()
		for i := 0; t.Replicated && i < n; i++ {
			*t.by.replicas(&t.outcomes[i].Reply) = t.Acknowledged
		}
	}
	transport.Each(n, func(i int) {
		o := script.Outcome[A]{Err: err}
		if err == nil {
			o = t.outcomes[i]
		}
		if o.Err != nil && t.by.refused != nil {
			o.Err = t.by.refused(&t.requests[i], o.Err)
		}
		t.done[i](o.Reply, o.Err)
	})
}

// lookFirst makes the calls again after the store has looked at the server, which may have forgotten everything.
func (t *together[Q, A]) lookFirst() {
	b := t.by
	again := b.blank(t.Slot)
	again.requests, again.done = append(again.requests, t.requests...), append(again.done, t.done...)
	again.looked = true
	b.store.cover(b.store.shard(t.Slot), 0, true, func(err error) {
		if err == nil {
			b.store.lanes.Send(again.write())
		} else {
			again.answer(transport.Reply{}, err)
		}
	})
}

// learn takes note of the times and tokens in the outcomes.
func (t *together[Q, A]) learn() {
	var past script.Past
	for i := range t.outcomes {
		past.Note(t.by.time(&t.outcomes[i].Reply))
	}
	store := t.by.store
	store.clocks.note(t.Slot, t.past.Incarnation, past.Seen, past.Given)
	if past.Seen > 0 {
		store.readClock(t.Slot, reading{past.Seen, t.written, time.Now()})
	}
	if t.by.look != nil {
		t.by.look(t.Slot, t.epoch, t.outcomes)
	}
}

// carry has a call carry a script.
func carry(c *transport.Call, s *script.Call) {
	c.Script, c.Keys, c.Args = (*transport.Script)(s.Script), s.Keys, s.Args
}

// refusal is the text of an error reply, or "" for any other error.
func refusal(err error) string {
	answer := transport.Refusal("")
	errors.As(err, &answer)
	return string(answer)
}

// understood returns the text of a reply, or an error of the lockagent package.
func understood(r transport.Reply, err error) (string, error) {
	if err != nil {
		if refused := script.Refused(refusal(err)); lockagent.Definite(refused) &&
			!errors.Is(err, lockagent.ErrNotPermitted) {
			return "", refused // the transport does not know the errors of scripts, but what to do about rights
		} else if grace, ok := errors.AsType[*script.GraceError](refused); ok {
			return "", grace
		} else if errors.Is(refused, script.ErrForgotten) {
			return "", refused
		}
		return "", err
	}
	text, err := r.Text()
	if err != nil {
		err = fmt.Errorf("%w: a reply that cannot be understood: %w", lockagent.ErrStoreUnavailable, err)
	}
	return text, err
}
