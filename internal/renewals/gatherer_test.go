package renewals

import (
	"errors"
	"reflect"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
)

// sendings records when how many renewals were sent.
type sendings struct {
	began time.Time
	all   []sending
}

type sending struct {
	after time.Duration
	n     int
}

func gather(bySlot bool) (*Gatherer, *sendings) {
	s := &sendings{began: time.Now()}
	return &Gatherer{BySlot: bySlot, Send: func(batch []Call) {
		s.all = append(s.all, sending{time.Since(s.began), len(batch)})
		for _, n := range batch {
			if n.Slot != batch[0].Slot && bySlot {
				panic("two slots in one batch")
			}
			n.Done(lockagent.RenewReply{Held: true}, nil)
		}
	}}, s
}

func (s *sendings) expect(t *testing.T, want ...sending) {
	t.Helper()
	synctest.Wait()
	if !reflect.DeepEqual(s.all, want) {
		t.Errorf("sent %+v, want %+v", s.all, want)
	}
}

func renewalFor(lease time.Duration, slot uint16) Call {
	return Call{
		Req:  lockagent.RenewRequest{Name: lockagent.Name(strconv.Itoa(int(slot))), Lease: lease},
		Slot: slot,
		Done: func(lockagent.RenewReply, error) {},
	}
}

func TestALoneRenewalWaitsForCompany(t *testing.T) {
	for lease, wait := range map[time.Duration]time.Duration{
		30 * time.Second: 100 * time.Millisecond,
		time.Hour:        100 * time.Millisecond,
		3 * time.Second:  100 * time.Millisecond,
		time.Second:      time.Second / 30,
		time.Millisecond: time.Millisecond / 30,
	} {
		synctest.Test(t, func(t *testing.T) {
			g, sent := gather(false)
			g.Add(renewalFor(lease, 0))
			time.Sleep(time.Minute)
			sent.expect(t, sending{wait, 1})
		})
	}
}

func TestTheMostUrgentRenewalTakesTheOthersWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, sent := gather(false)
		g.Add(renewalFor(time.Hour, 0))
		time.Sleep(10 * time.Millisecond)
		g.Add(renewalFor(600*time.Millisecond, 1)) // waits for 20 ms
		time.Sleep(10 * time.Millisecond)
		g.Add(renewalFor(time.Hour, 2))
		time.Sleep(time.Minute)
		sent.expect(t, sending{30 * time.Millisecond, 3})
		g.Add(renewalFor(time.Hour, 3)) // begins anew
		time.Sleep(time.Minute)
		sent.expect(t, sending{30 * time.Millisecond, 3}, sending{time.Minute + 120*time.Millisecond, 1})
	})
}

func TestAnUrgentRenewalDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, sent := gather(false)
		g.Add(renewalFor(time.Hour, 0))
		time.Sleep(10 * time.Millisecond)
		urgent := renewalFor(time.Hour, 1)
		urgent.Req.Urgent = true
		g.Add(urgent)
		time.Sleep(time.Minute)
		sent.expect(t, sending{10 * time.Millisecond, 2})
	})
}

func TestEnoughRenewalsDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, sent := gather(false)
		for i := range 2*Most + 1 {
			g.Add(renewalFor(time.Hour, uint16(i)))
		}
		time.Sleep(time.Minute)
		sent.expect(t, sending{0, Most}, sending{0, Most}, sending{MaxWait, 1})
	})
}

func TestRenewalsOfTwoSlotsAreTwoCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, sent := gather(true)
		for _, slot := range []uint16{7, 9, 7, 7, 9, 1} {
			g.Add(renewalFor(time.Hour, slot))
		}
		time.Sleep(time.Minute)
		sent.expect(t, sending{MaxWait, 1}, sending{MaxWait, 3}, sending{MaxWait, 2})
	})
}

func TestRenewalsThatWaitAreAnsweredAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, sent := gather(false)
		var answers []error
		n := renewalFor(time.Hour, 0)
		n.Done = func(_ lockagent.RenewReply, err error) { answers = append(answers, err) }
		g.Add(n)
		g.Close()
		g.Add(n)
		time.Sleep(time.Minute)
		sent.expect(t)
		if len(answers) != 2 || !errors.Is(answers[0], lockagent.ErrClosed) || !errors.Is(answers[1], lockagent.ErrClosed) {
			t.Errorf("answered %v, want ErrClosed twice", answers)
		}
	})
}
