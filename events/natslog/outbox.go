package natslog

import (
	"errors"

	"github.com/lockagent/lockagent/events/internal/queue"
)

const (
	// The outbox takes nothing more when it has so many messages, or about so many bytes: enough to
	// keep a server on the other side of a continent busy.
	outboxMessages = 4096
	outboxBytes    = 8 << 20
)

// outbox keeps messages until the stream has them, oldest first. A message is named by its
// index, which counts all messages from 0.
//
// A session begins with one message alone; the others follow when the stream has taken it. So a
// stream that refuses everything refuses one message at a time, and does not mix up their order.
type outbox struct {
	messages []*queue.Message // from first on
	first    uint64           // index of the oldest that is not settled
	next     uint64           // index of the next to send
	open     bool             // the stream took a message in this session
	bytes    int
	full     bool // until half of it is settled
}

// put adds messages.
func (o *outbox) put(messages []*queue.Message) {
	for _, m := range messages {
		o.messages = append(o.messages, m)
		o.bytes += m.Size
	}
	o.full = o.full || len(o.messages) >= outboxMessages || o.bytes >= outboxBytes
}

// room is how many records may be added. Each could be a message.
func (o *outbox) room() int {
	if o.full {
		return 0
	}
	return outboxMessages - len(o.messages)
}

// begin begins a session: all messages that are not settled are sent again.
func (o *outbox) begin() { o.next, o.open = o.first, false }

// take returns the next message to send and its index, or nil.
func (o *outbox) take() (*queue.Message, uint64) {
	if o.next == o.end() || !o.open && o.next > o.first {
		return nil, 0
	}
	o.next++
	return o.at(o.next - 1), o.next - 1
}

var errOvertaken = errors.New("the stream took a message, but not the one before it")

// settle takes out message i, because the stream has it. It returns nil if the message was
// settled before or is not sent yet, and an error if an older one is not settled.
func (o *outbox) settle(i uint64) (*queue.Message, error) {
	switch {
	case i < o.first || i >= o.next:
		return nil, nil
	case i > o.first:
		return nil, errOvertaken
	}
	m := o.messages[0]
	o.messages[0] = nil
	o.messages = o.messages[1:]
	o.open = true
	o.settled(m)
	o.relax()
	return m, nil
}

// settleAll takes out the messages that the stream has, between two sessions.
func (o *outbox) settleAll(stored func(*queue.Message) bool, settled func(*queue.Message)) {
	kept := o.messages[:0]
	for _, m := range o.messages {
		if m.Sent == 0 || !stored(m) {
			kept = append(kept, m)
			continue
		}
		o.settled(m)
		settled(m)
	}
	clear(o.messages[len(kept):])
	o.messages = kept
	o.relax()
}

func (o *outbox) settled(m *queue.Message) {
	o.first++
	o.bytes -= m.Size
	if o.first > o.next {
		o.next = o.first
	}
}

// relax notes whether there is room again.
func (o *outbox) relax() {
	if len(o.messages) <= outboxMessages/2 && o.bytes <= outboxBytes/2 {
		o.full = false
	}
}

func (o *outbox) at(i uint64) *queue.Message { return o.messages[i-o.first] }

// end is the index of the next message that is put in.
func (o *outbox) end() uint64 { return o.first + uint64(len(o.messages)) }

// lower says that the stream ends at a position where it did not end before, and perhaps was made
// anew. The floors of all messages are true again after that.
func (o *outbox) lower(end uint64, anew bool) {
	if anew {
		end = 0
	}
	for _, m := range o.messages {
		m.Floor = min(m.Floor, end)
	}
}

// doubt returns the first message if it was sent and is not settled, or nil. The same may be
// true of those behind it.
func (o *outbox) doubt() *queue.Message {
	if len(o.messages) == 0 || o.messages[0].Sent == 0 {
		return nil
	}
	return o.messages[0]
}

// from returns the order of the oldest record in it, or that of after if it is empty.
func (o *outbox) from(after uint64) uint64 {
	if len(o.messages) == 0 {
		return after
	}
	return o.messages[0].From
}
