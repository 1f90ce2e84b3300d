//go:build linux

package daemon

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/daemon/journal"
	"github.com/lockagent/lockagent/memstore"
)

// remembered is a store in memory without a journal of the daemon before.
func remembered(t *testing.T, unknown Unknown) lockagent.Store {
	t.Helper()
	j, before, err := journal.Open(filepath.Join(t.TempDir(), "journal"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	store, err := Remember(memstore.New(), j, before, unknown)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// asks asks for a lock.
func asks(s lockagent.Store, number uint64, lease time.Duration) (granted bool, err error) {
	req := lockagent.AcquireRequest{Name: "door", Kind: lockagent.PlainLock, Mode: lockagent.Exclusive, Tenure: lockagent.Tenure{Agent: "a", Number: number}, Lease: lease}
	s.Acquire(background, req, func(r lockagent.AcquireReply, e error) { granted, err = r.Granted, e })
	return granted, err
}

// Nothing is granted while leases may go on of which the journal does not tell.
func TestLeasesThatNobodyKnows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := remembered(t, Unknown{Left: 20 * time.Second})
		ready := func() (err error) {
			s.Time(background, func(_ lockagent.StoreTime, e error) { err = e })
			return err
		}
		for _, passed := range []time.Duration{0, 20*time.Second - 1} {
			time.Sleep(passed)
			granted, err := asks(s, 1, time.Second)
			if granted || !errors.Is(err, lockagent.ErrStoreUnavailable) || !strings.Contains(err.Error(), "the journal of the daemon before is missing") {
				t.Errorf("after %v: %v, %v", passed, granted, err)
			}
			if err := ready(); !errors.Is(err, lockagent.ErrStoreUnavailable) {
				t.Errorf("after %v it is ready: %v", passed, err)
			}
		}
		time.Sleep(time.Nanosecond)
		if granted, err := asks(s, 1, time.Second); !granted || err != nil {
			t.Errorf("afterwards: %v, %v", granted, err)
		}
		if err := ready(); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}

// The state directory knows of a lease before anybody has it. It is told seldom.
func TestLeasesAreNotedBeforeTheyAreGiven(t *testing.T) {
	var given []time.Duration
	full := errors.New("the disk is full")
	var fails error
	s := remembered(t, Unknown{Give: func(d time.Duration) error {
		if fails == nil {
			given = append(given, d)
		}
		return fails
	}})
	fails = full
	if granted, err := asks(s, 1, time.Second); granted || !errors.Is(err, full) || !errors.Is(err, lockagent.ErrStoreUnavailable) {
		t.Errorf("without a note: %v, %v", granted, err)
	}
	fails = nil
	if granted, err := asks(s, 2, 30*time.Second); !granted || err != nil {
		t.Errorf("%v, %v", granted, err)
	}
	renew := func(lease time.Duration) (err error) {
		tenure := lockagent.Tenure{Agent: "a", Number: 2}
		s.Renew(background, lockagent.RenewRequest{Name: "door", Kind: lockagent.PlainLock, Mode: lockagent.Exclusive, Tenure: tenure, Lease: lease}, func(_ lockagent.RenewReply, e error) { err = e })
		return err
	}
	for _, lease := range []time.Duration{30 * time.Second, 31 * time.Second, time.Minute} {
		if err := renew(lease); err != nil {
			t.Error(err)
		}
	}
	fails = full
	if err := renew(time.Hour); !errors.Is(err, full) {
		t.Errorf("without a note: %v", err)
	}
	if want := []time.Duration{32 * time.Second, 64 * time.Second}; !slices.Equal(given, want) {
		t.Errorf("noted %v, want %v", given, want)
	}
	set := lockagent.PermitsRequest{Name: "pool", Kind: lockagent.Permits, Op: lockagent.ExtendPermit, ID: "x", Lease: time.Hour, Change: change()}
	s.Permits(background, set, func(_ lockagent.PermitsReply, err error) {
		if !errors.Is(err, full) {
			t.Errorf("without a note: %v", err)
		}
	})
}
