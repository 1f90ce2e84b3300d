// Package readable writes numbers, durations and times as people read them.
package readable

import (
	"math"
	"strconv"
	"time"
)

// Number is n with a comma between each three digits.
func Number[N int | int64 | uint64](n N) string {
	digits := strconv.FormatInt(int64(n), 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		if digits[i-1] != '-' {
			digits = digits[:i] + "," + digits[i:]
		}
	}
	return digits
}

// Counted is a number with the noun that it counts.
func Counted[N int | int64 | uint64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return Number(n) + " " + many
}

// Duration is d with three digits, as in 850µs, 1.23ms, 45.6ms or 2.1s. From a minute on it is
// in whole seconds, as in 1h2m5s.
func Duration(d time.Duration) string {
	if d >= time.Minute || d <= -time.Minute {
		return d.Round(time.Second).String()
	}
	unit := time.Duration(math.Pow10(max(0, int(math.Log10(math.Max(1, math.Abs(float64(d)))))-2)))
	return d.Round(unit).String()
}

// Bytes writes a number of bytes, such as 1.5 GiB.
func Bytes(n int64) string {
	const step = 1 << 10
	units, size := []string{"B", "KiB", "MiB", "GiB", "TiB"}, float64(n)
	for len(units) > 1 && size >= step {
		units, size = units[1:], size/step
	}
	return strconv.FormatFloat(math.Round(size*10)/10, 'f', -1, 64) + " " + units[0]
}

// Percent is a share, never rounded up to 100 %.
func Percent(share float64) string {
	return strconv.FormatFloat(math.Floor(share*1000)/10, 'f', 1, 64) + " %"
}

// Time is t on the clock of now's place, to the millisecond and with its zone: that clock may be set forward or back.
// The date stands before it unless it is that of now.
func Time(t, now time.Time) string {
	t = t.In(now.Location())
	if sameDay(t, now) {
		return t.Format("15:04:05.000Z07:00")
	}
	return t.Format("2006-01-02 15:04:05.000Z07:00")
}

func sameDay(a, b time.Time) bool {
	y1, m1, d1 := a.Date()
	y2, m2, d2 := b.Date()
	return y1 == y2 && m1 == m2 && d1 == d2
}
