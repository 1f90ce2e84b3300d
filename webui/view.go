package webui

import (
	"cmp"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events/fold"
)

// span is a duration for people. The script of the page writes whole seconds in the same way.
func span(d time.Duration) string {
	switch s := int64(d / time.Second); {
	case d < 0:
		return "0 s"
	case s >= 24*60*60:
		return fmt.Sprintf("%d d %02d h", s/(24*60*60), s/(60*60)%24)
	case s >= 60*60:
		return fmt.Sprintf("%d h %02d m", s/(60*60), s/60%60)
	case s >= 60:
		return fmt.Sprintf("%d m %02d s", s/60, s%60)
	case s > 0:
		return fmt.Sprintf("%d s", s)
	}
	return "< 1 s"
}

// brief is a duration for people where there is little room. The script of the page writes it in the same way.
func brief(d time.Duration) string {
	if parts := strings.Fields(span(d)); len(parts) == 4 {
		return parts[0] + " " + parts[1]
	}
	return span(d)
}

// until is a time to come for people, with the date unless it is today.
func until(t time.Time) string {
	if text := moment(t); len(text) > len("15:04:05") {
		return text[:len("2006-01-02 15:04")]
	}
	return t.Local().Format("15:04")
}

// micros is a duration in microseconds for people.
func micros(n int) string { return exact(time.Duration(n) * time.Microsecond) }

// tail is the end of a number that is longer than people compare.
func tail(n uint64) string {
	const digits = 6
	text := strconv.FormatUint(n, 10)
	if len(text) <= digits+2 {
		return text
	}
	return "…" + text[len(text)-digits:]
}

// exact is a duration that is over, with three digits if it is short.
func exact(d time.Duration) string {
	for _, unit := range []struct {
		of   time.Duration
		name string
	}{{time.Second, "s"}, {time.Millisecond, "ms"}, {time.Microsecond, "µs"}} {
		if d >= time.Minute {
			break
		}
		if d >= unit.of {
			n := float64(d) / float64(unit.of)
			return strconv.FormatFloat(n, 'f', max(0, 2-int(math.Log10(n))), 64) + " " + unit.name
		}
	}
	return span(d)
}

// number has a narrow blank between each three digits of a long number.
func number(n int) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "\u202f" + digits[i:]
	}
	return digits
}

// moment is a time for people, with the date unless it is today.
func moment(t time.Time) string {
	t = t.Local()
	y, m, d := time.Now().Date()
	if y2, m2, d2 := t.Date(); y == y2 && m == m2 && d == d2 {
		return t.Format("15:04:05")
	}
	return t.Format("2006-01-02 15:04:05")
}

// clock is a time of today for people.
func clock(t time.Time) string { return t.Local().Format("15:04:05") }

// machine is a time for programs.
func machine(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// plural is the word for a number of things.
func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// atLeast is a number that not everything was counted for, if there is more.
func atLeast(n int, more bool) string {
	if more {
		return number(n) + "+"
	}
	return number(n)
}

// lockURL is the address of the screen of a lock.
func lockURL(name string) string { return at("/lock", query("name", name)) }

// holdURL is the address of the events of a hold.
func holdURL(name string, token uint64) string {
	return at("/events", query("match", name, "token", strconv.FormatUint(token, 10)))
}

// query is a query without its empty values. Of two values with one name, the second counts.
func query(pairs ...string) string {
	values := make(url.Values)
	for i := 0; i+1 < len(pairs); i += 2 {
		if values.Set(pairs[i], pairs[i+1]); pairs[i+1] == "" {
			values.Del(pairs[i])
		}
	}
	return values.Encode()
}

// at is a path with a query that may be empty.
func at(path, query string) string {
	if query == "" {
		return path
	}
	return path + "?" + query
}

// ownerText is the process behind a request or, if the log does not say it, the owner. Here it needs no quotes around
// it.
func ownerText(who lockagent.Who, owner lockagent.Owner, agent lockagent.AgentID) string {
	if !who.IsZero() {
		return who.String()
	}
	return short(strings.Trim(fold.OwnerText(owner, agent), `"`))
}

// short is an id for people: its end, because the beginnings of those that were made at about the same time are alike.
func short(id string) string {
	const whole, end = len("xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"), 8
	if len(id) != whole || id[8] != '-' || id[13] != '-' {
		return id
	}
	return "…" + id[whole-end:]
}

// orNone is a text, or a dash.
func orNone(text string) string { return cmp.Or(text, "–") }
