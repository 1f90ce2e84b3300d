package lockagent_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events/audit"
	"github.com/lockagent/lockagent/memstore"
)

// withoutHistory is a store in memory with every layer but one.
type withoutHistory struct {
	lockagent.Store
	lockagent.Messages
	lockagent.Queue
	lockagent.Rests
	lockagent.Operator
	lockagent.Counters
}

func newWithoutHistory(s *memstore.Store) lockagent.Store { return withoutHistory{s, s, s, s, s, s} }

// The story of [live] with a store that has no History. The events name no store, and nothing is proven by them.
func TestAuditOfAStoreWithoutHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := memstore.New()
		alpha := newAgent(t, newWithoutHistory(memory.Share()), nil)
		beta := newAgent(t, newWithoutHistory(memory.Share()), nil)
		live(t, alpha, beta)
		compare(t, alpha, beta)
		for _, e := range slices.Concat(alpha.journal.events, beta.journal.events) {
			if e.Store != "" || e.Kind == lockagent.EventAlive {
				t.Errorf("event %+v", e)
			}
		}
		report := auditOf(alpha.journal, beta.journal)
		text := report.String()
		if report.Verdict != audit.Incomplete ||
			!strings.Contains(text, "5 tenures do not say of which store they are") {
			t.Errorf("the audit says\n%v", text)
		}
	})
}
