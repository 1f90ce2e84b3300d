package lockstate

import (
	"cmp"
	"iter"
	"slices"

	"github.com/lockagent/lockagent"
)

// table has the requests of one lock: those that wait, and those whose grants are held. A request has one slot, from
// its arrival to its end. Lists thread the slots. So a method looks at all requests only if it iterates over them, or
// if it looks for an owner who is no session.
//
// A pointer to a slot is valid until the table changes.
type table struct {
	slots []slot
	spare slotID // the first slot without a request; its link after leads to the next one

	waiting list // the requests that wait, in the order of their arrival, which is also that of their ids
	tries   list // those among them that do not wait for the lock
	held    list // the requests whose grants are held, in the order in which they were granted

	ids        map[RequestID]slotID             // nil while there are few
	sessions   map[lockagent.Owner]sessionSlots // that have requests
	reentering []lockagent.Owner                // the sessions that hold the lock and wait for it

	writers   int32  // how many requests that wait are exclusive
	exclusive int32  // how many grants are exclusive
	kept      int32  // how many have a kept lease
	unclaimed slotID // the oldest grant that may have to be reclaimed; those that were granted later are reclaimed later

	// The grants with fixed leases: in the order in which the leases end, and in that of the lengths that were asked
	// for.
	byEnd, byLease []slotID
}

// slot is one request in a table.
type slot struct {
	Request
	grant        // if it is held
	id    slotID // of the slot itself
	links [threads]link

	queued bool // the Queued event told that the request could not be granted at once
	held   bool // the request was granted, and does not wait any more
}

// grant is what a request got.
type grant struct {
	token   lockagent.Token
	since   Instant
	fixed   Instant // when the fixed lease ends, or 0 for a kept lease
	own     Instant // while another hold keeps the fixed lease: no end of it is earlier; or 0
	claimBy Instant // when the grant is reclaimed if nobody has received it; 0 afterwards

	// confirmed is when the store had confirmed the tenure last when the hold began. All grants of a session are one
	// hold.
	confirmed lockagent.StoreTime
}

// slotID is the number of a slot, from 1. 0 is none.
type slotID int32

// sessionSlots has the requests of one session, in the same order as the table.
type sessionSlots struct{ waiting, held list }

// list is a list of slots.
type list struct {
	first, last slotID
	n           int32
}

func (l *list) len() int { return int(l.n) }

// link leads to the neighbours of a slot in a list.
type link struct{ before, after slotID }

// thread is one of the lists that a slot is in at the same time.
type thread uint8

const (
	ofAll     thread = iota // waiting or held
	ofSession               // the same in its session
	ofTries
	threads
)

// fewRequests is how many requests are looked at one by one. It is changed by tests: their worlds have few requests.
var fewRequests = 8

// retainedSlots is the room that a lock keeps when most of its requests have gone: what append makes for 16.
const retainedSlots = 18

// at is the slot with a number, or nil.
func (t *table) at(i slotID) *slot {
	if i == 0 {
		return nil
	}
	return &t.slots[i-1]
}

func (t *table) len() int { return t.waiting.len() + t.held.len() }

// head is the request that has waited longest, or nil.
func (t *table) head() *slot { return t.at(t.waiting.first) }

// firstTry is the oldest request that does not wait for the lock, or nil.
func (t *table) firstTry() *slot { return t.at(t.tries.first) }

// last is the id of the youngest request that waits, or 0.
func (t *table) last() RequestID {
	if t.waiting.n == 0 {
		return 0
	}
	return t.at(t.waiting.last).ID
}

// firstUnclaimed is the oldest grant that may have to be reclaimed, or nil.
func (t *table) firstUnclaimed() *slot { return t.at(t.unclaimed) }

// oldest and youngest are the first and the last grant, or nil.
func (t *table) oldest() *slot   { return t.at(t.held.first) }
func (t *table) youngest() *slot { return t.at(t.held.last) }

// endsFirst, endsLast and longest are grants with fixed leases, or nil if all leases are kept: whose lease ends first,
// whose ends last, and whose request asked for the longest one.
func (t *table) endsFirst() *slot {
	if len(t.byEnd) == 0 {
		return nil
	}
	return t.at(t.byEnd[0])
}

