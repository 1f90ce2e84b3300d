package main

import (
	"fmt"
	"strings"
	"time"
)

// parseMoment reads a point in time as people write it: in the forms that --at and --since document.
// What has no date is of today, and what has no zone is of now's place.
func parseMoment(text string, now time.Time) (time.Time, error) {
	if ago, ok := strings.CutPrefix(text, "-"); ok {
		d, err := time.ParseDuration(ago)
		if err != nil || d < 0 {
			return time.Time{}, fmt.Errorf("%q is no time: after - comes a duration such as 10m", text)
		}
		return now.Add(-d), nil
	}
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return t, nil
	}
	// A fraction of a second may follow the seconds in all of these.
	for _, layout := range []string{time.DateTime, "2006-01-02T15:04:05", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return t, nil
		}
	}
	for _, layout := range []string{time.TimeOnly, "15:04"} {
		if t, err := time.Parse(layout, text); err == nil {
			y, m, d := now.Date()
			return time.Date(y, m, d, t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), now.Location()), nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time such as 14:03:07, -10m, %s or %s", text,
		now.Format(time.DateTime), now.Format(time.RFC3339))
}
