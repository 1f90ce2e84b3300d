package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/renewals"
	"github.com/lockagent/lockagent/redisstore/internal/transport"
)

const (
	// TokenRetention is for how long the last token of a lock is kept, if it was ahead
	// of the clock that all locks share, after the server's clock has passed it.
	TokenRetention = time.Hour

	// ReleaseRetention is for how long it is remembered, at least, which tenure an
	// agent released last. It has to outlive the calls that may still arrive late: the
	// acquire that a network held up, the release that is repeated because its
	// reply was lost. What is later than that is bounded by its own lease.
	ReleaseRetention = time.Minute

	// QueueRetention is for how long the queue of a lock is kept after somebody asked
	// for a place in it. Waiters ask more often.
	QueueRetention = 5 * time.Minute
)

// Acquire implements [lockagent.Store]. The request is refused with a
// [*lockagent.NameError] or a [*lockagent.OptionError] if it is out of bounds.
func (s *Store) Acquire(ctx context.Context, req lockagent.AcquireRequest, done func(lockagent.AcquireReply, error)) {
	if err := check(req.Name, req); err != nil {
		done(lockagent.AcquireReply{}, err)
		return
	}
	slot := s.slot(string(req.Name))
	s.lanes.Add(ctx, slot, &acquireCall{req: req, slot: slot, done: done})
}

// Renew implements [lockagent.Store]. It waits for company for at most a
// thirtieth of the lease, and at most 100 ms.
func (s *Store) Renew(_ context.Context, req lockagent.RenewRequest, done func(lockagent.RenewReply, error)) {
	if err := check(req.Name, req); err != nil {
		done(lockagent.RenewReply{}, err)
		return
	}
	s.renewals.Add(renewals.Call{Req: req, Slot: s.slot(string(req.Name)), Done: done})
}

// renew sends renewals in one command.
func (s *Store) renew(batch []renewals.Call) {
	keys := make([]string, 0, len(batch))
	args := make([]string, 0, 2*len(batch))
	for _, n := range batch {
		keys = append(keys, string(n.Req.Name))
		args = append(args, n.Req.Tenure.String(), milliseconds(n.Req.Lease))
	}
	s.send(&transport.Call{Script: renewScript, Keys: keys, Args: args, Done: func(m rueidis.RedisMessage, err error) {
		if errors.Is(err, lockagent.ErrNotPermitted) && len(batch) > 1 {
			// One lock that the user may not touch must not fail the others.
			for i := range batch {
				s.renew(batch[i : i+1])
			}
			return
		}
		replies, err := parseRenewals(m, err, len(batch))
		each(len(batch), func(i int) {
			if err == nil && !replies[i].Held {
				s.incarnations.suspect()
			}
			batch[i].Done(replies[i], err)
		})
	}})
}

// parseRenewals returns n replies in any case.
func parseRenewals(m rueidis.RedisMessage, err error, n int) ([]lockagent.RenewReply, error) {
	none := make([]lockagent.RenewReply, n)
	if err != nil {
		return none, err
	}
	r := readReply(m)
	at := lockagent.StoreTime(r.number())
	replies := make([]lockagent.RenewReply, n)
	for i := range replies {
		replies[i] = lockagent.RenewReply{Held: r.number() == 1, At: at}
	}
	if r.err != nil {
		return none, malformed(r.err)
	}
	return replies, nil
}

// Release implements [lockagent.Store]. A tenure that ended longer than
// [ReleaseRetention] ago is answered as one that never began. A user who may not
// publish to the channel of the lock releases it all the same, and wakes nobody.
func (s *Store) Release(ctx context.Context, req lockagent.ReleaseRequest, done func(lockagent.ReleaseReply, error)) {
	if err := check(req.Name, req); err != nil {
		done(lockagent.ReleaseReply{}, err)
		return
	}
	slot := s.slot(string(req.Name))
	s.lanes.Add(ctx, slot, &releaseCall{req: req, slot: slot, done: done})
}

