//go:build soak

package audit

import "testing"

func TestSoakTrueHistories(t *testing.T) { trueHistories(t, 1500) }

func TestSoakHistoriesOfEvilStores(t *testing.T) { historiesOfEvilStores(t, 1000) }

func TestSoakHistoriesInPieces(t *testing.T) { historiesInPieces(t, 200) }

func TestSoakAlteredHistories(t *testing.T) { alteredHistories(t, 10) }

func TestSoakResumedAudit(t *testing.T) { resumedAudit(t, 60) }

func TestSoakAcknowledgedHistories(t *testing.T) { acknowledgedHistories(t, 600) }

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
