package lockstate

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/lockagent/lockagent"
)

// rig is a lock under test with a very simple shell: the test gives the commands and their times.
// After every step the rig checks what is true of all steps, see [rig.step].
type rig struct {
	t      rapid.TB
	s      *State
	origin *State // as it was before the first event
	now    Instant
	fresh  uint64

	events []Event  // all of them
	seen   []string // the texts of the events since the last want

	ids   map[lockagent.Owner]RequestID // of each owner's last request
	asked uint64                        // the tenure of the last store call
	token lockagent.Token               // no later tenure begins below it
	calls CallID
}

// rigConfig has a lease of 30 s, which is trusted for 28 s and renewed after 10 s. No grant is taken
// back unless a test waits for 10 hours.
func rigConfig() Config {
	return Config{
		Agent:         "this",
		Watchdog:      30 * time.Second,
		Claim:         10 * time.Hour,
		HandOffGrants: 3,
		HandOffTime:   time.Hour,
		Yield:         time.Second,
		MaxSleep:      time.Minute,
		RetryMin:      time.Second,
		RetryMax:      4 * time.Second,
		Linger:        20 * time.Second,
	}
}

func recovering(t rapid.TB, number uint64, at Instant) *rig {
	cfg := rigConfig()
	n := Snapshot{Tenures: []SavedTenure{{Number: number, Last: 50, Unanswered: true}}, Floor: 50}
	return rigOn(t, Resume("orders", &cfg, n, 0, at))
}

func newRig(t rapid.TB, change ...func(*Config)) *rig {
	cfg := rigConfig()
	for _, c := range change {
		c(&cfg)
	}
	return rigOn(t, New("orders", &cfg))
}

func rigOn(t rapid.TB, s *State) *rig {
	return &rig{t: t, s: s, origin: clone(s), token: 100, ids: make(map[lockagent.Owner]RequestID)}
}

// step takes one command and checks that
//
//   - neither decide nor settle changed the state,
//   - the state is the fold of the events,
//   - the state has settled, and the alarm is not due,
//   - if somebody waits, there is a call under way or an alarm.
func (r *rig) step(c Command) {
	r.t.Helper()
	r.fresh++
	m := Moment{Now: r.now, Fresh: r.fresh}
	byHand := clone(r.s)
	expected := stepByHand(r.t, byHand, c, m)
	first := len(r.events)
	r.s.Step(c, m, func(e *Event) {
		r.events = append(r.events, *e)
		r.seen = append(r.seen, text(e))
		switch e.Kind {
		case Requested:
			r.ids[e.Request.Owner] = e.Request.ID
		case Attempted, Renewing, Returning, Withdrawing:
			r.asked = e.Tenure
		}
	})
	if got := r.events[first:]; !slices.EqualFunc(
		got, expected, func(a, b Event) bool { return reflect.DeepEqual(a, b) },
	) {
		r.t.Fatalf("Step made other events than decide, apply and settle:\n%v\n%v", got, expected)
	}
	if !equal(r.s, byHand) {
		r.t.Fatalf("Step arrived at another state than decide, apply and settle")
	}
	if problem := unsettled(r.s, m); problem != "" {
		r.t.Fatalf("after %T at %v: %s", c, time.Duration(r.now), problem)
	}
}

// refold compares the state with the fold of all its events.
func (r *rig) refold() {
	r.t.Helper()
	folded := clone(r.origin)
	for i := range r.events {
		e := r.events[i]
		folded.apply(&e)
	}
	if !equal(r.s, folded) {
		r.t.Fatalf("the state is not the fold of its events:\n%+v\n%+v", normal(r.s), normal(folded))
	}
}

// stepByHand does what Step does, and checks that only apply changes the state.
func stepByHand(t rapid.TB, s *State, c Command, m Moment) (events []Event) {
	t.Helper()
	before := clone(s)
	out := s.decide(c, m, nil)
	if !equal(s, before) {
		t.Fatalf("deciding %T changed the state", c)
	}
	for i := range out {
		out[i].Now = m.Now
		s.apply(&out[i])
		events = append(events, out[i])
	}
	for range 10_000 {
		before := clone(s)
		var e Event
		ok := s.settle(m, &e)
		if !equal(s, before) {
			t.Fatalf("settling after %T changed the state", c)
		}
		if !ok {
			return events
		}
		e.Now = m.Now
		s.apply(&e)
		events = append(events, e)
	}
	t.Fatalf("after %T the rules do not settle", c)
	return nil
}

