package follow

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"go.uber.org/goleak"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/bootclock"
	"github.com/lockagent/lockagent/internal/daemon/refusal"
	"github.com/lockagent/lockagent/internal/daemon/wire"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The pauses grow with the attempts, and stay short.
func TestPause(t *testing.T) {
	for attempts, middle := range map[int]time.Duration{0: 20, 1: 40, 3: 160, 4: 250, 1 << 20: 250} {
		middle *= time.Millisecond
		for range 100 {
			if p := Pause(attempts); p < middle/2 || p >= middle*3/2 {
				t.Errorf("%v after %d attempts, want about %v", p, attempts, middle)
			}
		}
	}
}

// A call is made again for as long as the patience with its last error lasts, or until ctx ends.
func TestRepeat(t *testing.T) {
	away, no := errors.New("away"), errors.New("no")
	patience := func(err error) time.Duration {
		if errors.Is(err, away) {
			return 10 * time.Second
		}
		return 0
	}
	for what, test := range map[string]struct {
		answers map[time.Duration]error // from an instant on
		ends    time.Duration           // of ctx; 0 is never
		want    error
		least   time.Duration
	}{
		"the daemon is there":    {answers: map[time.Duration]error{}},
		"it says no":             {answers: map[time.Duration]error{0: no}, want: no},
		"it comes back":          {answers: map[time.Duration]error{0: away, time.Second: nil}, least: time.Second},
		"it comes back, says no": {answers: map[time.Duration]error{0: away, time.Second: no}, want: no, least: time.Second},
		"it does not come back":  {answers: map[time.Duration]error{0: away}, want: away, least: 10 * time.Second},
		"nobody waits any longer": {
			answers: map[time.Duration]error{0: away}, ends: 3 * time.Second, want: away, least: 3 * time.Second,
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if test.ends > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, test.ends)
					defer cancel()
				}
				began := time.Now()
				err := Repeat(ctx, patience, func() error {
					var last time.Duration
					var answer error
					for from, err := range test.answers {
						if time.Since(began) >= from && from >= last {
							last, answer = from, err
						}
					}
					return answer
				})
				if took := time.Since(began); !errors.Is(err, test.want) || took < test.least || took > test.least+2*mostPause {
					t.Errorf("%v after %v, want %v after %v", err, took, test.want, test.least)
				}
			})
		})
	}
}

// What the daemon has said is told from what has happened to the connection.
func TestTold(t *testing.T) {
	for _, said := range []error{refusal.ErrDraining, refusal.ErrNoClaim, lockagent.ErrClosed} {
		if told := Told(wire.Refuse(said)); !errors.Is(told, said) {
			t.Errorf("%v: told is %v", said, told)
		}
	}
	for _, err := range []error{io.EOF, connect.NewError(connect.CodeUnavailable, io.ErrUnexpectedEOF)} {
		if told := Told(err); told != nil {
			t.Errorf("%v: told is %v", err, told)
		}
	}
}

// A claim goes on while no daemon has said that it is over.
func TestAgain(t *testing.T) {
	for what, test := range map[string]struct {
		told           error
		waiting, holds bool
	}{
		"nothing":                           {nil, true, true},
		"the daemon ends":                   {lockagent.ErrClosed, true, true},
		"the daemon drains":                 {refusal.ErrDraining, true, true},
		"the disk is full":                  {refusal.ErrJournal, true, true},
		"there is no such claim":            {refusal.ErrNoClaim, true, false},
		"the user has too many":             {&refusal.QuotaError{What: "claims"}, false, false},
		"the rules forbid it":               {refusal.ErrForbidden, false, false},
		"somebody else has the lock":        {lockagent.ErrHeld, false, false},
		"the lock was lost by an end of it": {&lockagent.LostError{Reason: lockagent.LostClosed}, false, false},
	} {
		waiting, holds := Claim{Secret: "s"}, Claim{ID: "c", Secret: "s", First: 7}
		if w, h := waiting.Again(test.told), holds.Again(test.told); w != test.waiting || h != test.holds {
			t.Errorf(
				"%s: a claim that waits goes on: %t, and one that holds: %t; want %t and %t", what, w, h, test.waiting, test.holds,
			)
		}
	}
}

