package lockagent_test

import (
	"testing"

	"github.com/lockagent/lockagent"
)

// TestHoldSum holds the function against what a program in Python has computed by its description.
func TestHoldSum(t *testing.T) {
	for _, c := range []struct {
		lock   lockagent.Name
		tenure uint64
		token  lockagent.Token
		want   uint64
	}{
		{"a", 1, 1, 0xcb2749f50992dbc4},
		{"orders/42", 12, 1795226584000100, 0x740f42b39e08a068},
		{"billing/invoices/42", lockagent.MaxTenure, lockagent.MaxToken, 0xe147903884e9f45d},
		{"Straße/ü", 7, 8, 0x6480ef15f5aa5b3c},
		{"12345678", 2, 3, 0x35b7bf083f06c6c0},
		{"\x00\x00\x00\x00\x00\x00\x00\x00", 2, 3, 0x85d5b4a4e2e664fc},
		{"\x00", 2, 3, 0x32516091de7b0b54},
		{"\x00\x00", 2, 3, 0xd088da4bbbfc3d91},
	} {
		if got := lockagent.HoldSum(c.lock, c.tenure, c.token); got != c.want {
			t.Errorf("HoldSum(%q, %d, %d) = %#x, want %#x", c.lock, c.tenure, c.token, got, c.want)
		}
	}
}

// TestHoldSumTellsSetsApart: no two sets of one or two holds have the same sum, and least of all those in which two
// holds have exchanged their tokens or tenures.
func TestHoldSumTellsSetsApart(t *testing.T) {
	type hold struct {
		lock   lockagent.Name
		tenure uint64
		token  lockagent.Token
	}
	var holds []hold
	for _, lock := range []lockagent.Name{"a", "b", "orders/42", "orders/43", "orders/0042"} {
		for tenure := range uint64(4) {
			for _, token := range []lockagent.Token{1, 2, 3, 1795226584000100, 1795226584000101, 1795226584000356} {
				holds = append(holds, hold{lock, 1000 + tenure, token})
			}
		}
	}
	seen := make(map[uint64][2]hold)
	note := func(sum uint64, h, g hold) {
		if other, found := seen[sum]; found {
			t.Errorf("%v and %v have the same sum", other, [2]hold{h, g})
		}
		seen[sum] = [2]hold{h, g}
	}
	note(0, hold{}, hold{})
	for i, h := range holds {
		sum := lockagent.HoldSum(h.lock, h.tenure, h.token)
		note(sum, h, hold{})
		for _, g := range holds[:i+1] {
			note(sum+lockagent.HoldSum(g.lock, g.tenure, g.token), h, g)
		}
	}
}

func TestHoldSumAllocatesNothing(t *testing.T) {
	name := lockagent.Name("billing/invoices/42")
	if n := testing.AllocsPerRun(10, func() { lockagent.HoldSum(name, 12, 13) }); n != 0 {
		t.Errorf("it allocates %v times", n)
	}
}

func BenchmarkHoldSum(b *testing.B) {
	name := lockagent.Name("billing/invoices/42")
	for b.Loop() {
		lockagent.HoldSum(name, 12, 1795226584000100)
	}
}