func (t *table) endsLast() *slot {
	if len(t.byEnd) == 0 {
		return nil
	}
	return t.at(t.byEnd[len(t.byEnd)-1])
}

func (t *table) longest() *slot {
	if len(t.byLease) == 0 {
		return nil
	}
	return t.at(t.byLease[len(t.byLease)-1])
}

// shared reports whether all grants are shared.
func (t *table) shared() bool { return t.exclusive == 0 }

// find is the slot of a request, or nil.
func (t *table) find(id RequestID) *slot {
	if t.ids != nil {
		return t.at(t.ids[id])
	}
	for x := range t.waiters {
		if x.ID == id {
			return x
		}
	}
	for x := range t.grants {
		if x.ID == id {
			return x
		}
	}
	return nil
}

// findGrant is the slot of a grant, or nil.
func (t *table) findGrant(id RequestID) *slot {
	if x := t.find(id); x != nil && x.held {
		return x
	}
	return nil
}

// waiters iterates over the requests that wait.
func (t *table) waiters(yield func(*slot) bool) { t.walk(t.waiting.first, ofAll, yield) }

// grants iterates over the grants, the oldest first.
func (t *table) grants(yield func(*slot) bool) { t.walk(t.held.first, ofAll, yield) }

// grantsBackward iterates over the grants, the youngest first.
func (t *table) grantsBackward(yield func(*slot) bool) { t.walkBack(t.held.last, ofAll, yield) }

// triesUpto iterates over the requests that do not wait for the lock, up to an id.
func (t *table) triesUpto(last RequestID) iter.Seq[*slot] {
	return func(yield func(*slot) bool) {
		t.walk(t.tries.first, ofTries, func(x *slot) bool { return x.ID <= last && yield(x) })
	}
}

// waitersOf iterates over the requests of an owner that wait. If the owner is no session, it looks at all requests.
func (t *table) waitersOf(o lockagent.Owner, yield func(*slot) bool) {
	if of, ok := t.sessions[o]; ok {
		t.walk(of.waiting.first, ofSession, yield)
		return
	}
	t.walk(t.waiting.first, ofAll, func(x *slot) bool { return x.Owner != o || yield(x) })
}

// grantsOf iterates over the grants of an owner, the youngest first. If the owner is no session, it looks at all
// grants.
func (t *table) grantsOf(o lockagent.Owner, yield func(*slot) bool) {
	if of, ok := t.sessions[o]; ok {
		t.walkBack(of.held.last, ofSession, yield)
		return
	}
	t.walkBack(t.held.last, ofAll, func(x *slot) bool { return x.Owner != o || yield(x) })
}

func (t *table) walk(from slotID, k thread, yield func(*slot) bool) {
	for x := t.at(from); x != nil; x = t.at(x.links[k].after) {
		if !yield(x) {
			return
		}
	}
}

func (t *table) walkBack(from slotID, k thread, yield func(*slot) bool) {
	for x := t.at(from); x != nil; x = t.at(x.links[k].before) {
		if !yield(x) {
			return
		}
	}
}

// waits reports whether a request of an owner waits, and holds whether the owner holds the lock. If the owner is no
// session, they look at all requests.
func (t *table) waits(o lockagent.Owner) bool {
	found := false
	t.waitersOf(o, func(*slot) bool {
		found = true
		return false
	})
	return found
}

func (t *table) holds(o lockagent.Owner) bool {
	found := false
	t.grantsOf(o, func(*slot) bool {
		found = true
		return false
	})
	return found
}

// holdsBeside counts the grants of the session of a request. It is 0 if the request is of no session: its owner has
// made no other request.
func (t *table) holdsBeside(r *Request) int {
	if !r.Session {
		return 0
	}
	of := t.sessions[r.Owner]
	return of.held.len()
}

// again returns a grant that makes r a re-entry, or nil. A shared request re-enters beside any grant of
// its session, an exclusive request only if the session holds the lock alone. All grants of a session
// have the same token.
func (t *table) again(r *Request) *slot {
	if !r.Session || t.held.n == 0 || r.Mode == Exclusive && t.shared() {
		return nil
	}
	// If there is an exclusive grant, all grants are of its owner.
	return t.at(t.sessions[r.Owner].held.last)
}