// Break implements [lockagent.Store].
func (s *Store) Break(_ context.Context, name lockagent.Name, done func(lockagent.BreakReply, error)) {
	if err := checkName(name); err != nil {
		done(lockagent.BreakReply{}, err)
		return
	}
	args := []string{s.publish, channel(name)}
	s.send(&transport.Call{Script: breakScript, Keys: []string{string(name)}, Args: args, Done: func(m rueidis.RedisMessage, err error) {
		if err != nil {
			done(lockagent.BreakReply{}, err)
			return
		}
		r := readReply(m)
		reply := lockagent.BreakReply{Broken: r.number() == 1, At: lockagent.StoreTime(r.number())}
		if r.err != nil {
			done(lockagent.BreakReply{}, malformed(r.err))
			return
		}
		done(reply, nil)
	}})
}

// Inspect implements [lockagent.Store].
func (s *Store) Inspect(_ context.Context, name lockagent.Name, done func(lockagent.Inspection, error)) {
	if err := checkName(name); err != nil {
		done(lockagent.Inspection{}, err)
		return
	}
	s.send(&transport.Call{Script: inspectScript, Keys: []string{string(name)}, Done: func(m rueidis.RedisMessage, err error) {
		if err != nil {
			done(lockagent.Inspection{}, err)
			return
		}
		done(parseInspection(m))
	}})
}

func parseInspection(m rueidis.RedisMessage) (lockagent.Inspection, error) {
	r := readReply(m)
	if r.err == nil && len(r.left) == 0 {
		return lockagent.Inspection{}, nil
	}
	seen := lockagent.Inspection{Held: true, Holder: r.text()}
	// Other programs may count in a way of their own, so what is no number counts
	// for nothing.
	seen.HoldCount, _ = strconv.Atoi(r.text())
	seen.Remaining = remaining(r.number())
	if r.err != nil {
		return lockagent.Inspection{}, malformed(r.err)
	}
	return seen, nil
}

// milliseconds is a duration as scripts take it, rounded up.
func milliseconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Millisecond-1)/time.Millisecond), 10)
}

// remaining is what PTTL says, which is -1 for a lease without end.
func remaining(pttl int64) time.Duration {
	if pttl < 0 {
		return -1
	}
	return time.Duration(pttl) * time.Millisecond
}

// refused is the error for the text of an error that concerns one lock of a script.
func refused(text string) error { return fmt.Errorf("%w: %s", transport.Kind(text), text) }

// malformed is the error for a reply that is not what the script returns.
func malformed(err error) error {
	return fmt.Errorf("%w: a reply that cannot be understood: %w", lockagent.ErrStoreUnavailable, err)
}

// reply reads the elements of a script's reply, one after the other. The first
// one that is not as expected sets err, and what comes after it is zero.
type reply struct {
	left []rueidis.RedisMessage
	err  error
}

// readReply reads an array, or one element that stands for an array of it.
func readReply(m rueidis.RedisMessage) reply {
	if m.IsString() {
		return reply{left: []rueidis.RedisMessage{m}}
	}
	left, err := m.ToArray()
	return reply{left: left, err: err}
}

// isAbout reads the number of the i-th lock, if that is what comes next.
func (r *reply) isAbout(i int) bool {
	if r.err != nil || len(r.left) == 0 {
		return false
	}
	if n, err := r.left[0].AsInt64(); err != nil || n != int64(i+1) {
		return false
	}
	r.left = r.left[1:]
	return true
}

// unknown says that a code is none that is known.
func (r *reply) unknown(code int64) {
	if r.err == nil {
		r.err = fmt.Errorf("it has an unknown code: %d", code)
	}
}

// end returns an error if the reply was not as expected, or if there is more of it.
func (r *reply) end() error {
	if r.err == nil && len(r.left) > 0 {
		r.err = errors.New("it is too long")
	}
	if r.err != nil {
		return malformed(r.err)
	}
	return nil
}

func (r *reply) next() (m rueidis.RedisMessage) {
	if r.err == nil && len(r.left) == 0 {
		r.err = errors.New("it is too short")
	}
	if r.err != nil {
		return m
	}
	m, r.left = r.left[0], r.left[1:]
	return m
}

func (r *reply) number() (n int64) {
	if m := r.next(); r.err == nil {
		n, r.err = m.AsInt64()
	}
	return n
}

func (r *reply) text() (text string) {
	if m := r.next(); r.err == nil {
		text, r.err = m.ToString()
	}
	return text
}
