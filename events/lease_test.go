package events

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// A fold and an audit take the lease of a hold that has no end for over at the same time. The grant of a
// lock that was passed tells only the lease of the pass.
func TestLeaseEndOfAHold(t *testing.T) {
	renewing := func(ms int, lease time.Duration) func(*story) {
		return func(s *story) {
			s.alive(ms + 500).edit(func(r *Record) { r.Confirmed, r.Lease = clock(ms), lease })
		}
	}
	for name, test := range map[string]struct {
		holder *story
		then   func(*story)
		want   lockagent.StoreTime
	}{
		"Granted":         {agent("A").granted(1, 1000), nil, clock(31_000)},
		"Renewed":         {agent("A").granted(1, 1000), renewing(11_000, 30*time.Second), clock(41_000)},
		"Passed":          {agent("A").leasing(lockagent.PassLease).granted(1, 1000), nil, clock(3000)},
		"PassedAndKept":   {agent("A").leasing(lockagent.PassLease).granted(1, 1000), renewing(2000, 10*time.Second), clock(12_000)},
		"PassedAndFixed":  {fixed(agent("A").leasing(lockagent.PassLease)).granted(1, 1000), renewing(2000, time.Minute), clock(62_000)},
		"Fixed":           {fixed(agent("A").leasing(5*time.Second)).granted(1, 1000), renewing(4000, 30*time.Second), clock(6000)},
		"LongRenewalOver": {agent("A").leasing(10*time.Second).granted(1, 1000), func(s *story) { renewing(2000, time.Hour)(s); renewing(9000, 10*time.Second)(s) }, clock(19_000)},
	} {
		t.Run(name, func(t *testing.T) {
			if test.then != nil {
				test.then(test.holder)
			}
			f := NewFold(FoldConfig{})
			for _, r := range test.holder.records {
				f.Apply(r)
			}
			l, _ := f.Lock(LockKey{Store: "s", Lock: "a"})
			if end := l.Holders[0].LeaseEnd(); end != test.want {
				t.Errorf("the fold says %v, want %v", storeText(end), storeText(test.want))
			}
			for after, want := range map[time.Duration]int{-time.Millisecond: 1, time.Millisecond: 0} {
				at := int(test.want.Add(after).Sub(clock(0)).Milliseconds())
				next := agent("B").granted(1, at).released(1, at+10).stop()
				r := audited(recordsOf([]*story{test.holder, next}))
				unproven := 0
				for _, u := range r.Unproven.First {
					if u.Hold.Agent == "A" {
						unproven++
					}
				}
				if unproven != want {
					t.Errorf("a hold that begins %v after: the audit says\n%v", after, r)
				}
			}
		})
	}
}

func fixed(s *story) *story {
	s.fixed = true
	return s
}
