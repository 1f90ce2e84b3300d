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
			one := h.agent(t)
			for _, lease := range leases {
				wish := one.wish(theLock, 1)
				wish.Lease = lease
				one.refusedOption(wish)
			}
			one.sees(theLock, "")
			one.acquire(theLock, 1)
			for _, lease := range leases {
				reply, err := Renew(t, one.store, one.renewal(theLock, 1, lease))
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
		name: "a last token that is none",
		says: "Tokens are greater than zero and at most [MaxToken]; zero means that nothing is held.",
		prove: func(t *testing.T, h *Harness) {
			one := h.agent(t)
			one.acquire(theLock, 1)
			req := one.ending(theLock, 1)
			for _, last := range []lockagent.Token{lockagent.MaxToken + 1, math.MaxUint64} {
				req.Last = last
				if reply, err := Release(t, one.store, req); !errors.Is(err, lockagent.ErrBadOption) {
					t.Errorf("Release(%+v) = %+v, %v; want ErrBadOption", req, reply, err)
				}
			}
			one.sees(theLock, one.tenure(1).String())
		},
	},
	{
		name: "an operator who is too long",
		says: "Operator is who breaks the lock: any text up to [MaxNameLen] bytes, or empty.",
		prove: func(t *testing.T, h *Harness) {
			one := h.agent(t)
			h.needs(t, withOperator)
			one.acquire(theLock, 1)
			req := lockagent.BreakRequest{Name: theLock, Kind: one.kind, Operator: strings.Repeat("o", lockagent.MaxNameLen+1)}
			if reply, err := startBreak(t, one.store, req).await(); !errors.Is(err, lockagent.ErrBadOption) {
				t.Errorf("Break = %+v, %v; want ErrBadOption", reply, err)
			}
			one.sees(theLock, one.tenure(1).String())
		},
	},
	{
		name: "a trace that is none",
		says: "Trace is the W3C trace context of the release if it is sampled, or empty.",
		prove: func(t *testing.T, h *Harness) {
			one := h.agent(t)
			one.acquire(theLock, 1)
			req := one.ending(theLock, 1)
			for _, trace := range []string{
				"-", "x", strings.ToUpper(aTrace), aTrace + "0", strings.Replace(aTrace, "-", " ", 1),
			} {
				req.Trace = trace
				if reply, err := Release(t, one.store, req); !errors.Is(err, lockagent.ErrBadOption) {
					t.Errorf("Release(%+v) = %+v, %v; want ErrBadOption", req, reply, err)
				}
			}
			one.sees(theLock, one.tenure(1).String())
		},
	},
	{
		name: "tenures without a number",
		says: "between 1 and MaxTenure; an agent uses each number once for a lock",
		prove: func(t *testing.T, h *Harness) {
			one := h.agent(t)
			for _, number := range []uint64{0, lockagent.MaxTenure + 1, 1 << 63, math.MaxUint64} {
				one.refusedOption(one.wish(theLock, number))
				reply, err := Renew(t, one.store, one.renewal(theLock, number, minute))
				if !errors.Is(err, lockagent.ErrBadOption) {
					t.Errorf("Renew(%s) = %+v, %v; want ErrBadOption", one.tenure(number), reply, err)
				}
				if reply, err := Release(t, one.store, one.ending(theLock, number)); !errors.Is(err, lockagent.ErrBadOption) {
					t.Errorf("Release(%s) = %+v, %v; want ErrBadOption", one.tenure(number), reply, err)
				}
			}
			one.sees(theLock, "")
			one.acquire(theLock, 1)
		},
	},
	{
		name: "names that no lock can have",
		says: "A Name converted from a string is checked when it is used.",
		prove: func(t *testing.T, h *Harness) {
			one := h.agent(t)
			for _, name := range []lockagent.Name{
				"", "x{", "a}b", "{}z", "\xff",
				lockagent.Name(strings.Repeat("x", lockagent.MaxNameLen+1)),
			} {
				if reply, err := one.try(one.wish(name, 1)); !errors.Is(err, lockagent.ErrBadName) {
					t.Errorf("Acquire(%.20q) = %+v, %v; want ErrBadName", name, reply, err)
				}
				one.fails(name, lockagent.ErrBadName)
			}
		},
	},
}

// fails makes all calls about a lock but Acquire, and expects the same error of each.
func (p *party) fails(name lockagent.Name, want error) {
	p.t.Helper()
	expect := func(what string, err error) {
		p.t.Helper()
		if !errors.Is(err, want) {
			p.t.Errorf("%s(%.20q) of a %s lock: error %v; want %v", what, name, p.kind, err, want)
		}
	}
	_, err := Renew(p.t, p.store, p.renewal(name, 1, minute))
	expect("Renew", err)
	_, err = Release(p.t, p.store, p.ending(name, 1))
	expect("Release", err)
	_, err = inspect(p.t, p.store, name, p.kind)
	expect("Inspect", err)
	if p.offers(withOperator) {
		_, err = breakLock(p.t, p.store, p.breaking(name))
		expect("Break", err)
	}
}