// unsettled says what is wrong with a state after a step. It is empty if nothing is wrong.
func unsettled(s *State, m Moment) string {
	at, ok := s.Alarm()
	switch {
	case ok && at <= m.Now:
		return fmt.Sprintf("the alarm was due at %v", time.Duration(at))
	case s.requests.waiting.n > 0 && !ok && !calling(s):
		return "somebody waits, but for nothing: there is no call under way and no alarm"
	case s.requests.held.n > 0 && s.phase != held:
		return "somebody holds the lock outside of a tenure"
	case s.phase == held && s.requests.held.n == 0 && !s.Resting() &&
		(s.tenure.holds > 0 && !s.tenure.doubt || !s.renewal.inFlight):
		return "nobody holds the lock in a tenure that waits for no renewal"
	case s.requests.tries.n > 0 && !calling(s) && at > m.Now.add(recallTime):
		return "a request that does not wait sleeps"
	case s.closed && s.requests.held.n > 0:
		return "somebody holds a lock that is closed"
	case s.call != 0 && (s.requests.held.n > 0 || s.Resting()):
		return "a release is not answered, though the lock was handed off or rests"
	case s.Resting() && s.requests.waiting.n > 0:
		return "somebody waits for a lock that rests"
	case s.mayJoin(m):
		return "a reader waits for readers"
	case s.lacksCover(m) && !s.renewal.inFlight && s.renewal.failures == 0:
		return "a reader waits for a longer lease, and nobody asks for it"
	}
	if problem := s.requests.wrong(); problem != "" {
		return problem
	}
	if problem := s.requests.apart(); problem != "" {
		return problem
	}
	for _, o := range s.requests.reentering {
		return fmt.Sprintf("session %s holds the lock and waits for it", o)
	}
	var e Event
	if s.settle(m, &e) {
		return fmt.Sprintf("there is still something to do: %s", text(&e))
	}
	return ""
}

// mayJoin reports whether the request at the head is one to read that readers do not keep out.
func (s *State) mayJoin(m Moment) bool {
	w, t := s.requests.head(), &s.tenure
	if w == nil || w.Mode != Shared || w.Outlive || s.requests.held.n == 0 || !s.requests.shared() || t.mode != Shared ||
		t.contested || t.outsiders || t.doubt || s.renewal.failures > 0 || t.ending(m.Now) || t.next() > t.greatest(m.Now) {
		return false
	}
	longest := max(s.lease(&w.Request), lockagent.PassLease)
	for g := range s.requests.grants {
		if g.fixed == 0 {
			longest = max(longest, s.cfg.Watchdog)
		} else {
			longest = max(longest, g.Lease)
		}
	}
	return s.left(m.Now) <= longest+rounding
}

// apart says that the holds of a session have several leases. It is empty if they have one.
func (t *table) apart() string {
	var sessions map[lockagent.Owner]grant
	for x := range t.grants {
		if !x.Session || x.Outlive {
			continue
		}
		first, ok := sessions[x.Owner]
		switch {
		case !ok && t.held.n > 1:
			if sessions == nil {
				sessions = make(map[lockagent.Owner]grant)
			}
			sessions[x.Owner] = x.grant
		case ok && first.fixed != x.fixed:
			return fmt.Sprintf(
				"the leases of session %s end at %v and %v", x.Owner, time.Duration(first.fixed), time.Duration(x.fixed),
			)
		}
	}
	return ""
}

// calling reports whether a call to the store is under way.
func calling(s *State) bool {
	return s.phase == asking || s.phase == sleeping && s.attempt.ghost != 0 ||
		s.phase == releasing && s.leaving.inFlight || s.phase == held && s.renewal.inFlight
}

