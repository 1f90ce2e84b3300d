package events

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/lockagent/lockagent"
)

// messageID is the id of a message: the numbers of its records.
type messageID struct {
	agent       lockagent.AgentID
	epoch       uint64
	first, last uint64
}

// String is the id of the message: <agent>:<epoch>:<first>, or <agent>:<epoch>:<first>-<last> if it
// has several records.
func (id messageID) String() string {
	b := appendID(append([]byte(id.agent), ':'), id.epoch, id.first)
	if id.last > id.first {
		b = strconv.AppendUint(append(b, '-'), id.last, 10)
	}
	return string(b)
}

// parseMessageID is the inverse of [messageID.String]. It reports false for any other text.
func parseMessageID(text string) (messageID, bool) {
	agent, numbers, _ := strings.Cut(text, ":")
	epoch, numbers, _ := strings.Cut(numbers, ":")
	first, last, batch := strings.Cut(numbers, "-")
	if !batch {
		last = first
	}
	id := messageID{agent: lockagent.AgentID(agent)}
	for _, number := range []struct {
		text string
		to   *uint64
		most uint64
	}{{epoch, &id.epoch, MaxEpoch}, {first, &id.first, MaxSeq}, {last, &id.last, MaxSeq}} {
		n, err := strconv.ParseUint(number.text, 10, 64)
		if err != nil || n < 1 || n > number.most {
			return messageID{}, false
		}
		*number.to = n
	}
	_, err := lockagent.ParseAgentID(agent)
	return id, err == nil && id.String() == text
}

// upTo reports whether all records of id come before other ends.
func (id messageID) upTo(other messageID) bool {
	return cmp.Or(cmp.Compare(id.epoch, other.epoch), cmp.Compare(id.last, other.last)) <= 0
}
