package lockstate

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/lockagent/lockagent"
)

// ids are the requests that wait, in order.
func (q *queue) ids() (ids []RequestID) {
	for i := int(q.first); i < len(q.items); i++ {
		if !q.items[i].gone {
			ids = append(ids, q.items[i].ID)
		}
	}
	return ids
}

func fill(n int) *queue {
	q := &queue{}
	for id := range n {
		q.push(Request{ID: RequestID(id + 1)})
	}
	return q
}

func TestEmptyQueue(t *testing.T) {
	var q queue
	if q.len() != 0 || q.head() != nil || q.last() != 0 || q.find(1) != nil || q.tries.first != 0 || q.ofSession("", anyRequest) != nil {
		t.Errorf("an empty queue has %d, head %v, last %v", q.len(), q.head(), q.last())
	}
	q.remove(1) // means nothing
	if q.len() != 0 {
		t.Errorf("removing from an empty queue leaves %d", q.len())
	}
}

func TestQueueKeepsTheOrderOfArrival(t *testing.T) {
	q := fill(5)
	q.remove(3)
	q.remove(1)
	if got := q.ids(); !slices.Equal(got, []RequestID{2, 4, 5}) {
		t.Errorf("%v wait, want 2 4 5", got)
	}
	if q.head().ID != 2 || q.last() != 5 {
		t.Errorf("head %d, last %d, want 2, 5", q.head().ID, q.last())
	}
	q.remove(5)
	if q.last() != 4 {
		t.Errorf("last %d, want 4", q.last())
	}
	if q.find(3) != nil || q.find(4) == nil {
		t.Error("finds what is gone, or does not find what is there")
	}
}

// The queue is compared with the plainest one: a slice.
func TestQueueIsASortedListOfRequests(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q queue
		var model []Request
		next := RequestID(0)
		first := func(match func(Request) bool) RequestID {
			if i := slices.IndexFunc(model, match); i >= 0 {
				return model[i].ID
			}
			return 0
		}
		id := func(w *waiter) RequestID {
			if w == nil {
				return 0
			}
			return w.ID
		}
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				for range rapid.SampledFrom([]int{1, 1, 3, 50}).Draw(t, "many") {
					next += RequestID(rapid.IntRange(1, 3).Draw(t, "gap"))
					r := Request{
						ID: next, Owner: rapid.SampledFrom([]lockagent.Owner{"ann", "bob"}).Draw(t, "owner"),
						Try: rapid.Bool().Draw(t, "try"), Session: rapid.Bool().Draw(t, "session"),
					}
					q.push(r)
					model = append(model, r)
				}
			},
			"remove": func(t *rapid.T) {
				for range rapid.SampledFrom([]int{1, 1, 3, 50}).Draw(t, "many") {
					id := RequestID(rapid.Uint64Range(0, uint64(next)+1).Draw(t, "id"))
					q.remove(id)
					model = slices.DeleteFunc(model, func(r Request) bool { return r.ID == id })
				}
			},
			"removeFirst": func(t *rapid.T) {
				for range min(len(model), rapid.SampledFrom([]int{1, 40}).Draw(t, "many")) {
					q.remove(model[0].ID)
					model = model[1:]
				}
			},
			"": func(t *rapid.T) {
				if q.len() != len(model) {
					t.Fatalf("%d wait, want %d", q.len(), len(model))
				}
				if got, want := id(q.head()), first(func(Request) bool { return true }); got != want {
					t.Fatalf("head %d, want %d", got, want)
				}
				var last RequestID
				if len(model) > 0 {
					last = model[len(model)-1].ID
				}
				if got := q.last(); got != last {
					t.Fatalf("last %d, want %d", got, last)
				}
				if got, want := q.tries.first, first(func(r Request) bool { return r.Try }); got != want {
					t.Fatalf("first try %d, want %d", got, want)
				}
				if got, want := id(q.ofSession("ann", anyRequest)), first(func(r Request) bool { return r.Session && r.Owner == "ann" }); got != want {
					t.Fatalf("first of ann's session %d, want %d", got, want)
				}
				for i := range model {
					if w := q.find(model[i].ID); w == nil || w.Request != model[i] {
						t.Fatalf("%d is %v, want %v", model[i].ID, w, model[i])
					}
				}
				var tries []RequestID
				sessions := make(map[lockagent.Owner][]RequestID)
				for _, r := range model {
					if r.Try {
						tries = append(tries, r.ID)
					}
					if r.Session {
						sessions[r.Owner] = append(sessions[r.Owner], r.ID)
					}
				}
				if got := slices.Collect(q.tries.all); !slices.Equal(got, tries) || q.tries.len() != len(tries) {
					t.Fatalf("%v do not wait, want %v", got, tries)
				}
				for o, of := range q.sessions {
					if got := slices.Collect(of.all); !slices.Equal(got, sessions[o]) || len(got) == 0 || !q.waits(o) {
						t.Fatalf("%v wait in the session of %s, want %v", got, o, sessions[o])
					}
				}
				if len(q.sessions) != len(sessions) {
					t.Fatalf("knows sessions %v, want %v", q.sessions, sessions)
				}
				ids := q.ids()
				for i, r := range model {
					if ids[i] != r.ID {
						t.Fatalf("%v wait, want %v", ids, model)
					}
				}
				if holes := len(q.items) - q.len(); holes > max(32, q.len()+1) {
					t.Fatalf("%d holes among %d", holes, q.live)
				}
			},
		})
	})
}

func TestQueueGivesMemoryBackAfterABurst(t *testing.T) {
	t.Run("when it is empty", func(t *testing.T) {
		q := fill(10_000)
		for id := range 10_000 {
			q.remove(RequestID(id + 1))
		}
		if got := cap(q.items); got > 64 {
			t.Errorf("keeps room for %d", got)
		}
	})
	t.Run("but keeps what little it needs all the time", func(t *testing.T) {
		q := fill(10)
		before := cap(q.items)
		for id := range 10 {
			q.remove(RequestID(id + 1))
		}
		if got := cap(q.items); got != before {
			t.Errorf("keeps room for %d, want %d", got, before)
		}
	})
	t.Run("when few are left", func(t *testing.T) {
		q := fill(10_000)
		for id := range 9_990 {
			q.remove(RequestID(id + 1))
		}
		for id := 10_001; id < 20_000; id++ { // it never empties
			q.push(Request{ID: RequestID(id)})
			q.remove(q.head().ID)
		}
		if got := cap(q.items); got > 256 {
			t.Errorf("keeps room for %d, for %d that wait", got, q.len())
		}
	})
}

func TestQueueForgetsOwnersOfRequestsThatLeft(t *testing.T) {
	q := fill(3)
	q.push(Request{ID: 4, Owner: "bob"})
	q.push(Request{ID: 5})
	q.remove(4)
	if got := fmt.Sprint(q.items[3].Owner); got != "" {
		t.Errorf("a hole keeps owner %q alive", got)
	}
}

func anyRequest(*Request) bool { return true }