// upgrades reports whether r asks for the lock alone while its session only shares it.
func (t *table) upgrades(r *Request) bool {
	return r.Mode == Exclusive && t.shared() && t.holdsBeside(r) > 0
}

// firstReentry is a request that match accepts, of a session that holds the lock and waits for it: the oldest of that
// session. It is nil if there is none.
func (t *table) firstReentry(match func(*Request) bool) (found *slot) {
	for _, o := range t.reentering {
		t.waitersOf(o, func(x *slot) bool {
			if match(&x.Request) {
				found = x
			}
			return found == nil
		})
		if found != nil {
			break
		}
	}
	return found
}

// arrive adds a request, which waits.
func (t *table) arrive(r Request) {
	x := t.room()
	x.Request = r
	t.join(&t.waiting, ofAll, x)
	if r.Mode == Exclusive {
		t.writers++
	}
	if r.Try {
		t.join(&t.tries, ofTries, x)
	}
	if r.Session {
		of := t.sessions[r.Owner]
		t.join(&of.waiting, ofSession, x)
		t.note(r.Owner, of)
	}
	switch {
	case t.ids != nil:
		t.ids[r.ID] = x.id
	case t.len() > fewRequests:
		t.ids = make(map[RequestID]slotID)
		for x := range t.waiters {
			t.ids[x.ID] = x.id
		}
		for x := range t.grants {
			t.ids[x.ID] = x.id
		}
	}
}

// grant grants a request that waits.
func (t *table) grant(x *slot, g grant) {
	of := t.sessions[x.Owner]
	t.stopWaiting(x, &of)
	x.grant, x.held, x.queued = g, true, false
	t.join(&t.held, ofAll, x)
	if x.Session {
		t.join(&of.held, ofSession, x)
		t.note(x.Owner, of)
	}
	t.count(x, 1)
	t.rank(x)
	if t.unclaimed == 0 && x.claimBy != 0 {
		t.unclaimed = x.id
	}
}

// remove removes a request that was answered, or whose hold is over.
func (t *table) remove(x *slot) {
	of := t.sessions[x.Owner]
	if x.held {
		t.stopHolding(x, &of)
	} else {
		t.stopWaiting(x, &of)
	}
	if x.Session {
		t.note(x.Owner, of)
	}
	delete(t.ids, x.ID)
	*x = slot{id: x.id}
	x.links[ofAll].after, t.spare = t.spare, x.id
	t.shrink()
}

// forgetGrants removes all grants.
func (t *table) forgetGrants() {
	for g := t.oldest(); g != nil; g = t.oldest() {
		t.remove(g)
	}
}

// stopWaiting removes a request from the lists of those that wait. of is its session, if it has one.
func (t *table) stopWaiting(x *slot, of *sessionSlots) {
	t.part(&t.waiting, ofAll, x)
	if x.Mode == Exclusive {
		t.writers--
	}
	if x.Try {
		t.part(&t.tries, ofTries, x)
	}
	if x.Session {
		t.part(&of.waiting, ofSession, x)
	}
}

// stopHolding removes a request from the lists of those that are granted.
func (t *table) stopHolding(x *slot, of *sessionSlots) {
	t.claimed(x)
	t.part(&t.held, ofAll, x)
	if x.Session {
		t.part(&of.held, ofSession, x)
	}
	t.unrank(x)
	t.count(x, -1)
}

// claimed notes that a grant is not recalled any more.
func (t *table) claimed(x *slot) {
	x.claimBy = 0
	for x := t.at(t.unclaimed); x != nil && x.claimBy == 0; x = t.at(t.unclaimed) {
		t.unclaimed = x.links[ofAll].after
	}
}

// extend moves the end of a lease, which is 0 if the lease is kept. No later end is earlier than own.
func (t *table) extend(x *slot, fixed, own Instant) {
	t.unrank(x)
	t.count(x, -1)
	x.fixed, x.own = fixed, own
	t.count(x, 1)
	t.rank(x)
}

// count takes a grant into account that comes, or one that goes.
func (t *table) count(x *slot, by int32) {
	if x.Mode == Exclusive {
		t.exclusive += by
	}
	if x.fixed == 0 {
		t.kept += by
	}
}

