package events

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/lockagent/lockagent"
)

// span is the numbers of the records of one message, as its id tells them.
type span struct {
	agent       lockagent.AgentID
	epoch       uint64
	first, last uint64
}

// String is the id of the message: <agent>:<epoch>:<first>, or <agent>:<epoch>:<first>-<last> if it
// has several records.
func (s span) String() string {
	b := appendID(nil, s.agent, s.epoch, s.first)
	if s.last > s.first {
		b = strconv.AppendUint(append(b, '-'), s.last, 10)
	}
	return string(b)
}

// parseSpan is the inverse of [span.String]. It reports false for any other text.
func parseSpan(text string) (span, bool) {
	agent, numbers, _ := strings.Cut(text, ":")
	epoch, numbers, _ := strings.Cut(numbers, ":")
	first, last, batch := strings.Cut(numbers, "-")
	if !batch {
		last = first
	}
	s := span{agent: lockagent.AgentID(agent)}
	for _, number := range []struct {
		text string
		to   *uint64
		most uint64
	}{{epoch, &s.epoch, maxEpoch}, {first, &s.first, maxSeq}, {last, &s.last, maxSeq}} {
		n, err := strconv.ParseUint(number.text, 10, 64)
		if err != nil || n < 1 || n > number.most {
			return span{}, false
		}
		*number.to = n
	}
	return s, validAgent(s.agent) && s.String() == text
}

// upTo reports whether all records of s come before other ends.
func (s span) upTo(other span) bool {
	return cmp.Or(cmp.Compare(s.epoch, other.epoch), cmp.Compare(s.last, other.last)) <= 0
}

// gapAfter returns the records that are missing between before and s, which follow one another, and
// false if there are none. before is zero if there is nothing before s. The end of an earlier epoch
// is not known.
func (s span) gapAfter(before span) (Gap, bool) {
	g := Gap{Agent: s.agent, Epoch: s.epoch, Range: Range{1, s.first - 1}}
	if s.epoch == before.epoch {
		g.First = before.last + 1
	}
	return g, g.First <= g.Last
}
