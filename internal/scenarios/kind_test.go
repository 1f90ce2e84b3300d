package scenarios

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent/channelapi"
)

// kind is one kind of lock.
type kind struct {
	name string
	// handles returns the handles of a session that are acquired together.
	handles func(s *channelapi.Session, name string, opts ...channelapi.Option) []handle
	late    time.Duration // how long after a release a waiter may get the lock
}

// handle is what a scenario needs of a handle. A channelapi.SessionLock is one.
type handle interface {
	channelapi.AnyLock
	Release(context.Context) error
	Status(context.Context) (channelapi.Status, error)
	Break(ctx context.Context, operator string) (held bool, err error)
}

// one is for kinds that have one handle.
func one[H handle](
	open func(*channelapi.Session, string, ...channelapi.Option) H,
) func(*channelapi.Session, string, ...channelapi.Option) []handle {
	return func(s *channelapi.Session, name string, opts ...channelapi.Option) []handle {
		return []handle{open(s, name, opts...)}
	}
}

var plain = kind{name: "plain", handles: one((*channelapi.Session).Lock)}

var (
	fair         = kind{name: "fair", handles: one((*channelapi.Session).FairLock)}
	read         = kind{name: "read", handles: one((*channelapi.Session).ReadLock)}
	write        = kind{name: "write", handles: one((*channelapi.Session).WriteLock)}
	spin         = kind{name: "spin", handles: one((*channelapi.Session).SpinLock), late: 200 * time.Millisecond}
	nonreentrant = kind{
		name: "nonreentrant", handles: func(s *channelapi.Session, name string, opts ...channelapi.Option) []handle {
			return []handle{s.Lock(name, append(opts, channelapi.NoReentry())...)}
		},
	}
	nonreentrantFair = kind{
		name: "nonreentrantfair", handles: func(s *channelapi.Session, name string, opts ...channelapi.Option) []handle {
			return []handle{s.FairLock(name, append(opts, channelapi.NoReentry())...)}
		},
	}
)

var all = kind{name: "all", handles: func(s *channelapi.Session, name string, opts ...channelapi.Option) []handle {
	return []handle{s.Lock(name+"/1", opts...), s.Lock(name+"/2", opts...)}
}}

// kinds are the kinds that are tested. Each goes through the scenarios that have an id for it in [shared].
var kinds = []kind{plain, fair, read, write, spin, nonreentrant, nonreentrantFair, all}

func TestKinds(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			for _, s := range shared {
				if ids := s.idsOf(k); ids != "" {
					t.Run(ids+s.name, func(t *testing.T) { s.where(t, k, s.run) })
				}
			}
		})
	}
}

// scenario is a scenario for several kinds.
type scenario struct {
	name  string
	where func(t *testing.T, k kind, run func(*world))
	run   func(*world)
	ids   string // a list of kinds, each with its ids: "plain A21, all H11H21"
}

// idsOf returns the ids that the scenario has for a kind, one after the other, or "".
func (s scenario) idsOf(k kind) string {
	for entry := range strings.SplitSeq(s.ids, ", ") {
		if name, ids, _ := strings.Cut(entry, " "); name == k.name {
			return ids
		}
	}
	return ""
}

// shared are the scenarios that kinds have in common.
var shared = []scenario{
	// What a session and others see.
	{"HoldCount", inMemory, holdCount, "plain A13, fair D15, read E20, write E20, spin G08, all H06"},
	{"NoOtherOwnerHoldsIt", inMemory, noOtherOwnerHoldsIt, "plain A14, fair D16, read E21, spin G09, all H20"},
	{"TheOwnerHoldsIt", inMemory, theOwnerHoldsIt, "plain A15, fair D17, read E22, spin G10, all H01H11H21"},
	{"OthersSeeIt", inMemory, othersSeeIt, "plain A16, fair D18, read E23, spin G11, all H22"},
	{"LockedWhileHeld", inMemory, lockedWhileHeld, "plain A18, fair D19, read E24, spin G12, all H23"},
	{"TwiceInARow", inMemory, twiceInARow, "plain A20, fair D21, read E26, spin G14"},
	{"Reentry", inMemory, reentry, "fair D22, spin G15, all H25"},
	{"RemainingTime", inMemory, remainingTime, "plain A10"},

	// Waiting.
	{"ShortWaitsOfMany", inMemory, shortWaitsOfMany, "plain A02, all H13"},
	{"CancelledRequestIsNotRenewed", inMemory, cancelledRequestIsNotRenewed, "plain A03, all H14"},
	{"TryFails", inMemory, tryFails, "spin G22, all H09"},
	{"WaitInVain", inMemory, waitInVain, "plain A06, fair D11, spin G02"},
	{"NothingInterruptsTheWait", inMemory, nothingInterruptsTheWait, "plain A07, spin G03, all H16"},
	{"TheWaiterGetsIt", inMemory, theWaiterGetsIt, "spin G19, all H03, nonreentrant M01, nonreentrantfair M01"},
	{"WaitForTheEndOfALease", inMemory, waitForTheEndOfALease, "all H10"},

	// How a hold ends, or goes on.
	{"Break", inMemory, breakIt, "plain A08, fair D12, spin G04, all H07"},
	{"StrangerCannotRelease", inMemory, strangerCannotRelease, "plain A19, fair D20, read E25, spin G13, all H24"},
	{"LeaseRunsOut", inMemory, leaseRunsOut, "fair D13, write E18, spin G05, all H17"},
	{"DeadHolder", inMemory, deadHolder, "plain A12, fair D14, write E19, spin G07, all H19"},
	{"LossSpoilsNoLaterRenewal", inMemory, lossSpoilsNoLaterRenewal, "plain B03, write B01, read B02"},
	{"KeptLeaseIsRenewed", inMemory, keptLeaseIsRenewed, "all H08"},
	{"RenewalEndsWithTheHold", inMemory, renewalEndsWithTheHold, "plain C03"},
	{"RenewalEndsWithTheLastGrant", inMemory, renewalEndsWithTheLastGrant, "plain C04, read C04"},

	// Contention.
	{"TriesNeverStopTheRenewal", inMemory, triesNeverStopTheRenewal, "plain A22"},
	{"OneAgentCounts", inMemory, oneAgentCounts, "plain A23, fair D23, spin G16, all H26"},
	{"ManyAgentsCountOften", inMemory, manyAgentsCountOften, "plain A24, fair D24, spin G17, all H27"},
	{"ManyAgentsCountOnce", inMemory, manyAgentsCountOnce, "plain A25, fair D25, spin G18, all H28"},

	// Real servers.
	{"NoSubscriptionIsLeft", onRedis, noSubscriptionIsLeft, "plain A01, all H12"},
	{"ServerIsGone", onRedis, serverIsGone, "plain A04, spin G01, all H15"},
}
