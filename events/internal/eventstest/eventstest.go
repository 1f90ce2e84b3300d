// Package eventstest has events for the tests of the event log.
package eventstest

import (
	"fmt"
	"time"

	"github.com/lockagent/lockagent"
)

const Agent = lockagent.AgentID("3f0c1a52-7b6e-4d7f-9a38-5a1d6f0e2b91")

// Full has something in each field.
func Full(kind lockagent.EventKind) lockagent.Event {
	return lockagent.Event{
		Kind:     kind,
		Agent:    Agent,
		Time:     time.Date(2026, 11, 21, 2, 3, 4, 5000, time.UTC),
		Store:    "5a6d2f0e-0c55-4b8e-8f6c-0d5d1a7c2b11",
		Lock:     "billing/invoices/42",
		LockKind: lockagent.PlainLock,
		Mode:     lockagent.Exclusive,
		Owner:    "worker-7",
		Who: lockagent.Process{
			Host: "host-42", Program: "backup.sh", Version: "v3", PID: 31, User: "root", Command: "backup.sh \"all\"",
		}.Who(),
		Request:     11,
		Tenure:      12,
		Token:       lockagent.MaxToken,
		How:         lockagent.ByHandOff,
		Count:       13,
		Sum:         0x0f1e2d3c4b5a6978,
		Permits:     27,
		Total:       -28,
		Op:          lockagent.AddPermits,
		Permit:      "0af7651916cd43dd8448eb211c80319c",
		Replicas:    29,
		Holds:       30,
		Waiters:     14,
		Waited:      15 * time.Microsecond,
		Held:        16 * time.Second,
		Lease:       17 * time.Hour,
		Fixed:       true,
		Remaining:   -18 * time.Millisecond,
		StoreTime:   1_795_000_000_000_019,
		Until:       1_795_000_000_000_020,
		Confirmed:   1_795_000_000_000_021,
		Returned:    1_795_000_000_000_022,
		Incarnation: "run-21",
		Holder:      "worker-8",
		Operator:    "ops@host",
		Reason:      lockagent.LostDenied,
		Err:         "refused: \"why\"\n",
		Reset: lockagent.Reset{
			From: "run-21", To: "run-22", Reason: "emptied", After: 23, Before: 24, Step: -25 * time.Microsecond,
			Store: "another",
		},
		Grace: &lockagent.GracePeriod{
			Incarnation: "run-22", Reason: "emptied \"now\"", Began: 26, Ended: 1_795_000_000_000_027,
			Roll: []lockagent.AgentID{Agent, "agent-2"}, More: 31,
		},
		Process: lockagent.Process{
			Host: "host-42", Program: "billing", Version: "v1.2.3", PID: 25, User: "billing", Command: "billing --all",
		},
		TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	}
}

// Typical is a hold as most are.
func Typical(request uint64) lockagent.Event {
	return lockagent.Event{
		Kind: lockagent.EventHeld, Agent: Agent, Time: time.Date(2026, 11, 21, 2, 3, 4, 5000, time.UTC),
		Store: "5a6d2f0e-0c55-4b8e-8f6c-0d5d1a7c2b11", Lock: "billing/invoices/42",
		LockKind: lockagent.PlainLock, Mode: lockagent.Exclusive, Owner: "worker-7", Request: request, Tenure: 12,
		Token: 1_795_000_000_000_019, How: lockagent.ByHandOff, Waited: 150 * time.Microsecond, Held: 1600 * time.Microsecond,
		Lease: 10 * time.Second, StoreTime: 1_795_000_000_000_019, Until: 1_795_000_000_000_020,
		Confirmed: 1_795_000_000_000_021, Incarnation: "3f0c1a527b6e4d7f9a385a1d6f0e2b913f0c1a52",
	}
}

// Step is what the tests of the queue record, and what they expect of it.
func Step(kind lockagent.EventKind, lock lockagent.Name, n uint64) lockagent.Event {
	e := lockagent.Event{
		Kind: kind, Lock: lock, Request: n, Tenure: 1, Token: lockagent.Token(n), Owner: lockagent.Owner(fmt.Sprint("w", n)),
	}
	switch kind {
	case lockagent.EventGranted:
		e.Count, e.StoreTime, e.Waited = 1, 7, 8
		e.Time = time.Unix(int64(n), 0).UTC()
	case lockagent.EventReleased:
		e.Held, e.Until, e.Confirmed = 9, 10, 11
	case lockagent.EventReturned:
		e.Request, e.Token, e.Owner, e.Returned = 0, 0, "", 12
	case lockagent.EventRequested, lockagent.EventQueued:
		e.Waiters, e.Holder = int(n), fmt.Sprint("h", n)
	}
	return e
}
