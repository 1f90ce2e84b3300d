package events

import "time"

// minute parses times. Most are in the minute of the one before, so only the rest is parsed then.
type minute struct {
	text string // such as 2006-01-02T15:04:
	at   time.Time
}

const minuteLen = len("2006-01-02T15:04:")

// parse is the inverse of appendTime. It takes other spellings of RFC 3339 as well.
func (m *minute) parse(text []byte) (time.Time, bool) {
	within, common := sinceMinute(text)
	if common && string(text[:minuteLen]) == m.text {
		return m.at.Add(within), true
	}
	t, err := time.Parse(time.RFC3339Nano, string(text))
	if err != nil {
		return time.Time{}, false
	}
	t = t.UTC().Truncate(time.Microsecond)
	if t.Year() < 0 || t.Year() > 9999 {
		return time.Time{}, false
	}
	if common {
		m.text, m.at = string(text[:minuteLen]), t.Add(-within)
	}
	return t, true
}

// sinceMinute returns the seconds of a time, and false if it is not of the form that appendTime
// writes.
func sinceMinute(text []byte) (time.Duration, bool) {
	const form = "2006-01-02T15:04:05.999999Z"
	if len(text) != len(form) || text[19] != '.' || text[26] != 'Z' {
		return 0, false
	}
	second, ok1 := parseDigits(text[17:19])
	micro, ok2 := parseDigits(text[20:26])
	return time.Duration(second)*time.Second + time.Duration(micro)*time.Microsecond, ok1 && ok2 && second < 60
}
