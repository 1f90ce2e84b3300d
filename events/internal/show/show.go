// Package show writes times, durations and texts of a log for people.
package show

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/lockagent/lockagent"
)

// Layout is how people read a time, and give it to --at.
const Layout = "2006-01-02T15:04:05.000Z07:00"

// Zone is that of the reports. Tests have another one than their machine.
var Zone = time.Local

// Wall is a time of the wall.
func Wall(t time.Time) string {
	if t.IsZero() {
		return "an unknown time"
	}
	return t.In(Zone).Format(Layout)
}

// Store is a time on the clock of a store, which counts from 1970.
func Store(t lockagent.StoreTime) string { return Wall(StoreWall(t)) }

// StoreWall is the time that a clock on the wall shows if it agrees with that of the store.
func StoreWall(t lockagent.StoreTime) time.Time { return time.UnixMicro(int64(t)) }

// Range is from when to when. Of the second time the day and the zone are left out if they are those of the first.
func Range(from, to time.Time) string {
	text := "from " + Wall(from) + " to "
	from, to = from.In(Zone), to.In(Zone)
	const dayAndZone = time.DateOnly + "Z07:00"
	if from.Format(dayAndZone) == to.Format(dayAndZone) {
		return text + to.Format("15:04:05.000")
	}
	return text + Wall(to)
}

// Duration is as exact as helps.
func Duration(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < time.Second:
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}

// Plural is a number with a word: one if it is 1, or many.
func Plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Plain is a text of a log for people. Whoever wrote the log must not control their terminals, nor make up lines of a
// report.
func Plain(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}
