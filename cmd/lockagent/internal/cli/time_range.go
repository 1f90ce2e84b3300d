package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/readable"
)

// TimeRange is a stretch of time, as --since and --until say it. A zero time is an open end.
type TimeRange struct {
	Since, Until time.Time

	SinceText, UntilText string
}

// MomentForms are the forms of a time, for help.
const MomentForms = "10m (ago), 14:05 (today), yesterday, 2026-11-24, 2026-11-24 14:00, or RFC 3339"

// AddFlags adds --since and --until. what is what they select.
func (r *TimeRange) AddFlags(cmd *cobra.Command, what string) {
	cmd.Flags().StringVar(&r.SinceText, "since", "", "only "+what+" since this `time`: "+MomentForms)
	cmd.Flags().StringVar(
		&r.UntilText, "until", "", "only "+what+" until this `time`, in the same forms; a day is its beginning",
	)
}

// Check reads the flags.
func (r *TimeRange) Check(cmd *cobra.Command, now time.Time) error {
	parse := func(flag, text string, at *time.Time) (err error) {
		if !cmd.Flags().Changed(flag) {
			return nil
		}
		try := Again(cmd) + " --" + flag + " 10m"
		switch *at, err = ParseMoment(text, now); {
		case err != nil:
			return Usage(try, "--%s: %w", flag, err)
		case at.After(now):
			return Usage(try, "--%s %s is in the future", flag, readable.Time(*at, now))
		}
		return nil
	}
	if err := parse("since", r.SinceText, &r.Since); err != nil {
		return err
	}
	if err := parse("until", r.UntilText, &r.Until); err != nil {
		return err
	}
	end, name := r.Until, "--until "+readable.Time(r.Until, now)
	if end.IsZero() {
		end, name = now, "now"
	}
	if !r.Since.IsZero() && !r.Since.Before(end) {
		try := Again(cmd) + " --since yesterday --until today"
		if cmd.Flags().Lookup("until") == nil {
			try = Again(cmd) + " --since 10m"
		}
		return Usage(try, "--since %s is not before %s; a day is its beginning", readable.Time(r.Since, now), name)
	}
	return nil
}

// Asked reports whether there is a flag.
func (r *TimeRange) Asked() bool { return !r.Since.IsZero() || !r.Until.IsZero() }

// Text is when it is, for people, behind a word.
func (r *TimeRange) Text(now time.Time) string {
	switch {
	case !r.Asked():
		return ""
	case r.Until.IsZero():
		return " since " + readable.Time(r.Since, now)
	case r.Since.IsZero():
		return " until " + readable.Time(r.Until, now)
	}
	return fmt.Sprintf(" from %s to %s", readable.Time(r.Since, now), readable.Time(r.Until, now))
}

// End is the end, or now.
func (r *TimeRange) End(now time.Time) time.Time {
	if r.Until.IsZero() {
		return now
	}
	return r.Until
}