func granted(token uint64, at time.Duration, boot string) *lockagentv1.ClaimEvent {
	return &lockagentv1.ClaimEvent{Event: &lockagentv1.ClaimEvent_Granted{Granted: &lockagentv1.Granted{
		Claim: "c", Secret: "s", Token: token, Deadline: &lockagentv1.Deadline{Boottime: int64(at), BootId: boot},
	}}}
}

func ended(e *lockagentv1.Ended) *lockagentv1.ClaimEvent {
	return &lockagentv1.ClaimEvent{Event: &lockagentv1.ClaimEvent_Ended{Ended: e}}
}

func TestHear(t *testing.T) {
	here := bootclock.Clock()
	failure, _ := wire.FromError(refusal.ErrForbidden)
	c := Claim{Secret: "s"}
	n := c.Hear(&lockagentv1.ClaimEvent{Event: &lockagentv1.ClaimEvent_Queued{
		Queued: &lockagentv1.Queued{Claim: "c", Secret: "s", Holder: "ann"},
	}})
	if want := (Claim{ID: "c", Secret: "s", Holder: "ann"}); c != want || n != (News{}) {
		t.Errorf("queued: %+v, %+v", c, n)
	}
	if n = c.Hear(granted(7, 5, here)); n.Granted == nil || n.Foreign != nil || n.Until != 5 || c.First != 7 {
		t.Errorf("granted: %+v, %+v", c, n)
	}
	c.Hear(&lockagentv1.ClaimEvent{Event: &lockagentv1.ClaimEvent_Warning{
		Warning: &lockagentv1.Warning{Wanted: true, Uncertain: true},
	}})
	if !c.Wanted || !c.Uncertain {
		t.Errorf("warned: %+v", c)
	}
	renewed := &lockagentv1.ClaimEvent{Event: &lockagentv1.ClaimEvent_Renewed{
		Renewed: &lockagentv1.Renewed{Deadline: &lockagentv1.Deadline{Boottime: 6, BootId: here}},
	}}
	if n = c.Hear(renewed); n.Until != 6 {
		t.Errorf("renewed: %+v", n)
	}
	renewed.GetRenewed().Deadline.BootId = "another"
	if n = c.Hear(renewed); n.Until != 0 {
		t.Errorf("renewed on another clock: %+v", n)
	}
	if n = c.Hear(granted(7, 8, here)); n.Granted != nil || !n.GoesOn || n.Until != 8 || n.Over != nil || c.Uncertain ||
		!c.Wanted {
		t.Errorf("granted as before, over a new connection: %+v, %+v", c, n)
	}
	if n = c.Hear(granted(8, 9, here)); !errors.Is(n.Over, refusal.ErrNoClaim) || n.GoesOn || n.Until != 0 ||
		c.First != 7 {
		t.Errorf("granted with another token: %+v, %+v", c, n)
	}
	for want, e := range map[error]*lockagentv1.Ended{
		lockagent.ErrReleased: {How: &lockagentv1.Ended_Released{Released: &lockagentv1.Released{}}},
		refusal.ErrForbidden:  {How: &lockagentv1.Ended_Denied{Denied: failure}},
		lockagent.ErrLost: {How: &lockagentv1.Ended_Lost{
			Lost: &lockagentv1.Lost{Reason: lockagentv1.LossReason_LOSS_REASON_BROKEN},
		}},
	} {
		if n = c.Hear(ended(e)); !errors.Is(n.Over, want) {
			t.Errorf("ended: %+v, want %v", n, want)
		}
	}
	c = Claim{Secret: "s"}
	if n = c.Hear(granted(7, 5, "another")); n.Granted == nil || n.Foreign == nil || n.Until != 0 {
		t.Errorf("granted on another clock: %+v", n)
	}
}