// rank gives a grant with a fixed lease its places among the others, and unrank takes them.
func (t *table) rank(x *slot) {
	if x.fixed != 0 {
		t.byEnd = t.insert(t.byEnd, x, compareEnds)
		t.byLease = t.insert(t.byLease, x, compareLeases)
	}
}

func (t *table) unrank(x *slot) {
	if x.fixed != 0 {
		t.byEnd = t.delete(t.byEnd, x, compareEnds)
		t.byLease = t.delete(t.byLease, x, compareLeases)
	}
}

func (t *table) insert(sorted []slotID, x *slot, compare func(x, y *slot) int) []slotID {
	if n := len(sorted); n == 0 || compare(t.at(sorted[n-1]), x) < 0 { // most often it is the last one
		return append(sorted, x.id)
	}
	return slices.Insert(sorted, t.search(sorted, x, compare), x.id)
}

func (t *table) delete(sorted []slotID, x *slot, compare func(x, y *slot) int) []slotID {
	i := t.search(sorted, x, compare)
	return slices.Delete(sorted, i, i+1)
}

func (t *table) search(sorted []slotID, x *slot, compare func(x, y *slot) int) int {
	i, _ := slices.BinarySearchFunc(sorted, x, func(i slotID, x *slot) int { return compare(t.at(i), x) })
	return i
}

func compareEnds(x, y *slot) int {
	if x.fixed != y.fixed {
		return cmp.Compare(x.fixed, y.fixed)
	}
	return cmp.Compare(x.ID, y.ID)
}

func compareLeases(x, y *slot) int {
	if x.Lease != y.Lease {
		return cmp.Compare(x.Lease, y.Lease)
	}
	return cmp.Compare(x.ID, y.ID)
}

// join adds a slot at the end of a list.
func (t *table) join(l *list, k thread, x *slot) {
	x.links[k] = link{before: l.last}
	if l.last != 0 {
		t.at(l.last).links[k].after = x.id
	} else {
		l.first = x.id
	}
	l.last = x.id
	l.n++
}

// part removes a slot from a list.
func (t *table) part(l *list, k thread, x *slot) {
	is := x.links[k]
	if is.before != 0 {
		t.at(is.before).links[k].after = is.after
	} else {
		l.first = is.after
	}
	if is.after != 0 {
		t.at(is.after).links[k].before = is.before
	} else {
		l.last = is.before
	}
	l.n--
}

// note keeps the requests of a session after a change.
func (t *table) note(o lockagent.Owner, of sessionSlots) {
	i := slices.Index(t.reentering, o)
	switch both := of.waiting.n > 0 && of.held.n > 0; {
	case both && i < 0:
		t.reentering = append(t.reentering, o)
	case !both && i >= 0:
		t.reentering = slices.Delete(t.reentering, i, i+1)
	}
	switch {
	case of == (sessionSlots{}):
		delete(t.sessions, o)
		return
	case t.sessions == nil:
		t.sessions = make(map[lockagent.Owner]sessionSlots)
	}
	t.sessions[o] = of
}

// room is a slot for a new request.
func (t *table) room() *slot {
	if x := t.at(t.spare); x != nil {
		t.spare = x.links[ofAll].after
		return x
	}
	id := slotID(len(t.slots) + 1)
	t.slots = append(t.slots, slot{id: id})
	return t.at(id)
}

// shrink gives memory back after a burst. Otherwise the room would stay for the life of the lock.
func (t *table) shrink() {
	if t.len() <= fewRequests/2 { // not at once: their number may go up and down
		t.ids = nil
	}
	if cap(t.slots) > retainedSlots && t.len() <= cap(t.slots)/4 {
		t.move(2 * t.len())
	}
}

// trim gives all memory back that a few grants do not need, if nobody waits.
func (t *table) trim() {
	if t.waiting.n == 0 && t.len() <= fewRequests && cap(t.slots) > t.len() {
		t.move(t.len())
	}
}

// move moves the requests to new room for so many.
func (t *table) move(room int) {
	old := *t
	*t = table{}
	if room > 0 {
		t.slots = make([]slot, 0, room)
	}
	for x := range old.grants {
		t.arrive(x.Request)
		t.grant(t.at(t.waiting.last), x.grant)
	}
	for x := range old.waiters {
		t.arrive(x.Request)
		t.at(t.waiting.last).queued = x.queued
	}
}