// clone is a deep copy.
func clone(s *State) *State {
	c := *s
	c.requests = s.requests.clone()
	return &c
}

// normal is a copy without what does not matter: which slots the requests have, and capacities.
func normal(s *State) *State {
	c := clone(s)
	c.requests.move(c.requests.len())
	return c
}

func equal(a, b *State) bool { return reflect.DeepEqual(normal(a), normal(b)) }

// want compares the events since the last want.
func (r *rig) want(lines ...string) {
	r.t.Helper()
	if !slices.Equal(r.seen, lines) {
		r.t.Fatalf(
			"at %v\n  got:  %s\n  want: %s", time.Duration(r.now), strings.Join(r.seen, "\n        "),
			strings.Join(lines, "\n        "),
		)
	}
	r.seen = nil
	r.refold()
}

// skip forgets the events since the last want.
func (r *rig) skip() { r.seen = nil }

// pass lets time pass, with a tick at every alarm.
func (r *rig) pass(d time.Duration) {
	r.t.Helper()
	end := r.now.add(d)
	for {
		at, ok := r.s.Alarm()
		if !ok || at > end {
			break
		}
		r.now = max(r.now, at)
		r.step(Tick{})
	}
	r.now = end
}

// passLate lets time pass without any tick.
func (r *rig) passLate(d time.Duration) { r.now = r.now.add(d) }

// alarmIn compares when the state wants its next tick, from now.
func (r *rig) alarmIn(least, most time.Duration) {
	r.t.Helper()
	at, ok := r.s.Alarm()
	if left := at.Sub(r.now); !ok || left < least || left > most {
		r.t.Fatalf("at %v the alarm is in %v (%t), want %v to %v", time.Duration(r.now), left, ok, least, most)
	}
}

func (r *rig) noAlarm() {
	r.t.Helper()
	if at, ok := r.s.Alarm(); ok {
		r.t.Fatalf("at %v there is an alarm at %v", time.Duration(r.now), time.Duration(at))
	}
}

func (r *rig) idle(want bool) {
	r.t.Helper()
	if got := r.s.Idle(); got != want {
		r.t.Fatalf("Idle is %t, want %t", got, want)
	}
}

// last is the last event of a kind.
func (r *rig) last(k Kind) Event {
	r.t.Helper()
	for i := len(r.events) - 1; i >= 0; i-- {
		if r.events[i].Kind == k {
			return r.events[i]
		}
	}
	r.t.Fatalf("there was no %s", kindNames[k])
	return Event{}
}

// The commands. An owner whose name ends in "+" is a session.

func (r *rig) request(q Request) {
	r.t.Helper()
	q.Session = strings.HasSuffix(string(q.Owner), "+")
	r.step(Acquire{Request: q})
}

func (r *rig) acquire(owners ...lockagent.Owner) {
	r.t.Helper()
	for _, o := range owners {
		r.request(Request{Owner: o})
	}
}

func (r *rig) acquireFixed(o lockagent.Owner, lease time.Duration) {
	r.t.Helper()
	r.request(Request{Owner: o, Lease: lease})
}

func (r *rig) try(o lockagent.Owner) {
	r.t.Helper()
	r.request(Request{Owner: o, Try: true})
}

func (r *rig) cancel(o lockagent.Owner) {
	r.t.Helper()
	r.step(Cancel{ID: r.ids[o], TimedOut: true, Err: lockagent.ErrTimeout})
}

// release gives up the grant of the owner's last request.
func (r *rig) release(o lockagent.Owner) {
	r.t.Helper()
	r.calls++
	r.step(Release{ID: r.ids[o], Call: r.calls})
}

// releaseOwner gives up the youngest grant that the owner has received. The given requests are
// those whose grants nobody has received.
func (r *rig) releaseOwner(o lockagent.Owner, unreceived ...RequestID) {
	r.t.Helper()
	r.calls++
	id := youngest(r.s, o, func(id RequestID) bool { return !slices.Contains(unreceived, id) })
	r.step(Release{ID: id, Owner: o, Call: r.calls})
}

