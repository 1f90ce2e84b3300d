package saved

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
	"github.com/lockagent/lockagent/memstore"
)

// The next process goes on from the answer of the store: from when that was asked for, what its clock showed, and when
// the answer came. The bounds of the clock that the next process tells are computed from all of them.
func TestConfirmNotesTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		defer func() { _ = store.Close() }()
		lease := 10 * time.Second
		tenure := lockagent.Tenure{Agent: lockagent.NewAgentID(), Number: 7}
		var began lockagent.AcquireReply
		store.Acquire(context.Background(), lockagent.AcquireRequest{Name: "door", Tenure: tenure, Lease: lease},
			func(r lockagent.AcquireReply, err error) {
				if began = r; err != nil || !r.Granted {
					t.Errorf("%+v, %v", r, err)
				}
			})
		synctest.Wait()
		a := Agent{Stay: Stay{ID: tenure.Agent, Last: 7, Taken: Now(func() lockstate.Instant { return 0 })}, Locks: []Lock{{
			Name: "door", Kind: lockagent.PlainLock,
			Tenures: []lockstate.SavedTenure{{
				Number: 7, Lease: lease, StoreTime: began.At, First: began.Token, Last: began.Token, Holds: 1,
				Deadline: lockstate.Instant(9 * time.Second), Until: lockstate.Instant(lease),
			}},
			Requests: []Request{{SavedRequest: lockstate.SavedRequest{
				Request: lockstate.Request{ID: 1, Owner: "ann"}, Tenure: 7, Token: began.Token,
			}}},
		}}}
		const later = 6 * time.Second
		time.Sleep(later)
		a.Confirm(t.Context(), store, lease, 0)
		got := a.Locks[0].Tenures[0]
		at := lockstate.Instant(later)
		if got.StoreTime != began.At.Add(later) || got.Sent != at || got.Replied != at || got.Deadline <= 2*at {
			t.Errorf("confirmed %v after the beginning; asked for at %v, answered at %v, trusted until %v",
				got.StoreTime.Sub(began.At), time.Duration(got.Sent), time.Duration(got.Replied), time.Duration(got.Deadline))
		}
	})
}
