package quota

import (
	"fmt"
	"sync"
	"testing"

	"github.com/lockagent/lockagent/internal/daemon/refusal"
)

const ann, bob, root = 1000, 1001, 0

func bureau(bounds map[Kind]Bound) *Bureau {
	return New(Config{
		Bound: func(k Kind) Bound { return bounds[k] }, Privileged: func(uid uint32) bool { return uid == root },
	})
}

// A user has as many as the bound of each user allows, and of all users. Those who look after the daemon have a few
// more. What was left has room for another.
func TestOfEachAndOfAll(t *testing.T) {
	for name, c := range map[string]struct {
		bound  Bound
		uid    uint32
		others int // that another user has
		most   int
		what   string
		limit  int
	}{
		"of a user":                             {Bound{2, 9, 3}, ann, 0, 2, "connections", 2},
		"of all users":                          {Bound{9, 2, 3}, ann, 0, 2, refusal.Connections, 2},
		"beside another user":                   {Bound{9, 4, 3}, ann, 3, 1, refusal.Connections, 4},
		"of those who look after it":            {Bound{2, 9, 3}, root, 0, 5, "connections", 5},
		"of them, when others have all of them": {Bound{0, 4, 3}, root, 4, 3, refusal.Connections, 7},
		"of them, without a reserve":            {Bound{2, 9, 0}, root, 0, 2, "connections", 2},
		"of those whom nobody knows":            {Bound{2, 9, 3}, Nobody, 0, 2, "connections", 2},
	} {
		t.Run(name, func(t *testing.T) {
			b, want := bureau(map[Kind]Bound{Connections: c.bound}), &refusal.QuotaError{What: c.what, Limit: c.limit}
			for range c.others {
				b.Add(bob, Connections)
			}
			for i := range c.most {
				if err := b.Take(c.uid, Connections); err != nil {
					t.Fatalf("%d: %v", i+1, err)
				}
			}
			for range 2 {
				if err := b.Take(c.uid, Connections); fmt.Sprint(err) != want.Error() {
					t.Errorf("one too many: %v, want %v", err, want)
				}
			}
			b.Leave(c.uid, Connections)
			if err := b.Take(c.uid, Connections); err != nil {
				t.Errorf("the place of one that was left: %v", err)
			}
			if n := b.Total(Connections); n != c.others+c.most {
				t.Errorf("there are %d", n)
			}
			for range c.most {
				b.Leave(c.uid, Connections)
			}
			if len(b.users) != min(c.others, 1) || b.Total(Connections) != c.others {
				t.Errorf("left are %v", b.users)
			}
		})
	}
}

// Several kinds are taken together, or none of them. One kind takes nothing from another.
func TestSeveralKindsAtOnce(t *testing.T) {
	b := bureau(map[Kind]Bound{Streams: {Each: 2}, Watches: {Each: 1}})
	if err := b.Take(ann, Streams, Watches); err != nil {
		t.Fatal(err)
	}
	if err := b.Take(ann, Streams, Watches); err == nil {
		t.Error("there are two watches")
	}
	if err := b.Take(ann, Streams); err != nil {
		t.Errorf("what was refused has taken a stream: %v", err)
	}
	b.Add(ann, Streams, Watches)
	if streams, watches := b.Total(Streams), b.Total(Watches); streams != 3 || watches != 2 {
		t.Errorf("there are %d and %d", streams, watches)
	}
}

// Without bounds everything is counted, and nothing is refused.
func TestWithoutBounds(t *testing.T) {
	for name, b := range map[string]*Bureau{"zero": New(Config{}), "bounds of 0": bureau(nil)} {
		for range 100 {
			if err := b.Take(ann, Claims, Waiters); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if n := b.Total(Waiters); n != 100 {
			t.Errorf("%s: there are %d", name, n)
		}
	}
}

// Each kind has a text for each of the bounds that it may have.
func TestTexts(t *testing.T) {
	seen := make(map[string]bool)
	for kind, text := range texts {
		if text.each == "" && text.all == "" {
			t.Errorf("kind %d has none", kind)
		}
		for _, s := range []string{text.each, text.all} {
			if s != "" && seen[s] {
				t.Errorf("%q stands for two", s)
			}
			seen[s] = true
		}
	}
}

func TestManyAtOnce(t *testing.T) {
	const goroutines, rounds, most = 8, 1000, 3
	b := bureau(map[Kind]Bound{Requests: {All: most}})
	var work sync.WaitGroup
	for uid := range uint32(goroutines) {
		work.Go(func() {
			for range rounds {
				if b.Take(uid, Requests) != nil {
					continue
				}
				if n := b.Total(Requests); n > most {
					t.Errorf("there are %d", n)
				}
				b.Leave(uid, Requests)
			}
		})
	}
	work.Wait()
	if len(b.users) != 0 || b.all != (counts{}) {
		t.Errorf("left are %v", b.users)
	}
}
