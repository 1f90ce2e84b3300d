package transport

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockagent/lockagent/internal/redistest"
)

// A command that comes before a call takes no answer from its neighbours.
func TestCommandsBeforeCalls(t *testing.T) {
	server := redistest.Start(t)
	s := connect(t, config(server.Addr()))
	lanes := NewLanes(s, func() Packer[question] { return ask })
	l := lanes.lane(s.Master(0))
	for range 2 { // the second time the server has the script
		var all []said
		l.mu.Lock() // so that all travel together
		for i := range 10 {
			q, c := expect(fmt.Sprint("text ", i))
			call := ask([]question{q})[0]
			call.made, call.asking = time.Now(), i%3 != 1
			l.queue = append(l.queue, entryOf[question](call))
			all = append(all, c)
		}
		l.mu.Unlock()
		all = append(all, add(t.Context(), lanes, "the last"))
		for i, c := range all {
			answered(t, fmt.Sprint("call ", i), c)
		}
	}
}
