package audit

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/lockagent/lockagent"
)

// timeText is how people read a time, and give it to --at.
const timeText = "2006-01-02T15:04:05.000Z07:00"

// zone is that of the reports. Tests have another one than their machine.
var zone = time.Local

func wallText(t time.Time) string {
	if t.IsZero() {
		return "an unknown time"
	}
	return t.In(zone).Format(timeText)
}

// storeText is a time on the clock of a store, which counts from 1970.
func storeText(t lockagent.StoreTime) string { return wallText(storeWall(t)) }

func storeWall(t lockagent.StoreTime) time.Time { return time.UnixMicro(int64(t)) }

// rangeText is from when to when. Of the second time the day and the zone are left out if they are those of the first.
func rangeText(from, to time.Time) string {
	text := "from " + wallText(from) + " to "
	from, to = from.In(zone), to.In(zone)
	const dayAndZone = time.DateOnly + "Z07:00"
	if from.Format(dayAndZone) == to.Format(dayAndZone) {
		return text + to.Format("15:04:05.000")
	}
	return text + wallText(to)
}

// durationText is as exact as helps.
func durationText(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < time.Second:
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}

// plural is a number with a word: one if it is 1, or many.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// plainText is a text of a log for people. Whoever wrote the log must not control their terminals, nor make up lines of a
// report.
func plainText(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}
