package memstore

import (
	"fmt"

	"github.com/lockagent/lockagent"
)

// rules are those of one kind of lock. mu must be held. acquire, breakLock and inspect are called
// for a name that is not in use as another kind.
type rules struct {
	acquire   func(*memory, *visit, lockagent.AcquireRequest) (lockagent.AcquireReply, error)
	renew     func(*memory, *visit, lockagent.RenewRequest) (lockagent.RenewReply, error)
	release   func(*memory, *visit, lockagent.ReleaseRequest) (lockagent.ReleaseReply, error)
	breakLock func(*memory, *visit, lockagent.BreakRequest) (lockagent.BreakReply, error)
	inspect   func(*memory, *visit, lockagent.Name) (lockagent.Inspection, error)
}

var kinds = map[lockagent.LockKind]*rules{
	lockagent.PlainLock:     plainRules,
	lockagent.ReadWriteLock: plainRules, // tenures may share it
	lockagent.Semaphore:     permitRules,
	lockagent.Permits:       permitRules,
	lockagent.FencedLock: {
		acquire:   (*memory).acquireFenced,
		renew:     (*memory).renewPlain,
		release:   (*memory).releaseFenced,
		breakLock: (*memory).breakPlain,
		inspect:   (*memory).inspectPlain,
	},
	lockagent.Latch: {
		acquire:   (*memory).acquireLatch,
		renew:     (*memory).renewLatch,
		release:   (*memory).releaseLatch,
		breakLock: (*memory).breakLatch,
		inspect:   (*memory).inspectLatch,
	},
	lockagent.SpinLock: {
		acquire:   (*memory).acquireSpin,
		renew:     (*memory).renewPlain,
		release:   (*memory).releaseSpin,
		breakLock: (*memory).breakPlain,
		inspect:   (*memory).inspectPlain,
	},
	lockagent.FairLock: {
		acquire:   (*memory).acquireFair,
		renew:     (*memory).renewPlain,
		release:   (*memory).releaseFair,
		breakLock: (*memory).breakFair,
		inspect:   (*memory).inspectPlain,
	},
}

var plainRules = &rules{
	acquire:   (*memory).acquireOften,
	renew:     (*memory).renewPlain,
	release:   (*memory).releasePlain,
	breakLock: (*memory).breakPlain,
	inspect:   (*memory).inspectPlain,
}

var permitRules = &rules{
	acquire:   (*memory).acquirePermits,
	renew:     (*memory).renewPermits,
	release:   (*memory).releasePermits,
	breakLock: (*memory).breakPermits,
	inspect:   (*memory).inspectPermits,
}

// rulesOf returns the rules of a kind.
func rulesOf(kind lockagent.LockKind) (*rules, error) {
	if r := kinds[kind.OrPlain()]; r != nil {
		return r, nil
	}
	return nil, &lockagent.OptionError{
		Option: "kind", Reason: fmt.Sprintf("this store has no locks of the kind %.64q", kind),
	}
}

// rulesFor is rulesOf for a name. It is an error if the name is in use as another kind.
func (m *memory) rulesFor(name lockagent.Name, kind lockagent.LockKind, v *visit) (*rules, error) {
	if used := m.lock(name, v.now).usedAs(); used != "" && used != kind.OrPlain() {
		return nil, &lockagent.KindError{Name: name, Kind: kind.OrPlain(), Used: used}
	}
	return rulesOf(kind)
}

// usedAs is the kind of a lock that somebody has, of a latch that is closed or of a semaphore, or empty if nothing
// shows it. Another program shows none.
func (l *lock) usedAs() lockagent.LockKind {
	for i := range l.holders {
		if l.holders[i].foreign == "" {
			return l.holders[i].kind
		}
	}
	switch {
	case l.latch.count > 0:
		return lockagent.Latch
	case l.permits != nil && l.permits.exists:
		return l.kind
	}
	return ""
}

func (m *memory) acquire(v *visit, req lockagent.AcquireRequest) (lockagent.AcquireReply, error) {
	r, err := m.rulesFor(req.Name, req.Kind, v)
	if err != nil {
		return lockagent.AcquireReply{}, err
	}
	return r.acquire(m, v, req)
}

func (m *memory) renew(v *visit, req lockagent.RenewRequest) (lockagent.RenewReply, error) {
	r, err := rulesOf(req.Kind)
	if err != nil {
		return lockagent.RenewReply{}, err
	}
	return r.renew(m, v, req)
}

func (m *memory) release(v *visit, req lockagent.ReleaseRequest) (lockagent.ReleaseReply, error) {
	r, err := rulesOf(req.Kind)
	if err != nil {
		return lockagent.ReleaseReply{}, err
	}
	return r.release(m, v, req)
}

func (m *memory) breakLock(v *visit, req lockagent.BreakRequest) (lockagent.BreakReply, error) {
	r, err := m.rulesFor(req.Name, req.Kind, v)
	if err != nil {
		return lockagent.BreakReply{}, err
	}
	return r.breakLock(m, v, req)
}

// inspection is the request of an Inspect.
type inspection struct {
	name lockagent.Name
	kind lockagent.LockKind
}

// Check implements request.
func (i inspection) Check() error {
	_, err := lockagent.ParseName(string(i.name))
	return err
}

func (m *memory) inspect(v *visit, i inspection) (lockagent.Inspection, error) {
	r, err := m.rulesFor(i.name, i.kind, v)
	if err != nil {
		return lockagent.Inspection{}, err
	}
	return r.inspect(m, v, i.name)
}
