//go:build soak

package actor

import "testing"

func TestSoakMisbehavingStore(t *testing.T) { misbehaving(t, 12) }

func TestSoakMisbehavingStoreInRealTime(t *testing.T) { misbehavingInRealTime(t, 40) }

func TestSoakDetachedAgain(t *testing.T) { detachedAgain(t, 30) }

func TestSoakKilledAgain(t *testing.T) { killedAgain(t, 20) }

func TestSoakJournalTellsAll(t *testing.T) { journalTellsAll(t, 6) }
