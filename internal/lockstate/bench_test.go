package lockstate

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// mill runs a lock without looking at what comes of it.
type mill struct {
	s      *State
	m      Moment
	tenure uint64
	last   RequestID
}

func newMill(waiters int, session bool) *mill {
	cfg := rigConfig()
	cfg.HandOffGrants = 1 << 40
	cfg.HandOffTime = 1 << 60
	cfg.Watchdog = time.Hour
	m := &mill{s: New("orders", &cfg)}
	if waiters > 0 {
		m.acquire("ann", session)
		m.granted()
		for i := range waiters {
			m.acquire(lockagent.Owner(fmt.Sprint("waiter", i)), session)
		}
	}
	return m
}

func (m *mill) step(c Command) {
	m.m.Fresh++
	m.m.Now++
	m.s.Step(c, m.m, m.do)
}

func (m *mill) do(e *Event) {
	switch e.Kind {
	case Requested:
		m.last = e.Request.ID
	case Attempted, Returning, Withdrawing:
		m.tenure = e.Tenure
	}
}

func (m *mill) acquire(o lockagent.Owner, session bool) {
	m.step(Acquire{Request: Request{Owner: o, Session: session}})
}

func (m *mill) read(o lockagent.Owner, lease time.Duration) RequestID {
	m.step(Acquire{Request: Request{Owner: o, Mode: Shared, Lease: lease}})
	return m.last
}

func (m *mill) granted() {
	m.step(AcquireReplied{Tenure: m.tenure, Reply: lockagent.AcquireReply{Granted: true, Token: 1, At: 1 << 50}})
}

// handOff has the holder release and come back as the last in the queue.
func (m *mill) handOff(session bool) {
	r := m.s.requests.oldest()
	owner := r.Owner
	m.step(Release{ID: r.ID, Call: 1})
	m.acquire(owner, session)
}

func BenchmarkStep(b *testing.B) {
	defer func(few int) { fewRequests = few }(fewRequests)
	fewRequests = 8
	b.Run("uncontended acquire to returned", func(b *testing.B) {
		b.ReportAllocs()
		m := newMill(0, false)
		for b.Loop() {
			m.acquire("ann", false)
			m.granted()
			m.step(Release{ID: m.last, Call: 1})
			m.step(ReleaseReplied{Tenure: m.tenure, Reply: lockagent.ReleaseReply{Released: true}})
		}
	})
	for _, waiters := range []int{1, 1000, 10_000} {
		for _, session := range []bool{false, true} {
			b.Run(fmt.Sprintf("release and acquire/waiters=%d/session=%t", waiters, session), func(b *testing.B) {
				b.ReportAllocs()
				m := newMill(waiters, session)
				for b.Loop() {
					m.handOff(session)
				}
			})
		}
	}
	for _, readers := range []int{1, 64, 1000, 10_000} {
		for _, lease := range []time.Duration{0, time.Hour} {
			b.Run(fmt.Sprintf("release and acquire/readers=%d/fixed=%t", readers, lease != 0), func(b *testing.B) {
				b.ReportAllocs()
				m := newMill(0, false)
				ids := []RequestID{m.read("reader", lease)}
				m.granted()
				for range readers {
					ids = append(ids, m.read("reader", lease))
				}
				for i := 0; b.Loop(); i = (i + 7) % len(ids) {
					m.step(Release{ID: ids[i], Call: 1})
					ids[i] = m.read("reader", lease)
					m.s.Alarm()
				}
			})
		}
	}
	b.Run("reentry and release", func(b *testing.B) {
		b.ReportAllocs()
		m := newMill(1, true)
		for b.Loop() {
			m.acquire("ann", true)
			m.step(Release{ID: m.last, Call: 1})
		}
	})
	b.Run("cancel among 1000", func(b *testing.B) {
		b.ReportAllocs()
		m := newMill(1000, false)
		for b.Loop() {
			m.acquire("bob", false)
			m.step(Cancel{ID: m.last - 500, Err: lockagent.ErrTimeout})
		}
	})
	b.Run("tick with nothing due", func(b *testing.B) {
		b.ReportAllocs()
		m := newMill(1000, false)
		for b.Loop() {
			m.step(Tick{})
		}
	})
}

func BenchmarkAlarm(b *testing.B) {
	b.ReportAllocs()
	m := newMill(1, true)
	for b.Loop() {
		m.s.Alarm()
	}
}
