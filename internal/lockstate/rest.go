package lockstate

import (
	"time"

	"github.com/lockagent/lockagent"
)

// A tenure that nobody holds may rest in its agent, and does not go back to the store. The next request of this agent
// is then granted at once. The store marks such a tenure, and tells the agent as soon as another agent wants the lock.
// See the documentation of the package. Only exclusive tenures rest, see [Config].Rest.

// A tenure may rest after so many tenures in a row that nobody else wanted. The number doubles, up to the
// greatest, when a tenure that may rest is recalled. It halves when one was of use and was not recalled.
//
// With the greatest number, two agents that take turns recall about one tenure in a thousand. An agent that has the
// lock for itself has served a thousand tenures soon, if it is fast enough for that to matter.
const (
	leastStreak = 2
	mostStreak  = 1024
)

// A rest lasts for some of the gaps between the holds of this agent, but not less than shortestRest. A gap that is
// longer than usual is then bridged. A program that has stopped using the lock does not keep it from others for much
// longer than it used to.
const (
	gapsOfRest   = 8
	shortestRest = 2 * time.Millisecond
)

// recallTime is for how long a request that does not wait goes on when it finds a tenure that may rest. The holder's
// agent was notified. If nobody holds the lock, it comes back in this time: that takes a message and a release.
const recallTime = 20 * time.Millisecond

// habit is how the agent has used the lock lately.
type habit struct {
	streak  int32         // tenures in a row that nobody else wanted, each soon after the one before
	needed  int32         // how long the streak has to be; 0 is leastStreak
	ended   Instant       // when the last tenure was returned
	brief   bool          // that tenure served a hold, and took less than [lockagent.PassLease]
	usually time.Duration // the usual gap between two holds, while nobody has the lock
}

// enough reports whether the streak is long enough for a tenure that may rest. A gap that is longer than longest ends
// the streak.
func (h *habit) enough(now Instant, longest time.Duration) bool {
	return h.streak >= max(h.needed, leastStreak) && now.Sub(h.ended) <= longest
}

// again reports whether the agent has just had the lock, for a moment. Most often it has the next tenure for a moment,
// too. Such a tenure begins with a short lease, which a renewal makes longer if a hold lasts. So a process that dies
// while it uses a lock again and again keeps the lock from others no longer than after a pass.
func (h *habit) again(now Instant) bool { return h.brief && now.Sub(h.ended) < lockagent.PassLease }

// gap notes a gap between two holds. The usual one follows the last few gaps.
func (h *habit) gap(d time.Duration) { h.usually += (d - h.usually) / 4 }

// length is how long a rest pays.
func (h *habit) length() time.Duration { return max(gapsOfRest*h.usually, shortestRest) }

// began notes that the store granted the lock to a call which was sent at an instant. undisturbed says that nobody
// else is known to have wanted it. A gap longer than longest is not worth a rest.
func (h *habit) began(sent Instant, undisturbed bool, longest time.Duration) {
	gap := sent.Sub(h.ended)
	if !undisturbed || h.ended == 0 || gap > longest {
		h.streak = 0
		return
	}
	h.streak = min(h.streak+1, mostStreak)
	h.gap(gap)
}

// recalled notes that another agent wants the lock of a tenure that may rest, or was to be one.
func (h *habit) recalled() {
	h.streak, h.needed = 0, min(2*max(h.needed, leastStreak), mostStreak)
}

// paid notes that a tenure that may rest has served several holds, and was not recalled.
func (h *habit) paid() { h.needed /= 2 }

// wantsRest reports whether the next tenure should be one that may rest, for a request. A fixed lease may be long, and
// then the lease of the tenure has to be as long. So it keeps others out for long if this process dies.
func (s *State) wantsRest(r *Request, m Moment) bool {
	return s.cfg.Rest > 0 && s.habit.enough(m.Now, s.cfg.Rest) && r.Lease == 0 && !r.NoRest
}

// mayRest reports whether the tenure, which nobody holds or waits for, may stay in the agent. A tenure that was renewed
// may not: a hold has lasted, and made its lease long.
func (s *State) mayRest(m Moment) bool {
	t := &s.tenure
	if !t.rests || t.holds == 0 || s.closed || t.doubt || t.ending(m.Now) {
		return false
	}
	if !s.Resting() {
		return m.Now < t.began.add(s.cfg.Rest)
	}
	return m.Now < s.restUntil()
}

// restUntil is when the tenure, which rests, goes back.
func (s *State) restUntil() Instant {
	return min(s.tenure.restedAt.add(s.habit.length()), s.tenure.began.add(s.cfg.Rest))
}

// recalling reports whether it pays to wait for a lock whose agent was notified at an instant that the lock is wanted.
// If nobody holds the lock, it comes back soon. The zero Instant is never.
func recalling(notified, now Instant) bool { return notified != 0 && now < notified.add(recallTime) }

// notifiedBy is since when the holder's agent knows that the lock is wanted, if the lock may rest there, or 0. r is the
// answer of an attempt, which came now.
func (a *attempt) notifiedBy(r *lockagent.AcquireReply, now Instant) Instant {
	switch {
	case !r.HolderRests:
		return 0
	case a.notified != 0 && a.rival.holder == r.Holder:
		return a.notified
	}
	return now
}
