package storetest

import (
	"testing"

	"github.com/lockagent/lockagent"
)

// layer is what a chapter is about, beside the methods of every store.
type layer struct {
	name string
	in   func(lockagent.Store) bool
}

// The layers. A chapter without one is about every store.
var (
	withMessages = layerOf[lockagent.Messages]("Messages")
	withOperator = layerOf[lockagent.Operator]("Operator")
	withCounters = layerOf[lockagent.Counters]("Counters")
	withHistory  = layerOf[lockagent.History]("History")
	withGrace    = layerOf[lockagent.Grace]("Grace")
	withQueue    = &layer{"Queue", func(s lockagent.Store) bool {
		queue, ok := lockagent.Layer[lockagent.Queue](s)
		return ok && queue.Queues()
	}}
	withRests = &layer{"Rests", func(s lockagent.Store) bool {
		rests, ok := lockagent.Layer[lockagent.Rests](s)
		return ok && rests.Rests()
	}}
)

func layerOf[L any](name string) *layer {
	return &layer{name, func(s lockagent.Store) bool {
		_, ok := lockagent.Layer[L](s)
		return ok
	}}
}

// needs skips the rest of the case if the store does not have a layer.
func (h *Harness) needs(t *testing.T, l *layer) {
	t.Helper()
	if l != nil && !l.in(h.Store) {
		t.Skipf("the store has no %s", l.name)
	}
}

// offers reports whether the agent's store has a layer.
func (p *party) offers(l *layer) bool { return l.in(p.store) }
