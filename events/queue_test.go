package events

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/lockagent/lockagent"
)

// TestQueueAgainstModel compares the queue with a plain slice of everything that
// was ever pushed.
func TestQueueAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 3*blockLen).Draw(t, "limit")
		window := uint64(rapid.IntRange(1, 2*limit).Draw(t, "window"))
		q := newQueue(limit)
		var acked []bool // by index
		head, next := 0, 0
		advance := func() {
			for head < len(acked) && acked[head] {
				head++
			}
			next = max(next, head)
		}
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				for range rapid.IntRange(1, blockLen).Draw(t, "n") {
					i := len(acked)
					if ok := q.push(lockagent.Event{Request: uint64(i)}, uint64(i)+1); ok != (i-head < limit) {
						t.Fatalf("push with %d of %d held: %v", i-head, limit, ok)
					} else if ok {
						acked = append(acked, false)
					}
				}
			},
			"take": func(t *rapid.T) {
				for range rapid.IntRange(1, blockLen).Draw(t, "n") {
					for next < len(acked) && acked[next] {
						next++
					}
					it, index := q.take(window)
					if want := next < len(acked) && uint64(next-head) < window; (it != nil) != want {
						t.Fatalf("take: %v, want %v", it, want)
					} else if want {
						if int(index) != next || it.seq != index+1 || it.event.Request != index {
							t.Fatalf("took %+v as %d, want %d", it, index, next)
						}
						next++
					}
				}
			},
			"ack": func(t *rapid.T) {
				i := rapid.IntRange(0, len(acked)+1).Draw(t, "first")
				for range rapid.IntRange(1, blockLen).Draw(t, "n") {
					want := i >= head && i < len(acked) && !acked[i]
					if got := q.ack(uint64(i)); got != want {
						t.Fatalf("ack %d: %v, want %v", i, got, want)
					}
					if want {
						acked[i] = true
						advance()
					}
					i++
				}
			},
			"rewind": func(*rapid.T) {
				q.rewind()
				next = head
			},
			"": func(t *rapid.T) {
				if q.empty() != (head == len(acked)) || int(q.head) != head || int(q.tail) != len(acked) {
					t.Fatalf("head %d, tail %d; want %d, %d", q.head, q.tail, head, len(acked))
				}
				blocks := 0
				for _, b := range q.blocks {
					if b != nil {
						blocks++
					}
				}
				if most := (len(acked)-head)/blockLen + 2; blocks > most {
					t.Fatalf("%d blocks for %d items", blocks, len(acked)-head)
				}
				if q.spare != nil && *q.spare != ([blockLen]item{}) {
					t.Fatal("the spare block holds on to what was let go")
				}
			},
		})
	})
}
