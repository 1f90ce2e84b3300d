package storetest

import (
	"crypto/rand"
	"fmt"

	"github.com/lockagent/lockagent"
	"pgregory.net/rapid"
)

// CompareLatches is [Compare] for latches, of which both stores must tell the same counts. Changes are
// repeated, at once and late.
func CompareLatches(t rapid.TB, model, subject lockagent.Store) {
	t.Helper()
	run, histories := rand.Text(), 0
	rapid.Check(t, func(t *rapid.T) {
		histories++
		name := lockagent.Name(fmt.Sprintf("compare/%s/%d", run, histories))
		agree := func(what string, ask func(lockagent.Store) string) {
			t.Helper()
			if of, got := ask(model), ask(subject); got != of {
				t.Fatalf("%s: the model says %s, and the subject says %s", what, of, got)
			}
		}
		changing := func(op lockagent.LatchOp) func(*rapid.T) {
			return func(t *rapid.T) {
				req := lockagent.LatchRequest{
					Name: name, Op: op, Count: int64(rapid.IntRange(1, 3).Draw(t, "count")),
					Change: fmt.Sprint("c", rapid.IntRange(1, 30).Draw(t, "change")), // now and then an earlier one
				}
				agree(fmt.Sprintf("%s %d %s", op, req.Count, req.Change), func(s lockagent.Store) string {
					reply, err := countLatch(t, s, req)
					return fmt.Sprint(reply.Count, reply.Changed, err)
				})
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"set":    changing(lockagent.LatchSet),
			"down":   changing(lockagent.LatchDown),
			"down2":  changing(lockagent.LatchDown),
			"delete": changing(lockagent.LatchDelete),
			"await": func(t *rapid.T) {
				req := lockagent.AcquireRequest{
					Name: name, Kind: lockagent.Latch, Tenure: lockagent.Tenure{Agent: comparedAgents[0], Number: 1}, Lease: minute,
					FoundClosed: rapid.Bool().Draw(t, "waited"),
				}
				agree(fmt.Sprintf("await, waited %t", req.FoundClosed), func(s lockagent.Store) string {
					reply, err := Acquire(t, s, req)
					return fmt.Sprint(reply.Granted, err)
				})
			},
		})
	})
}
