package storetest

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

var badRequestClauses = []clause{
	{
		name: "leases out of range",
		says: "CheckLease returns an [*OptionError] unless d is between [MinLease] and [MaxLease].",
		prove: func(t *testing.T, h *Harness) {
			leases := []time.Duration{math.MinInt64, -1, 0, 1, lockagent.MinLease - 1, lockagent.MaxLease + 1, math.MaxInt64}
			one, _ := h.pair(t)
			for _, lease := range leases {
				wish := one.wish(theLock, 1)
				wish.Lease = lease
				one.refusedOption(wish)
			}
			one.sees(theLock, "")
			one.acquire(theLock, 1)
			for _, lease := range leases {
				reply, err := Renew(t, one.store, lockagent.RenewRequest{Name: theLock, Tenure: one.tenure(1), Lease: lease})
				if !errors.Is(err, lockagent.ErrBadOption) || reply.Held {
					t.Errorf("Renew with a lease of %v = %+v, %v; want ErrBadOption", lease, reply, err)
				}
			}
			if left := one.sees(theLock, one.tenure(1).String()).Remaining; left > minute {
				t.Errorf("%v left of a lease of %v", left, minute)
			}
		},
	},
	{
		name: "fewer than one token",
		says: "At least 1.",
		prove: func(t *testing.T, h *Harness) {
			one, _ := h.pair(t)
			for _, tokens := range []int{0, -1, math.MinInt} {
				wish := one.wish(theLock, 1)
				wish.Tokens = tokens
				one.refusedOption(wish)
			}
			one.sees(theLock, "")
		},
	},
	{
		name: "tenures without a number",
		says: "at least 1, at most 2^63-1; grows with each tenure of an agent on a lock",
		prove: func(t *testing.T, h *Harness) {
			one, _ := h.pair(t)
			for _, number := range []uint64{0, 1 << 63, math.MaxUint64} {
				one.refusedOption(one.wish(theLock, number))
				if reply, err := Renew(t, one.store, lockagent.RenewRequest{Name: theLock, Tenure: one.tenure(number), Lease: minute}); !errors.Is(err, lockagent.ErrBadOption) {
					t.Errorf("Renew(%s) = %+v, %v; want ErrBadOption", one.tenure(number), reply, err)
				}
				if reply, err := Release(t, one.store, lockagent.ReleaseRequest{Name: theLock, Tenure: one.tenure(number)}); !errors.Is(err, lockagent.ErrBadOption) {
					t.Errorf("Release(%s) = %+v, %v; want ErrBadOption", one.tenure(number), reply, err)
				}
			}
			one.sees(theLock, "")
			one.acquire(theLock, 1)
		},
	},
	{
		name: "names that no lock can have",
		says: "a conversion from a string is not checked until it is used.",
		prove: func(t *testing.T, h *Harness) {
			one, _ := h.pair(t)
			for _, name := range []lockagent.Name{
				"", "x{", "a}b", "{}z", "\xff",
				lockagent.Name(strings.Repeat("x", lockagent.MaxNameLen+1)),
			} {
				bad := func(what string, err error) {
					t.Helper()
					if !errors.Is(err, lockagent.ErrBadName) {
						t.Errorf("%s(%.20q): error %v; want ErrBadName", what, name, err)
					}
				}
				_, err := one.try(one.wish(name, 1))
				bad("Acquire", err)
				_, err = Renew(t, one.store, lockagent.RenewRequest{Name: name, Tenure: one.tenure(1), Lease: minute})
				bad("Renew", err)
				_, err = Release(t, one.store, lockagent.ReleaseRequest{Name: name, Tenure: one.tenure(1)})
				bad("Release", err)
				_, err = Break(t, one.store, name)
				bad("Break", err)
				_, err = Inspect(t, one.store, name)
				bad("Inspect", err)
			}
		},
	},
}
