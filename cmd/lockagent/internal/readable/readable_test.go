package readable

import (
	"testing"
	"time"
)

func TestNumber(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 7: "7", 999: "999", 1000: "1,000", 123456: "123,456", 1234567: "1,234,567",
		-1: "-1", -999: "-999", -1000: "-1,000", -123456: "-123,456",
	} {
		if got := Number(n); got != want {
			t.Errorf("Number(%d) is %q, want %q", n, got, want)
		}
	}
}

func TestCounted(t *testing.T) {
	for n, want := range map[int]string{0: "0 locks", 1: "1 lock", 2: "2 locks", 1000: "1,000 locks"} {
		if got := Counted(n, "lock", "locks"); got != want {
			t.Errorf("Counted(%d) is %q, want %q", n, got, want)
		}
	}
}

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                             "0s",
		7:                             "7ns",
		999:                           "999ns",
		1234:                          "1.23µs",
		850 * time.Microsecond:        "850µs",
		1234567:                       "1.23ms",
		45678901:                      "45.7ms",
		999999999:                     "1s",
		2123456789:                    "2.12s",
		90 * time.Second:              "1m30s",
		1234 * time.Millisecond:       "1.23s",
		3723456789 * time.Microsecond: "1h2m3s",
		-2123456789:                   "-2.12s",
	} {
		if got := Duration(d); got != want {
			t.Errorf("Duration(%d) is %q, want %q", d, got, want)
		}
	}
}

func TestPercent(t *testing.T) {
	for share, want := range map[float64]string{0: "0.0 %", 0.5: "50.0 %", 0.99999: "99.9 %", 1: "100.0 %"} {
		if got := Percent(share); got != want {
			t.Errorf("Percent(%v) is %q, want %q", share, got, want)
		}
	}
}

func TestTime(t *testing.T) {
	here := time.FixedZone("here", 2*60*60)
	now := time.Date(2026, 11, 21, 1, 2, 3, 0, here)
	for _, test := range []struct {
		t    time.Time
		want string
	}{
		{now.Add(time.Millisecond), "01:02:03.001+02:00"},
		{time.Date(2026, 11, 20, 23, 0, 0, 0, time.UTC), "01:00:00.000+02:00"},
		{time.Date(2026, 11, 20, 21, 0, 0, 0, time.UTC), "2026-11-20 23:00:00.000+02:00"},
		{now.AddDate(-1, 0, 0), "2025-11-21 01:02:03.000+02:00"},
	} {
		if got := Time(test.t, now); got != test.want {
			t.Errorf("Time(%v) is %q, want %q", test.t, got, test.want)
		}
	}
}

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 64 << 20: "64 MiB", 5 << 40: "5 TiB", 5 << 50: "5120 TiB",
	} {
		if got := Bytes(n); got != want {
			t.Errorf("%d bytes are %q, not %q", n, got, want)
		}
	}
}
