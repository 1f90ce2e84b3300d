package queue

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/internal/wire"
)

// MessageID is the id of a message: the numbers of its records.
type MessageID struct {
	Agent       lockagent.AgentID
	Epoch       uint64
	First, Last uint64
}

// String is the id of the message: <agent>:<epoch>:<first>, or <agent>:<epoch>:<first>-<last> if it
// has several records.
func (id MessageID) String() string {
	b := wire.AppendID(append([]byte(id.Agent), ':'), id.Epoch, id.First)
	if id.Last > id.First {
		b = strconv.AppendUint(append(b, '-'), id.Last, 10)
	}
	return string(b)
}

// ParseMessageID is the inverse of [messageID.String]. It reports false for any other text.
func ParseMessageID(text string) (MessageID, bool) {
	agent, numbers, _ := strings.Cut(text, ":")
	epoch, numbers, _ := strings.Cut(numbers, ":")
	first, last, batch := strings.Cut(numbers, "-")
	if !batch {
		last = first
	}
	id := MessageID{Agent: lockagent.AgentID(agent)}
	for _, number := range []struct {
		text string
		to   *uint64
		most uint64
	}{{epoch, &id.Epoch, events.MaxEpoch}, {first, &id.First, events.MaxSeq}, {last, &id.Last, events.MaxSeq}} {
		n, err := strconv.ParseUint(number.text, 10, 64)
		if err != nil || n < 1 || n > number.most {
			return MessageID{}, false
		}
		*number.to = n
	}
	_, err := lockagent.ParseAgentID(agent)
	return id, err == nil && id.String() == text
}

// UpTo reports whether all records of id come before other ends.
func (id MessageID) UpTo(other MessageID) bool {
	return cmp.Or(cmp.Compare(id.Epoch, other.Epoch), cmp.Compare(id.Last, other.Last)) <= 0
}