// youngest is the request of the youngest grant that an owner holds and has received, or 0.
func youngest(s *State, o lockagent.Owner, received func(RequestID) bool) RequestID {
	for g := range s.requests.grantsBackward {
		if g.Owner == o && received(g.ID) {
			return g.ID
		}
	}
	return 0
}

func (r *rig) breakLock() {
	r.t.Helper()
	r.calls++
	r.step(Break{Call: r.calls})
}

func (r *rig) breakHold(token lockagent.Token) {
	r.t.Helper()
	r.calls++
	r.step(Break{Call: r.calls, Token: token})
}

func (r *rig) ownerGone(o lockagent.Owner) {
	r.t.Helper()
	r.calls++
	r.step(OwnerGone{Owner: o, Call: r.calls})
}

// The store's answers to the last call.

var errStore = fmt.Errorf("connection reset: %w", lockagent.ErrStoreUnavailable)

func (r *rig) acquireReplied(reply lockagent.AcquireReply, err error) {
	r.t.Helper()
	r.step(AcquireReplied{Tenure: r.asked, Reply: reply, Err: err})
}

func (r *rig) granted() {
	r.t.Helper()
	first := r.token + 1
	r.token += lockagent.Token(r.s.cfg.HandOffGrants)
	r.acquireReplied(lockagent.AcquireReply{Granted: true, Token: first, At: storeTime(r.now), Incarnation: "one"}, nil)
}

func (r *rig) busy(left time.Duration) {
	r.t.Helper()
	r.acquireReplied(lockagent.AcquireReply{Holder: "other:7", Remaining: left}, nil)
}

// queued answers that the lock is busy, and that the tenure has a place in the queue.
func (r *rig) queued(left time.Duration) {
	r.t.Helper()
	r.acquireReplied(lockagent.AcquireReply{Holder: "other:7", Remaining: left, At: storeTime(r.now), Queued: true}, nil)
}

// passed is the message of a pass at an instant.
func (r *rig) passed(at Instant) {
	r.t.Helper()
	first := r.token + 1
	r.token += 3
	r.step(Passed{Tenure: r.asked, Token: first, At: storeTime(at), Incarnation: "one"})
}

func (r *rig) attemptFails(err error) {
	r.t.Helper()
	r.acquireReplied(lockagent.AcquireReply{}, err)
}

func (r *rig) renewed(held bool) {
	r.t.Helper()
	r.step(RenewReplied{Tenure: r.asked, Reply: lockagent.RenewReply{Held: held, At: storeTime(r.now)}})
}

// wanted is renewed for a tenure whose lock others wait for.
func (r *rig) wanted() {
	r.t.Helper()
	r.step(RenewReplied{Tenure: r.asked, Reply: lockagent.RenewReply{Held: true, At: storeTime(r.now), Contested: true}})
}

func (r *rig) renewFails() {
	r.t.Helper()
	r.step(RenewReplied{Tenure: r.asked, Err: errStore})
}

func (r *rig) returned(others int) {
	r.t.Helper()
	r.step(ReleaseReplied{
		Tenure: r.asked, Reply: lockagent.ReleaseReply{Released: true, At: storeTime(r.now), Others: others},
	})
}

func (r *rig) returnedLate() { // the tenure was already over
	r.t.Helper()
	r.step(ReleaseReplied{Tenure: r.asked, Reply: lockagent.ReleaseReply{At: storeTime(r.now)}})
}

func (r *rig) returnFails(err error) {
	r.t.Helper()
	r.step(ReleaseReplied{Tenure: r.asked, Err: err})
}

// hold makes the owners holder and waiters, from an idle lock.
func (r *rig) hold(o lockagent.Owner, waiters ...lockagent.Owner) {
	r.t.Helper()
	r.acquire(o)
	r.granted()
	r.acquire(waiters...)
	r.skip()
}

// storeTime is what the store's clock shows: it runs a day ahead of the agent's.
func storeTime(now Instant) lockagent.StoreTime {
	return lockagent.StoreTime(24 * time.Hour.Microseconds()).Add(time.Duration(now))
}
