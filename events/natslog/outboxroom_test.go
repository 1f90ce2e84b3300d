package natslog

import (
	"testing"

	"github.com/lockagent/lockagent/events/internal/queue"
)

// The outbox is full at either of its bounds, until half of it is settled.
func TestRoomInTheOutbox(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ messages, bytes int }{
		"Messages": {outboxMessages, 10},
		"Bytes":    {16, outboxBytes / 16},
	} {
		t.Run(name, func(t *testing.T) {
			var o outbox
			for i := range test.messages {
				if o.room() != outboxMessages-i {
					t.Fatalf("there is room for %d behind %d", o.room(), i)
				}
				o.put([]*queue.Message{{Size: test.bytes, Sent: 1}})
			}
			for left := test.messages; left > 0; left-- {
				if full := o.room() == 0; full != (left > test.messages/2) {
					t.Fatalf("with %d of %d left there is room for %d", left, test.messages, o.room())
				}
				if left < test.messages {
					o.put(nil) // nothing new makes it full again
				}
				taken := false
				o.settleAll(func(*queue.Message) bool { first := !taken; taken = true; return first }, func(*queue.Message) {})
			}
			if o.bytes != 0 {
				t.Errorf("it counts %d bytes", o.bytes)
			}
		})
	}
}
