package forgettest

import (
	"math/rand/v2"
	"time"
)

// Kind is a kind of lock.
type Kind string

// The kinds of locks.
const (
	Plain     Kind = "plain"
	Fair      Kind = "fair"
	Fenced    Kind = "fenced"
	Spin      Kind = "spin"
	Read      Kind = "read"
	Write     Kind = "write"
	Semaphore Kind = "semaphore"
	Permits   Kind = "permits"
)

// Kinds are all of them.
var Kinds = []Kind{Plain, Fair, Fenced, Spin, Read, Write, Semaphore, Permits}

// counts is whether there are permits of the kind.
func (k Kind) counts() bool { return k == Semaphore || k == Permits }

// What a lock has, and how many agents want it.
const (
	agents       = 2
	manyReaders  = 1000
	totalPermits = 2
)

func (k Kind) capacity() int {
	switch k {
	case Read, Write:
		return manyReaders
	case Semaphore, Permits:
		return totalPermits
	}
	return 1
}

// weight is what one hold of the kind takes of the capacity. It is by chance for permits.
func (k Kind) weight() int {
	switch {
	case k.counts():
		return 1 + rand.N(totalPermits)
	case k == Read:
		return 1
	}
	return k.capacity()
}

// load is what workers do with a lock, again and again: they pause, ask for it, and hold it.
type load struct {
	lock    string
	kind    Kind
	workers int // in each agent
	hot     bool
	hold    [2]time.Duration      // shortest and longest
	pause   [agents]time.Duration // the longest, in each agent
}

// hot is the load of a lock that is held for moments, and that both agents want all the time.
func hot(lock string, kind Kind, workers int) load {
	const pause = 20 * time.Millisecond
	return load{
		lock: "hot-" + lock, kind: kind, workers: workers, hot: true,
		hold:  [2]time.Duration{0, 3 * time.Millisecond},
		pause: [agents]time.Duration{pause, pause},
	}
}

// long is the load of a lock that somebody holds nearly all the time, for longer than a renewal is away.
func long(lock string, kind Kind) load {
	const pause = 300 * time.Millisecond
	return load{
		lock: "long-" + lock, kind: kind, workers: 1,
		hold:  [2]time.Duration{2 * time.Second, 4 * time.Second},
		pause: [agents]time.Duration{pause, pause},
	}
}

// resting is the load of a lock that rests in the first agent, because the second one seldom wants it.
func resting() load {
	l := hot("resting", Plain, 1)
	l.pause = [agents]time.Duration{2 * time.Millisecond, 2 * time.Second}
	return l
}

// loads are those of all locks. A lock of readers and writers has two.
var loads = []load{
	hot("plain", Plain, 2), hot("fair", Fair, 1), hot("fenced", Fenced, 1), hot("spin", Spin, 1),
	hot("shared", Read, 2), hot("shared", Write, 1), hot("semaphore", Semaphore, 2), hot("permits", Permits, 2),
	resting(),
	long("plain", Plain), long("fair", Fair), long("fenced", Fenced), long("spin", Spin),
	long("shared", Read), long("shared", Write), long("semaphore", Semaphore), long("permits", Permits),
}
