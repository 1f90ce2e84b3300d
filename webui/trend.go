package webui

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/natslog"
)

// minutes is how many of them a trend has.
const minutes = 60

// mostWaits bounds how many grants of a minute are looked at.
const mostWaits = 500

// unknown stands in a series for a minute of which nothing is known.
const unknown = -1

// trend is what the event log says of the last hour, minute by minute.
type trend struct {
	first int64 // the first minute, since 1970
	held  []int // locks that the agents held at once, at most
	waits []int // of 95 % of the grants at most, in microseconds
}

// series returns so many minutes of which nothing is known.
func series() []int { return slices.Repeat([]int{unknown}, minutes) }

// errEnough ends a read that has what it wants.
var errEnough = errors.New("webui: enough was read")

// readTrend reads the event log of the last hour, for all users who may know of it. known are the waits of minutes that
// are over: they are read once, and those that the time for reading does not suffice for are read by the next call.
func (p *page) readTrend(known map[int64]int) trend {
	ctx, cancel := context.WithTimeout(context.Background(), readTime)
	defer cancel()
	last := time.Now().Unix() / 60
	is := trend{first: last - minutes + 1, held: series(), waits: series()}
	alive := events.Filter{Kinds: []lockagent.EventKind{lockagent.EventAlive}}
	_ = p.Log.Replay(ctx, natslog.FromTime(time.Unix(60*is.first, 0)), alive, func(r *events.Record, err error) error {
		if at := r.Stored.Unix()/60 - is.first; err == nil && at >= 0 && at < minutes {
			is.held[at] = max(is.held[at], r.Count)
		}
		return nil
	}) // what cannot be read is not known, and the overview says elsewhere that the log cannot be read
	for minute := range known {
		if minute < is.first {
			delete(known, minute)
		}
	}
	for minute := last; minute >= is.first; minute-- {
		waits, ok := known[minute]
		if !ok {
			var err error
			if waits, err = p.readWaits(ctx, minute); err != nil {
				break
			}
			if minute < last-1 { // what was recorded at its end has come by then
				known[minute] = waits
			}
		}
		is.waits[minute-is.first] = waits
	}
	return is
}

// readWaits returns how long 95 % of the first grants of a minute were waited for at most, or unknown if there were no
// grants.
func (p *page) readWaits(ctx context.Context, minute int64) (int, error) {
	var waits []int
	granted := events.Filter{Kinds: []lockagent.EventKind{lockagent.EventGranted}}
	err := p.Log.Replay(ctx, natslog.FromTime(time.Unix(60*minute, 0)), granted, func(r *events.Record, err error) error {
		at := r.Stored.Unix() / 60
		if at > minute || len(waits) == mostWaits {
			return errEnough
		}
		if err == nil && at == minute {
			waits = append(waits, int(r.Waited.Microseconds()))
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return unknown, err
	}
	if len(waits) == 0 {
		return unknown, nil
	}
	slices.Sort(waits)
	return waits[(len(waits)-1)*95/100], nil
}

// spark is a line of the last hour.
type spark struct {
	Path  string // as SVG has it, in a box of 60 x 20
	Label string // what it shows
}

// sparkOf draws a series, of which peak is the text for its highest value. It is nil if nothing is known.
func sparkOf(of string, values []int, peak func(int) string) *spark {
	most := slices.Max(values)
	if most == unknown {
		return nil
	}
	var path strings.Builder
	step := "M"
	for i, v := range values {
		if v == unknown {
			step = "M"
			continue
		}
		y := 19 - 18*float64(v)/float64(max(1, most))
		fmt.Fprintf(&path, "%s%d %.1fh1", step, i, y)
		step = "L"
	}
	return &spark{path.String(), fmt.Sprintf("%s in the last hour: at most %s", of, peak(most))}
}
