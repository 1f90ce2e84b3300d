package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ParseMoment reads a point in time as people write it: in the forms that --at, --since and --until document, and as
// [readable.Time] writes it. What has no date is of today, and what has no zone is of now's place. There the clock may
// be set forward or back. A time that it shows twice, or never, is refused. A day is its beginning.
func ParseMoment(text string, now time.Time) (time.Time, error) {
	if ago, ok := parseAgo(text); ok {
		return now.Add(-ago), nil
	}
	if before, ok := map[string]int{"today": 0, "yesterday": 1}[text]; ok {
		y, m, d := now.Date()
		return shown(time.Date(y, m, d-before, 0, 0, 0, 0, time.UTC), text, now.Location())
	}
	// A fraction of a second may follow the seconds in all of these.
	for _, layout := range []string{
		time.RFC3339, "2006-01-02T15:04Z07:00", "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04Z07:00",
	} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	for _, layout := range []string{"15:04:05Z07:00", "15:04Z07:00"} {
		if t, err := time.Parse(layout, text); err == nil {
			y, m, d := now.In(t.Location()).Date()
			return t.AddDate(y, int(m)-1, d-1), nil // it was of the first day of the year 0
		}
	}
	for _, layout := range []string{
		time.DateTime, "2006-01-02 15:04", "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateOnly,
	} {
		if t, err := time.Parse(layout, text); err == nil {
			return shown(t, text, now.Location())
		}
	}
	for _, layout := range []string{time.TimeOnly, "15:04"} {
		if t, err := time.Parse(layout, text); err == nil {
			y, m, d := now.Date()
			return shown(t.AddDate(y, int(m)-1, d-1), text, now.Location())
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time such as 14:03:07, 10m (ago), yesterday, %s or %s", text,
		now.Format(time.DateTime), now.Format(time.RFC3339))
}

// parseAgo reads how long ago something was: a duration, with a minus or without, or a number of days.
func parseAgo(text string) (ago time.Duration, ok bool) {
	text = strings.TrimPrefix(text, "-")
	if days, ok := strings.CutSuffix(text, "d"); ok {
		const day = 24 * time.Hour
		n, err := strconv.ParseUint(days, 10, 16)
		return time.Duration(n) * day, err == nil
	}
	ago, err := time.ParseDuration(text)
	return ago, err == nil && ago >= 0
}

// shown returns when the clock of a place shows what the clock of UTC shows at t. It returns an error with two moments
// if the clock shows that twice, or never. text is what somebody wrote for it.
func shown(t time.Time, text string, place *time.Location) (time.Time, error) {
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	near := time.Date(year, month, day, hour, minute, second, t.Nanosecond(), place)
	at := func(moment time.Time) time.Time { // by the offset at that moment
		_, offset := moment.In(place).Zone()
		return t.Add(-time.Duration(offset) * time.Second).In(place)
	}
	start, end := near.ZoneBounds()
	for _, change := range []time.Time{start, end} {
		if change.IsZero() { // there is none
			continue
		}
		// Who goes on with the offset from before the change gets one moment, who has the later offset already gets
		// another one.
		before, after := at(change.Add(-1)), at(change)
		switch {
		case before.Before(change) && !after.Before(change):
			return time.Time{}, fmt.Errorf("%q is twice on %s, for the clock is set back then: write %s or %s",
				text, t.Format(time.DateOnly), before.Format(time.RFC3339Nano), after.Format(time.RFC3339Nano))
		case !before.Before(change) && after.Before(change):
			return time.Time{}, fmt.Errorf("%q is never on %s, for the clock is set forward then: write %s or %s",
				text, t.Format(time.DateOnly), after.Format(time.RFC3339Nano), before.Format(time.RFC3339Nano))
		}
	}
	return near, nil
}
