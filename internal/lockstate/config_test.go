package lockstate

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lockagent/lockagent"
)

func leases(t *rapid.T, label string) time.Duration {
	return time.Duration(rapid.Int64Range(int64(lockagent.MinLease), int64(lockagent.MaxLease)).Draw(t, label))
}

func TestTrust(t *testing.T) {
	for _, tt := range []struct{ lease, trust time.Duration }{
		{time.Millisecond, 900 * time.Microsecond},
		{10 * time.Second, 9 * time.Second},
		{20 * time.Second, 18 * time.Second},
		{30 * time.Second, 28 * time.Second},
		{time.Hour, time.Hour - 2*time.Second},
	} {
		if got := Trust(tt.lease); got != tt.trust {
			t.Errorf("a lease of %v is trusted for %v, want %v", tt.lease, got, tt.trust)
		}
	}
}

func TestTrustIsShorterThanTheLeaseButLongerThanTheTimeToItsRenewal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lease := leases(t, "lease")
		trust := Trust(lease)
		if trust >= lease || lease-trust > marginMost || lease-trust > lease/marginPart {
			t.Fatalf("a lease of %v is trusted for %v", lease, trust)
		}
		if trust-lease/3 < lease/3 {
			t.Fatalf("a lease of %v leaves %v for its renewal", lease, trust-lease/3)
		}
		if longer := leases(t, "longer"); longer > lease && Trust(longer) < trust {
			t.Fatalf("a lease of %v is trusted for %v, one of %v for %v", lease, trust, longer, Trust(longer))
		}
	})
}

func TestLeaseForIsTrustedForAsLongAsAskedAndNotMuchLonger(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(1, int64(lockagent.MaxLease)).Draw(t, "d"))
		lease := new(Config).leaseFor(d)
		if got := Trust(lease); got < d {
			t.Fatalf("a lease of %v for %v is trusted for %v only", lease, d, got)
		}
		if lease-d > d/(marginPart-1) || lease-d > marginMost {
			t.Fatalf("a lease of %v for %v", lease, d)
		}
	})
}

func TestLeaseForWhatALeaseIsTrustedForIsThatLease(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lease := leases(t, "lease")
		if got := new(Config).leaseFor(Trust(lease)); got < lease-1 || got > lease+1 {
			t.Fatalf("a lease of %v becomes one of %v", lease, got)
		}
	})
	if got := new(Config).leaseFor(Trust(lockagent.MaxLease)); got > lockagent.MaxLease {
		t.Errorf("the longest lease becomes one of %v", got)
	}
}

// A margin that is configured takes its time from each lease, but no more than half.
func TestMargin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{Margin: leases(t, "margin")}
		lease := leases(t, "lease")
		trust := cfg.trust(lease)
		if want := max(lease-cfg.Margin, lease-lease/2); trust != want {
			t.Fatalf("a lease of %v is trusted for %v, want %v", lease, trust, want)
		}
		if got := cfg.leaseFor(trust); got < lease-1 || got > lease+1 {
			t.Fatalf("a lease of %v becomes one of %v", lease, got)
		}
	})
	var none Config
	if got := none.trust(time.Hour); got != Trust(time.Hour) {
		t.Errorf("without a margin an hour is trusted for %v", got)
	}
}

func TestBackoffGrowsToItsBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{
			RetryMin: time.Duration(rapid.Int64Range(1, int64(time.Minute)).Draw(t, "min")),
			RetryMax: time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "max")),
		}
		failures := rapid.IntRange(1, 1_000_000).Draw(t, "failures")
		m := Moment{Fresh: rapid.Uint64().Draw(t, "fresh")}
		got := cfg.backoff(failures, m)
		full := time.Duration(min(float64(cfg.RetryMax), float64(cfg.RetryMin)*math.Pow(2, float64(failures-1))))
		if got < full/2 || got > full {
			t.Fatalf("the pause after %d failures is %v, want %v to %v", failures, got, full/2, full)
		}
	})
}

func TestSleepIsALittleLongerThanTheLease(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{MaxSleep: time.Minute}
		left := time.Duration(rapid.Int64Range(-int64(time.Hour), int64(time.Hour)).Draw(t, "left"))
		bound := rapid.SampledFrom([]time.Duration{queuedSleep, unplacedSleep, unboundedSleep}).Draw(t, "bound")
		got := cfg.sleep(left, bound, Moment{Fresh: rapid.Uint64().Draw(t, "fresh")})
		want, most := left, min(cfg.MaxSleep, bound)
		if left < 0 || left > most {
			want = most
		}
		if got <= want || got > want+101*time.Millisecond {
			t.Fatalf("sleeps %v when %v are left", got, left)
		}
	})
}

func TestScatter(t *testing.T) {
	t.Run("stays below its bound", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			most := time.Duration(rapid.Int64Range(-5, int64(time.Hour)).Draw(t, "most"))
			got := Moment{Fresh: rapid.Uint64().Draw(t, "fresh")}.scatter(most)
			if got < 0 || got > 0 && got >= most {
				t.Fatalf("scatters %v below %v", got, most)
			}
		})
	})
	t.Run("spreads evenly over the steps of an agent", func(t *testing.T) {
		const parts, steps = 10, 10_000
		var hits [parts]int
		for fresh := range uint64(steps) {
			hits[Moment{Fresh: fresh}.scatter(parts)]++
		}
		for part, n := range hits {
			if n < steps/parts*8/10 || n > steps/parts*12/10 {
				t.Errorf("part %d was hit %d times, want about %d: %v", part, n, steps/parts, hits)
			}
		}
	})
}
