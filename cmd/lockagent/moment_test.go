package main

import (
	"strings"
	"testing"
	"time"
)

func TestParseMoment(t *testing.T) {
	here := time.FixedZone("here", 2*60*60)
	now := time.Date(2026, 11, 21, 15, 0, 0, 0, here)
	for text, want := range map[string]time.Time{
		"14:03:07":                  time.Date(2026, 11, 21, 14, 3, 7, 0, here),
		"14:03:07.123456":           time.Date(2026, 11, 21, 14, 3, 7, 123456000, here),
		"14:03":                     time.Date(2026, 11, 21, 14, 3, 0, 0, here),
		"23:59:59":                  time.Date(2026, 11, 21, 23, 59, 59, 0, here),
		"2026-11-20 14:03:07.5":     time.Date(2026, 11, 20, 14, 3, 7, 5e8, here),
		"2026-11-20T14:03:07":       time.Date(2026, 11, 20, 14, 3, 7, 0, here),
		"2026-11-20":                time.Date(2026, 11, 20, 0, 0, 0, 0, here),
		"2026-11-20T14:03:07Z":      time.Date(2026, 11, 20, 16, 3, 7, 0, here),
		"2026-11-20T14:03:07+01:00": time.Date(2026, 11, 20, 15, 3, 7, 0, here),
		"-10m":                      now.Add(-10 * time.Minute),
		"-1h30m":                    now.Add(-90 * time.Minute),
		"-0s":                       now,
	} {
		if got, err := parseMoment(text, now); err != nil || !got.Equal(want) {
			t.Errorf("parseMoment(%q) is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "now", "10m", "-", "--10m", "-ten", "25:00:00", "14:03:07 yesterday", "2026-13-01"} {
		got, err := parseMoment(text, now)
		if err == nil || !strings.Contains(err.Error(), "is no time") {
			t.Errorf("parseMoment(%q) is %v, %v", text, got, err)
		}
	}
}
