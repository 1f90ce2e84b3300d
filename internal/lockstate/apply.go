package lockstate

import (
	"slices"
	"time"

	"github.com/lockagent/lockagent"
)

// apply folds an event into the state. It decides nothing: given the same events
// it arrives at the same state.
func (s *State) apply(e *Event) {
	switch e.Kind {
	case Requested:
		s.queue.push(e.Request)
	case Queued:
		s.queue.find(e.Request.ID).queued = true
	case Answered:
		s.queue.remove(e.Request.ID)
		s.touch(e)
	case Granted:
		s.queue.remove(e.Request.ID)
		s.holder.token = e.Token
		s.holder.add(e)
		s.tenure.grants++
		s.tenure.next++
	case Reentered:
		s.queue.remove(e.Request.ID)
		s.holder.add(e)
	case Recalled:
		s.holder.grants[s.holder.find(e.Request.ID)].claimBy = 0
	case Extended:
		s.holder.grants[s.holder.find(e.Request.ID)].fixed = e.Fixed
	case Ended:
		s.holder.remove(e.Request.ID)
		if e.Call != 0 {
			s.call = e.Call
		}
	case Unlocked:
		if e.Call == s.call {
			s.call = 0
		}
	case AskBreak: // concerns the shell alone

	case Attempted:
		s.phase = asking
		before := s.attempt // all zero if the number is new
		s.attempt = attempt{
			number: e.Tenure, sent: e.Now, lease: e.Lease, tokens: e.Tokens, upto: s.queue.last(),
			unsure: before.unsure, longest: max(before.longest, e.Lease),
			queued: before.queued, busySent: before.busySent, busyAt: before.busyAt,
		}
	case FoundBusy:
		s.phase = sleeping
		s.retryAt, s.failures = e.RetryAt, 0
		s.contended = true
		s.attempt.queued = s.attempt.queued || e.Queued // until it is withdrawn: better once too often
		s.attempt.busySent, s.attempt.busyAt = s.attempt.sent, e.StoreTime
	case AttemptFailed:
		s.phase = sleeping
		s.retryAt = e.RetryAt
		s.failures++
		s.attempt.unsure = e.Unsure
		if !e.Unsure { // the number is spent
			s.attempt = attempt{}
		}
	case AttemptRefused:
		s.phase = sleeping // from where it is withdrawn if it may have succeeded before
		s.retryAt = never
	case Offered:
		s.attempt.offer = &lockagent.Pass{
			Lease: e.Lease, Token: e.Token, Tokens: e.Tokens, At: e.StoreTime, Incarnation: e.Incarnation,
		}
	case Began:
		s.phase = held
		s.renewal = renewal{}
		if s.attempt.doubt {
			s.renewal.doubts = 1
		}
		s.failures = 0
		s.tenure = tenure{
			number: e.Tenure, began: e.Now, incarnation: e.Incarnation,
			next: e.Token, last: e.Token + lockagent.Token(e.Tokens) - 1,
			longest: s.attempt.longest, unsure: s.attempt.unsure || e.Unsure,
			early: s.scatter(e),
		}
		s.attempt = attempt{}
		s.confirm(e)
	case Forgot:
		s.free(e)

	case Renewing:
		s.renewal.inFlight, s.renewal.asked = true, s.renewal.doubts
		s.renewal.sent, s.renewal.lease = e.Now, e.Lease
		s.tenure.longest = max(s.tenure.longest, e.Lease)
	case Renewed:
		s.confirm(e)
		s.tenure.early = 0
		if s.renewal.asked > 0 { // as were all others, when the store was reset
			s.tenure.early = s.scatter(e)
		}
		s.renewal = renewal{doubts: s.renewal.doubts - s.renewal.asked}
		s.queue.trim() // who keeps the lock for so long may do so for much longer
	case RenewFailed:
		s.renewal.inFlight = false
		s.renewal.failures, s.renewal.retryAt = e.Count, e.RetryAt
	case Denied:
		s.free(e)

	case Returning:
		if s.phase != returning {
			s.phase = returning
			s.dropAt = e.Now.add(max(s.tenure.longest, s.attempt.longest, s.cfg.Watchdog))
			s.tenure.number = e.Tenure
			s.attempt = attempt{}
			s.failures = 0
		}
		s.inFlight = true
	case ReturnFailed:
		s.inFlight = false
		s.failures++
		s.retryAt = e.RetryAt
	case Returned, Dropped:
		s.inFlight = false
		s.free(e)
		s.notBefore = e.RetryAt

	case Woke:
		s.attempt.woken = s.phase == asking
		s.retryAt = e.RetryAt
	case Doubted:
		if s.phase == asking {
			s.attempt.doubt = true
			break
		}
		s.renewal.doubts++
		s.renewal.retryAt = 0
	case Quieted:
		s.contended = false
	case Closed:
		s.closed = true
		s.retryAt = 0 // one last try, if there is something to return
	}
}

// scatter differs from tenure to tenure.
func (s *State) scatter(e *Event) time.Duration {
	return Moment{Fresh: e.Tenure}.scatter(s.cfg.Scatter)
}

// confirm takes over that the store granted or renewed the tenure.
func (s *State) confirm(e *Event) {
	t := &s.tenure
	t.sent, t.lease, t.storeTime = e.Sent, e.Lease, e.StoreTime
	t.deadline = max(t.deadline, e.Sent.add(s.cfg.trust(e.Lease)))
}

// free forgets what the agent had or wanted in the store.
func (s *State) free(e *Event) {
	s.phase = free
	s.attempt = attempt{}
	s.tenure = tenure{}
	s.renewal = renewal{}
	s.notBefore, s.retryAt, s.failures = 0, 0, 0
	s.touch(e)
}

// touch puts off the end of the subscription.
func (s *State) touch(e *Event) { s.quietAt = e.Now.add(s.cfg.Linger) }

// find is the index of the grant of a request, or -1.
func (h *holder) find(id RequestID) int {
	return slices.IndexFunc(h.grants, func(g grant) bool { return g.request.ID == id })
}

func (h *holder) add(e *Event) {
	h.grants = append(h.grants, grant{request: e.Request, since: e.Now, fixed: e.Fixed, claimBy: e.ClaimBy})
}

func (h *holder) remove(id RequestID) {
	i := h.find(id)
	h.grants = slices.Delete(h.grants, i, i+1)
	if h.none() {
		h.token = 0
	}
}
