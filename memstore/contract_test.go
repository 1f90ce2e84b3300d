package memstore_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
	"github.com/lockagent/lockagent/storetest"
)

var kinds = []lockagent.LockKind{
	lockagent.PlainLock,
	lockagent.FairLock,
	lockagent.ReadWriteLock,
	lockagent.FencedLock,
	lockagent.SpinLock,
	lockagent.Latch,
	lockagent.Semaphore,
	lockagent.Permits,
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	storetest.RunInBubble(t, kinds, harness)
}

// The store is used in real time too, where goroutines do not take turns.
func TestContractInRealTime(t *testing.T) {
	t.Parallel()
	storetest.Run(t, kinds, func(t *testing.T) *storetest.Harness {
		t.Parallel() // some cases wait for the end of a lease
		return harness(t)
	})
}

func harness(*testing.T) *storetest.Harness {
	store := memstore.New()
	return &storetest.Harness{
		Store: store,
		Open:  func(testing.TB) lockagent.Store { return store.Share() },
		PlantHolder: func(
			_ testing.TB, name lockagent.Name, _ lockagent.LockKind, holder string, count int, lease time.Duration,
		) {
			store.PlantHolder(name, holder, count, lease)
		},
		PlantPermit: func(_ testing.TB, name lockagent.Name, id lockagent.PermitID, lease time.Duration) {
			store.PlantPermit(name, id, lease)
		},
		PlantToken:       func(_ testing.TB, name lockagent.Name, token lockagent.Token) { store.PlantToken(name, token) },
		PlantValue:       func(_ testing.TB, name lockagent.Name) { store.PlantValue(name) },
		PlantForeignHash: func(_ testing.TB, name lockagent.Name) { store.PlantValue(name) },
		PlantOutsider:    func(t testing.TB, name lockagent.Name, wake func()) { t.Cleanup(store.PlantOutsider(name, wake)) },
		PlantWaiter: func(_ testing.TB, name lockagent.Name, wait time.Duration, told func()) {
			store.PlantWaiter(name, wait, told)
		},
		Reset:     func(testing.TB) { store.Reset() },
		StepClock: func(_ testing.TB, d time.Duration) { store.StepClock(d) },
	}
}
