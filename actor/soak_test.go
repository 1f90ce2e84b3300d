//go:build soak

package actor

import "testing"

func TestSoakMisbehavingStore(t *testing.T) { misbehaving(t, 30) }

func TestSoakMisbehavingStoreInRealTime(t *testing.T) { misbehavingInRealTime(t, 60) }

func TestSoakDetachedAgain(t *testing.T) { detachedAgain(t, 60) }

func TestSoakKilledAgain(t *testing.T) { killedAgain(t, 40) }

func TestSoakJournalTellsAll(t *testing.T) { journalTellsAll(t, 20) }
