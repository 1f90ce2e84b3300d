package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/readable"
)

func TestParseMoment(t *testing.T) {
	here := time.FixedZone("here", 2*60*60)
	now := time.Date(2026, 11, 21, 15, 0, 0, 0, here)
	for text, want := range map[string]time.Time{
		"14:03:07":                    time.Date(2026, 11, 21, 14, 3, 7, 0, here),
		"14:03:07.123456":             time.Date(2026, 11, 21, 14, 3, 7, 123456000, here),
		"14:03":                       time.Date(2026, 11, 21, 14, 3, 0, 0, here),
		"23:59:59":                    time.Date(2026, 11, 21, 23, 59, 59, 0, here),
		"2026-11-20 14:03:07.5":       time.Date(2026, 11, 20, 14, 3, 7, 5e8, here),
		"2026-11-20T14:03:07":         time.Date(2026, 11, 20, 14, 3, 7, 0, here),
		"2026-11-20":                  time.Date(2026, 11, 20, 0, 0, 0, 0, here),
		"2026-11-20T14:03:07Z":        time.Date(2026, 11, 20, 16, 3, 7, 0, here),
		"2026-11-20T14:03:07+01:00":   time.Date(2026, 11, 20, 15, 3, 7, 0, here),
		"2026-11-20 14:03:07.5+01:00": time.Date(2026, 11, 20, 15, 3, 7, 5e8, here),
		"14:03:07.5+02:00":            time.Date(2026, 11, 21, 14, 3, 7, 5e8, here),
		"23:30:00-10:00":              time.Date(2026, 11, 22, 11, 30, 0, 0, here), // there it is the 21st
		"14:03:07Z":                   time.Date(2026, 11, 21, 16, 3, 7, 0, here),
		"-10m":                        now.Add(-10 * time.Minute),
		"-1h30m":                      now.Add(-90 * time.Minute),
		"-0s":                         now,
		"10m":                         now.Add(-10 * time.Minute),
		"2d":                          now.Add(-48 * time.Hour),
		"-2d":                         now.Add(-48 * time.Hour),
		"today":                       time.Date(2026, 11, 21, 0, 0, 0, 0, here),
		"yesterday":                   time.Date(2026, 11, 20, 0, 0, 0, 0, here),
		"2026-11-20 14:03":            time.Date(2026, 11, 20, 14, 3, 0, 0, here),
		"2026-11-20T14:03":            time.Date(2026, 11, 20, 14, 3, 0, 0, here),
		"2026-11-20 14:03Z":           time.Date(2026, 11, 20, 16, 3, 0, 0, here),
		"2026-11-20T14:03+01:00":      time.Date(2026, 11, 20, 15, 3, 0, 0, here),
		"14:03Z":                      time.Date(2026, 11, 21, 16, 3, 0, 0, here),
	} {
		if got, err := ParseMoment(text, now); err != nil || !got.Equal(want) {
			t.Errorf("parseMoment(%q) is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "now", "d", "-", "--10m", "-ten", "1.5d", "tomorrow", "25:00:00", "14:03:07 yesterday", "2026-13-01",
	} {
		got, err := ParseMoment(text, now)
		if err == nil || !strings.Contains(err.Error(), "is no time") {
			t.Errorf("parseMoment(%q) is %v, %v", text, got, err)
		}
	}
}

// TestParseMomentWhenTheClockIsSet: what a clock shows twice, or never, is no moment, and both that it may be are
// named. Each of them is taken, and is written so that it is known again.
func TestParseMomentWhenTheClockIsSet(t *testing.T) {
	for _, test := range []struct{ place, now, text, what, first, second string }{
		{
			"Europe/Berlin", "2026-10-25T12:00:00Z", "02:30", "twice on 2026-10-25, for the clock is set back",
			"2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00",
		},
		{
			"Europe/Berlin", "2026-10-25T00:15:00Z", "02:00:00", "twice", "2026-10-25T02:00:00+02:00",
			"2026-10-25T02:00:00+01:00",
		},
		{
			"Europe/Berlin", "2026-11-25T12:00:00Z", "2026-10-25 02:59:59.5", "twice", "2026-10-25T02:59:59.5+02:00",
			"2026-10-25T02:59:59.5+01:00",
		},
		{
			"Europe/Berlin", "2026-03-29T12:00:00Z", "02:30", "never on 2026-03-29, for the clock is set forward",
			"2026-03-29T01:30:00+01:00", "2026-03-29T03:30:00+02:00",
		},
		{
			"Europe/Berlin", "2026-03-29T12:00:00Z", "2026-03-29T02:00:00", "never", "2026-03-29T01:00:00+01:00",
			"2026-03-29T03:00:00+02:00",
		},
		{
			"America/New_York", "2026-12-01T00:00:00Z", "2026-11-01 01:00:00", "twice", "2026-11-01T01:00:00-04:00",
			"2026-11-01T01:00:00-05:00",
		},
		{
			"Australia/Lord_Howe", "2026-12-01T00:00:00Z", "2026-10-04 02:15:00", "never", "2026-10-04T01:45:00+10:30",
			"2026-10-04T02:45:00+11:00",
		},
		{
			"America/Sao_Paulo", "2019-01-01T00:00:00Z", "2018-11-04", "never", "2018-11-03T23:00:00-03:00",
			"2018-11-04T01:00:00-02:00",
		},
		{
			"Pacific/Apia", "2012-01-01T00:00:00Z", "2011-12-30 12:00:00", "never", "2011-12-29T12:00:00-10:00",
			"2011-12-31T12:00:00+14:00",
		},
	} {
		place, err := time.LoadLocation(test.place)
		if err != nil {
			t.Fatal(err)
		}
		now, err := time.Parse(time.RFC3339, test.now)
		if err != nil {
			t.Fatal(err)
		}
		now = now.In(place)
		got, err := ParseMoment(test.text, now)
		if err == nil || !strings.Contains(err.Error(), test.what) ||
			!strings.HasSuffix(err.Error(), "write "+test.first+" or "+test.second) {
			t.Errorf("%s in %s is %v, %v", test.text, test.place, got, err)
		}
		for _, text := range []string{test.first, test.second} {
			moment, err := ParseMoment(text, now)
			if err != nil {
				t.Fatal(err)
			}
			if again, err := ParseMoment(readable.Time(moment, now), now); err != nil || !again.Equal(moment) {
				t.Errorf("%s is written %s, which is %v, %v", text, readable.Time(moment, now), again, err)
			}
		}
	}
}

// TestParseMomentBesideTheChange: the hours before and after it are as on other days.
func TestParseMomentBesideTheChange(t *testing.T) {
	place, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"2026-10-25 01:59:59": "2026-10-24T23:59:59Z",
		"2026-10-25 03:00:00": "2026-10-25T02:00:00Z",
		"2026-03-29 01:59:59": "2026-03-29T00:59:59Z",
		"2026-03-29 03:00:00": "2026-03-29T01:00:00Z",
	} {
		got, err := ParseMoment(text, time.Date(2026, 11, 21, 15, 0, 0, 0, place))
		if err != nil || got.UTC().Format(time.RFC3339) != want {
			t.Errorf("%s is %v, %v, not %s", text, got, err, want)
		}
	}
}

// TestTimeRange: both ends, and what cannot be.
func TestTimeRange(t *testing.T) {
	now := time.Date(2026, 11, 24, 15, 0, 0, 0, time.UTC)
	at := func(day, hour int) time.Time { return time.Date(2026, 11, day, hour, 0, 0, 0, time.UTC) }
	for _, test := range []struct {
		since, until string // not given if empty
		want         TimeRange
		wrong        string
	}{
		{"", "", TimeRange{}, ""},
		{"1h", "", TimeRange{Since: at(24, 14)}, ""},
		{"", "1h", TimeRange{Until: at(24, 14)}, ""},
		{"yesterday", "today", TimeRange{Since: at(23, 0), Until: at(24, 0)}, ""},
		{"2026-11-17 14:00", "2026-11-17 15:00", TimeRange{Since: at(17, 14), Until: at(17, 15)}, ""},
		{"2h", "1h", TimeRange{Since: at(24, 13), Until: at(24, 14)}, ""},
		{"", "15:00", TimeRange{Until: now}, ""},
		{"16:00", "", TimeRange{}, "--since 16:00:00.000Z is in the future"},
		{"", "16:00", TimeRange{}, "--until 16:00:00.000Z is in the future"},
		{"0s", "", TimeRange{}, "is not before now"},
		{"1h", "2h", TimeRange{}, "--since 14:00:00.000Z is not before --until 13:00:00.000Z"},
		{"2026-11-23", "2026-11-23", TimeRange{}, "a day is its beginning"},
		{"soon", "", TimeRange{}, `--since: "soon" is no time`},
		{"", "soon", TimeRange{}, `--until: "soon" is no time`},
	} {
		var r TimeRange
		cmd := &cobra.Command{Use: "verb"}
		r.AddFlags(cmd, "events")
		var args []string
		if test.since != "" {
			args = append(args, "--since", test.since)
		}
		if test.until != "" {
			args = append(args, "--until", test.until)
		}
		if err := cmd.ParseFlags(args); err != nil {
			t.Fatal(err)
		}
		err := r.Check(cmd, now)
		switch {
		case test.wrong != "":
			if err == nil || !strings.Contains(err.Error(), test.wrong) {
				t.Errorf("%q to %q: got %v, want %s", test.since, test.until, err, test.wrong)
			}
		case err != nil || !r.Since.Equal(test.want.Since) || !r.Until.Equal(test.want.Until):
			t.Errorf("%q to %q is %v to %v: %v", test.since, test.until, r.Since, r.Until, err)
		}
	}
}
