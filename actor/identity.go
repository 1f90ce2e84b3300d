package actor

import (
	"cmp"
	"context"
	"os"
	"os/user"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/inperson"
)

// identity is the store of an agent, for as long as no other agent has the identity. The calls for tenures go through
// it.
//
// An agent that goes on with the tenures of another one makes none of these calls before the store has told that the
// identity is its alone. Otherwise the state of an agent that is alive may have been copied, and both would have its
// tenures. A new agent does not wait: it has no tenure yet, and no other agent that starts uses its numbers.
//
// All of that is about agents that start. The copy of a machine that ran has an agent that is under way, with the same
// next number and the same calls. Each of the two makes its calls until one of them is told that it has a twin, which
// is when the connection of the copy is made anew. Until then the store may grant both of them one tenure, with one
// token.
type identity struct {
	lockagent.Store

	verdict atomic.Int32
	known   chan struct{} // closed with the first verdict of the store
	taken   chan struct{} // closed when another agent has the identity
	begun   atomic.Bool   // New has returned, or is about to

	mu      sync.Mutex // guards what follows, and changes of verdict
	waiting []func()   // calls that wait for the verdict
	told    bool       // known is closed
}

// The verdicts of an identity.
const (
	verdictAsking int32 = iota // the store has not told yet, and calls wait
	verdictMine                // calls go to the store
	verdictCut                 // calls fail: the agent ends before the store has told
	verdictTaken               // calls fail: another agent has the identity
)

func (i *identity) init(store lockagent.Store, resumes bool) {
	i.Store, i.known, i.taken = store, make(chan struct{}), make(chan struct{})
	if !resumes {
		i.verdict.Store(verdictMine)
	}
}

// Unwrap returns the store, see [lockagent.Layer].
func (i *identity) Unwrap() lockagent.Store { return i.Store }

// begin is called when the agent can be closed. It reports whether another agent has the identity already.
func (i *identity) begin() bool {
	i.begun.Store(true)
	return i.verdict.Load() == verdictTaken
}

// settle takes a verdict. It reports whether that is a change. Only the verdict that the identity is taken changes an
// earlier one.
func (i *identity) settle(verdict int32) bool {
	i.mu.Lock()
	before := i.verdict.Load()
	changes := before == verdictAsking || verdict == verdictTaken && before != verdictTaken
	if changes {
		i.verdict.Store(verdict)
	}
	if verdict != verdictCut && !i.told {
		i.told = true
		close(i.known)
	}
	if changes && verdict == verdictTaken {
		close(i.taken)
	}
	waiting := i.waiting
	i.waiting = nil
	i.mu.Unlock()
	for _, call := range waiting {
		call()
	}
	return changes
}

// ready reports whether a call may be made. If it may not, the call is refused at once, or again is called when there
// is a verdict.
func (i *identity) ready(again func(), refuse func(error)) bool {
	switch i.verdict.Load() {
	case verdictMine:
		return true
	case verdictCut:
		refuse(lockagent.ErrStoreUnavailable)
	case verdictTaken:
		refuse(lockagent.ErrIdentityInUse)
	default:
		i.mu.Lock()
		asks := i.verdict.Load() == verdictAsking
		if asks {
			i.waiting = append(i.waiting, again)
		}
		i.mu.Unlock()
		if !asks {
			again()
		}
	}
	return false
}

// closed is the error of whatever comes after the end of the agent.
func (i *identity) closed() error {
	if i.verdict.Load() == verdictTaken {
		return lockagent.ErrIdentityInUse
	}
	return lockagent.ErrClosed
}

// why is the reason of a loss, for which the state machine says why.
func (i *identity) why(why lockagent.LossReason) lockagent.LossReason {
	if why == lockagent.LostClosed && i.verdict.Load() == verdictTaken {
		return lockagent.LostIdentity
	}
	return why
}

// Acquire implements [lockagent.Store].
func (i *identity) Acquire(
	ctx context.Context, req lockagent.AcquireRequest, done func(lockagent.AcquireReply, error),
) {
	again := func() { i.Acquire(inperson.Not(ctx), req, done) } // in another goroutine
	if i.verdict.Load() == verdictMine || i.ready(again, func(err error) { done(lockagent.AcquireReply{}, err) }) {
		i.Store.Acquire(ctx, req, done)
	}
}

// Renew implements [lockagent.Store].
func (i *identity) Renew(ctx context.Context, req lockagent.RenewRequest, done func(lockagent.RenewReply, error)) {
	again := func() { i.Renew(ctx, req, done) }
	if i.verdict.Load() == verdictMine || i.ready(again, func(err error) { done(lockagent.RenewReply{}, err) }) {
		i.Store.Renew(ctx, req, done)
	}
}

// Release implements [lockagent.Store].
func (i *identity) Release(
	ctx context.Context, req lockagent.ReleaseRequest, done func(lockagent.ReleaseReply, error),
) {
	again := func() { i.Release(inperson.Not(ctx), req, done) } // in another goroutine
	if i.verdict.Load() == verdictMine || i.ready(again, func(err error) { done(lockagent.ReleaseReply{}, err) }) {
		i.Store.Release(ctx, req, done)
	}
}

// IdentityKnown is closed when the store has told for the first time whether another agent that is alive has the
// identity of this one.
func (a *Agent) IdentityKnown() <-chan struct{} { return a.identity.known }

// IdentityTaken is closed when the store has told that another agent that is alive has the identity of this one, and
// came first. That may be at any time: both may have begun while the store was away, or a machine may be copied while
// it runs. Then this agent ends as by [Agent.Close]. But it gives nothing back, because its tenures may be those of
// the other one, and its errors are [lockagent.ErrIdentityInUse].
func (a *Agent) IdentityTaken() <-chan struct{} { return a.identity.taken }

// yield ends the agent: another one has its identity.
func (a *Agent) yield() {
	if a.identity.settle(verdictTaken) && a.identity.begun.Load() {
		a.cfg.Logger.Error("lockagent: this agent ends, and gives nothing back",
			"agent", a.cfg.ID, "error", lockagent.ErrIdentityInUse)
		a.ending.stays.Store(true)
		go func() { _ = a.Close() }() // a call of Close by the application returns the same
	}
}

// describe adds to p what is zero and the system tells.
func describe(p lockagent.Process) lockagent.Process {
	is := thisProcess()
	p.Host, p.Program = cmp.Or(p.Host, is.Host), cmp.Or(p.Program, is.Program)
	p.Version, p.PID, p.User = cmp.Or(p.Version, is.Version), cmp.Or(p.PID, is.PID), cmp.Or(p.User, is.User)
	return p
}

// thisProcess describes this process, without its command. What the system does not tell stays empty.
var thisProcess = sync.OnceValue(func() lockagent.Process {
	p := lockagent.Process{PID: os.Getpid()}
	p.Host, _ = os.Hostname()
	if path, err := os.Executable(); err == nil {
		p.Program = filepath.Base(path)
	}
	if build, ok := debug.ReadBuildInfo(); ok {
		p.Version = build.Main.Version
	}
	if is, err := user.Current(); err == nil {
		p.User = is.Username
	} else if uid := os.Geteuid(); uid >= 0 {
		p.User = strconv.Itoa(uid)
	}
	return p
})
