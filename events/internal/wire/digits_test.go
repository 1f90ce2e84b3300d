package wire

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
)

// TestNumbers holds all numbers of four digits, of eight where a carry could be wrong, and many others,
// against the standard library.
func TestNumbers(t *testing.T) {
	check := func(n uint64) {
		t.Helper()
		if got, want := string(appendNumber([]byte("x"), n)), "x"+strconv.FormatUint(n, 10); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	}
	for n := range uint64(10_000) {
		check(n)
		check(n * 10_000)
		check(n*10_000 + 9_999)
	}
	for power := uint64(1); power < math.MaxUint64/10; power *= 10 {
		for n := uint64(1); n <= 9; n++ {
			check(n*power - 1)
			check(n * power)
			check(n*power + 1)
		}
	}
	check(math.MaxUint64)
	for range 100_000 {
		check(rand.Uint64() >> rand.UintN(64))
	}
}

func TestPadded(t *testing.T) {
	for _, test := range []struct {
		n      uint64
		digits int
		want   string
	}{
		{0, 6, "000000"},
		{7, 6, "000007"},
		{999_999, 6, "999999"},
		{123_456, 6, "123456"},
		{1, 4, "0001"},
		{2026, 4, "2026"},
		{12_345_678, 8, "12345678"},
	} {
		if got := string(appendPadded([]byte("x"), test.n, test.digits)); got != "x"+test.want {
			t.Errorf("%d with %d digits is %s", test.n, test.digits, got)
		}
	}
}
