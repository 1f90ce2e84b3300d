package demo

import (
	"math"
	"strconv"
	"time"
)

// number is n with a comma between each three digits.
func number[N int | int64 | uint64](n N) string {
	digits := strconv.FormatInt(int64(n), 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		if digits[i-1] != '-' {
			digits = digits[:i] + "," + digits[i:]
		}
	}
	return digits
}

// brief is d with three digits, as in 850µs, 1.23ms, 45.6ms or 2.1s.
func brief(d time.Duration) string {
	unit := time.Duration(math.Pow10(max(0, int(math.Log10(math.Max(1, float64(d))))-2)))
	return d.Round(unit).String()
}

// percent is a share, never rounded up to 100 %.
func percent(share float64) string {
	return strconv.FormatFloat(math.Floor(share*1000)/10, 'f', 1, 64) + " %"
}
