package main

import (
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/logtest"
)

// A hold that an agent left in the store when it closed its locks is shown with the end of its lease, until the lock is
// granted to somebody else.
func TestLeaseThatWasLeft(t *testing.T) {
	const lock, left = "orders/42", "lost (closed), its lease ended at "
	start := time.Now().Add(-time.Hour)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	s := &logtest.Script{T: t}
	hold := lockagent.Event{Lock: lock, Owner: "joe", Request: 1, Tenure: 1, Token: 100, Lease: time.Minute, Fixed: true}
	granted, lost := hold, hold
	granted.Kind, granted.How, granted.Count = lockagent.EventGranted, lockagent.ByStore, 1
	granted.StoreTime = lockagent.StoreTime(at(1).UnixMicro())
	lost.Kind, lost.Held, lost.Reason = lockagent.EventLost, time.Second, lockagent.LostClosed
	lost.Confirmed, lost.Until = granted.StoreTime, lockagent.StoreTime(at(2).UnixMicro())
	s.Add("a", at(0), lockagent.Event{Kind: lockagent.EventAgentStarted})
	s.Add("a", at(1), granted)
	s.Add("a", at(2), lost)
	s.Add("a", at(3), lockagent.Event{Kind: lockagent.EventAgentStopped})
	look := func(want bool, verb ...string) {
		t.Helper()
		r := callWith(t, s.Text.String(), append(append([]string{"events"}, verb...), "--file", "-")...)
		r.expect(t, cli.ExitOK, []string{"lost (closed)"}, nil)
		if strings.Contains(r.stdout, left) != want {
			t.Errorf("%q says\n%s", verb, r.stdout)
		}
	}
	history, state := []string{"history", lock}, []string{"state", lock, "--at", at(10).Format(time.RFC3339Nano)}
	look(true, history...)
	look(true, state...)
	callWith(t, s.Text.String(), "events", "state", lock, "--at", at(10).Format(time.RFC3339Nano), "--file", "-").
		expect(t, cli.ExitOK, []string{"left     nobody held it, but its lease stayed in the store"}, nil)

	next := granted
	next.Owner, next.Token, next.Tenure, next.StoreTime = "sue", 200, 2, lockagent.StoreTime(at(70).UnixMicro())
	s.Add("b", at(70), next)
	look(false, history...)
}
