package storetest

import (
	"strings"
	"testing"

	"github.com/lockagent/lockagent"
)

var breakClauses = []clause{
	{
		name: "a break tells when, and whether the lock was held",
		says: "At is when the store broke the lock, or found it free.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			breaks := func(broken bool) lockagent.StoreTime {
				t.Helper()
				reply, err := startBreak(t, two.store, two.breaking(theLock)).await()
				if err != nil || reply.Broken != broken {
					t.Fatalf("Break = %+v, %v; want Broken %t", reply, err, broken)
				}
				return reply.At
			}
			found := breaks(false)
			begun := one.acquire(theLock, 1).At
			broken := breaks(true)
			one.sees(theLock, "")
			again := breaks(false)
			next := one.acquire(theLock, 2).At
			if found <= 0 || found > begun || begun > broken || broken > again || again > next {
				t.Errorf("times go back: free at %d, acquired %d, broken %d, free %d, acquired %d",
					found, begun, broken, again, next)
			}
		},
	},
	{
		name: "the agent of the tenure learns who broke it",
		says: "Operator is who breaks the lock: any text up to [MaxNameLen] bytes, or empty.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			for number, operator := range []string{
				"olga", "", "-", " ", "olga at ops/7 (+1, 100 %2D)", "Öl\xff\x00\n\"", strings.Repeat("%", lockagent.MaxNameLen),
			} {
				one.acquire(theLock, uint64(number+1))
				reply, err := startBreak(t, two.store,
					lockagent.BreakRequest{Name: theLock, Kind: two.kind, Operator: operator}).await()
				if err != nil || !reply.Broken {
					t.Fatalf("Break by %q = %+v, %v", operator, reply, err)
				}
				if told := one.hears(lockagent.MessageBroken, uint64(number+1)); told.Operator != operator {
					t.Errorf("told that %q broke the lock; want %q", told.Operator, operator)
				}
			}
		},
	},
}
