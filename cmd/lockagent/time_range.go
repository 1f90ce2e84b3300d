package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/readable"
)

// timeRange is a stretch of time, as --since and --until say it. A zero time is an open end.
type timeRange struct {
	since, until time.Time

	sinceText, untilText string
}

const momentForms = "10m (ago), 14:05 (today), yesterday, 2026-11-24, 2026-11-24 14:00, or RFC 3339"

// addFlags adds --since and --until. what is what they select.
func (r *timeRange) addFlags(cmd *cobra.Command, what string) {
	cmd.Flags().StringVar(&r.sinceText, "since", "", "only "+what+" since this `time`: "+momentForms)
	cmd.Flags().StringVar(&r.untilText, "until", "", "only "+what+" until this `time`, in the same forms; a day is its beginning")
}

// check reads the flags.
func (r *timeRange) check(cmd *cobra.Command, now time.Time) error {
	parse := func(flag, text string, at *time.Time) (err error) {
		if !cmd.Flags().Changed(flag) {
			return nil
		}
		try := again(cmd) + " --" + flag + " 10m"
		switch *at, err = parseMoment(text, now); {
		case err != nil:
			return usage(try, "--%s: %w", flag, err)
		case at.After(now):
			return usage(try, "--%s %s is in the future", flag, readable.Time(*at, now))
		}
		return nil
	}
	if err := parse("since", r.sinceText, &r.since); err != nil {
		return err
	}
	if err := parse("until", r.untilText, &r.until); err != nil {
		return err
	}
	end, name := r.until, "--until "+readable.Time(r.until, now)
	if end.IsZero() {
		end, name = now, "now"
	}
	if !r.since.IsZero() && !r.since.Before(end) {
		try := again(cmd) + " --since yesterday --until today"
		if cmd.Flags().Lookup("until") == nil {
			try = again(cmd) + " --since 10m"
		}
		return usage(try, "--since %s is not before %s; a day is its beginning", readable.Time(r.since, now), name)
	}
	return nil
}

// asked reports whether there is a flag.
func (r *timeRange) asked() bool { return !r.since.IsZero() || !r.until.IsZero() }

// text is when it is, for people, behind a word.
func (r *timeRange) text(now time.Time) string {
	switch {
	case !r.asked():
		return ""
	case r.until.IsZero():
		return " since " + readable.Time(r.since, now)
	case r.since.IsZero():
		return " until " + readable.Time(r.until, now)
	}
	return fmt.Sprintf(" from %s to %s", readable.Time(r.since, now), readable.Time(r.until, now))
}

// end is the end, or now.
func (r *timeRange) end(now time.Time) time.Time {
	if r.until.IsZero() {
		return now
	}
	return r.until
}
