package logtest

import (
	"cmp"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"github.com/lockagent/lockagent"
)

// seedVariable is the first seed of the random tests, if it is not 1.
const seedVariable = "LOCKAGENT_TEST_SEED"

// Test is a [testing.T]. A program links this package, and must not link package testing.
type Test interface {
	Helper()
	Failed() bool
	Fatalf(format string, args ...any)
}

// Seeds calls test with so many seeds, until it fails.
func Seeds(t Test, many int, test func(seed uint64, r *rand.Rand)) {
	t.Helper()
	first, err := strconv.ParseUint(cmp.Or(os.Getenv(seedVariable), "1"), 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", seedVariable, err)
	}
	for seed := first; seed < first+uint64(many) && !t.Failed(); seed++ {
		test(seed, rand.New(rand.NewPCG(seed, 1)))
	}
}

// Wall is a time so many milliseconds after a beginning.
func Wall(ms int) time.Time {
	return time.Date(2026, 3, 1, 14, 0, 0, 0, time.UTC).Add(time.Duration(ms) * time.Millisecond)
}

// Clock is the same time on the clock of the store.
func Clock(ms int) lockagent.StoreTime { return lockagent.StoreTime(Wall(ms).UnixMicro()) }
