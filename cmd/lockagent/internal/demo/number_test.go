package demo

import (
	"testing"
	"time"
)

func TestNumber(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 7: "7", 999: "999", 1000: "1,000", 123456: "123,456", 1234567: "1,234,567",
		-1: "-1", -999: "-999", -1000: "-1,000", -123456: "-123,456",
	} {
		if got := number(n); got != want {
			t.Errorf("number(%d) is %q, want %q", n, got, want)
		}
	}
}

func TestBrief(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                       "0s",
		7:                       "7ns",
		999:                     "999ns",
		1234:                    "1.23µs",
		850 * time.Microsecond:  "850µs",
		1234567:                 "1.23ms",
		45678901:                "45.7ms",
		999999999:               "1s",
		2123456789:              "2.12s",
		90 * time.Second:        "1m30s",
		1234 * time.Millisecond: "1.23s",
	} {
		if got := brief(d); got != want {
			t.Errorf("brief(%d) is %q, want %q", d, got, want)
		}
	}
}

func TestPercent(t *testing.T) {
	for share, want := range map[float64]string{0: "0.0 %", 0.5: "50.0 %", 0.99999: "99.9 %", 1: "100.0 %"} {
		if got := percent(share); got != want {
			t.Errorf("percent(%v) is %q, want %q", share, got, want)
		}
	}
}

func TestRedacted(t *testing.T) {
	for url, want := range map[string]string{
		"nats://127.0.0.1:4222":              "nats://127.0.0.1:4222",
		"nats://joe:secret@a:1,nats://b:2":   "nats://joe:xxxxx@a:1,nats://b:2",
		"nats://secret@a:1":                  "nats://xxxxx@a:1",
		"nats://joe:sec ret%zz@127.0.0.1:42": "an address that cannot be understood",
	} {
		if got := Redacted(url); got != want {
			t.Errorf("Redacted(%q) is %q, want %q", url, got, want)
		}
	}
}
