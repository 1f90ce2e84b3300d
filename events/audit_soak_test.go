//go:build soak

package events

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestSoakTrueHistories(t *testing.T) { trueHistories(t, 1500) }

func TestSoakHistoriesOfEvilStores(t *testing.T) { historiesOfEvilStores(t, 1000) }

func TestSoakHistoriesInPieces(t *testing.T) { historiesInPieces(t, 200) }

func TestSoakAlteredHistories(t *testing.T) { alteredHistories(t, 40) }

func TestSoakResumedAudit(t *testing.T) { resumedAudit(t, 60) }

func TestSoakJudgedWhileRead(t *testing.T) { judgedWhileRead(t, 500) }

func TestSoakPastAgentsComeBack(t *testing.T) {
	for seed := range uint64(8) {
		pastAgentsComeBack(t, seed, 4000)
	}
}

// It keeps the same in the long run, too.
func TestSoakAuditForgets(t *testing.T) {
	t.Run("OK", func(t *testing.T) { auditForgets(t, false, 3*mostPast) })
	t.Run("Crashes", func(t *testing.T) { auditForgets(t, true, 3*mostPast) })
}

// Each kind of corruption is caught, or what is left is the log of another history that is possible, in
// which no two holds overlapped.
func TestSoakCorruptedTenMinutes(t *testing.T) {
	whole := orderlyMinutes(t)
	r := rand.New(rand.NewPCG(1, 1))
	harmless := func(name string, log []Record, report Report) bool {
		if report.Verdict != Proven {
			return false
		}
		if n := missingNumbers(log); n > 0 {
			t.Errorf("%s: proven, though %d records are missing", name, n)
		}
		if pairs := overlaps(log); len(pairs) > 0 {
			t.Errorf("%s: proven, but %+v", name, pairs[0])
		}
		return true
	}
	const tries = 10
	for i, c := range slices.Concat(removals, disorders) {
		caught := 0
		for range tries {
			log := c.do(r, slices.Clone(whole))
			if i >= len(removals) {
				log = renumbered(log)
			}
			report := closed(log)
			if report.Verdict == Violated {
				t.Errorf("%s: %v", c.name, report)
			}
			if !harmless(c.name, log, report) || report.Tails.Count+report.NotJudged.Count > 0 {
				caught++
			}
		}
		t.Logf("%s: %d of %d caught", c.name, caught, tries)
		wantCaught(t, c.name, caught, tries)
	}
	for _, c := range alterations {
		caught, tried := 0, 0
		for range 100 {
			x := &whole[r.IntN(len(whole))]
			before := *x
			if tried == tries || !c.do(r, x) || *x == before {
				*x = before
				continue
			}
			tried++
			if !harmless(c.name, whole, closed(whole)) {
				caught++
			} else if c.harmless == "" {
				t.Errorf("%s of %+v is changed, and that is not found", c.name, before)
			}
			*x = before
		}
		t.Logf("%s: %d of %d caught", c.name, caught, tried)
		wantCaught(t, c.name, caught, tried)
	}
}
