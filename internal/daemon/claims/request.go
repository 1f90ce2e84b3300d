package claims

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/actor"
	"github.com/lockagent/lockagent/internal/daemon/refusal"
)

// Bounds of what a client may say about its claim.
const (
	MinSecret   = 16   // bytes of a secret that a client chose
	MaxSecret   = 128  // the same
	MaxCommand  = 1024 // bytes of a command
	MaxProgram  = lockagent.MaxProcessText
	MaxLabels   = 16
	MaxLabelLen = 256 // bytes of the name of a label, and of its text
)

// Client is the process that makes a claim.
type Client struct {
	PID      int
	UID, GID uint32
	Program  string // as the client says, or the name of the process
	Started  uint64 // tells the process from others with its number; 0 if that is not known
}

// Request says what a client wants. The fields up to Lease are as in [actor.Request].
type Request struct {
	Client Client

	Name    lockagent.Name
	Kind    lockagent.LockKind
	Mode    lockagent.Mode
	Permits int
	Try     bool
	Wait    time.Duration
	Lease   time.Duration

	// Holds is how many holds the client wants to make of the claim, one after the other. 0 is 1.
	Holds int

	// Outlive leaves a hold in place when its stream ends, until its lease has run out.
	Outlive bool

	// Detach leaves the claim in place when the client has been told of its grant. It needs a TTL, a process or a
	// Lease.
	Detach bool
	// TTL is for how long a detached claim lasts when nobody renews it. 0 is without end.
	TTL time.Duration
	// ForPID is a process of the client's user. A detached claim ends with it. 0 is none.
	ForPID int

	// Session is what claims have in common that may hold a lock several times. Each user has sessions of its own.
	Session string
	// NoRest has the lock not rest when the hold ends.
	NoRest bool

	// NoReentry refuses the request if its session has the lock or waits for it already.
	NoReentry bool

	// Secret is that of the claim, if the client chose it: see [Book.Acquire].
	Secret string

	Command string // for people
	Labels  map[string]string

	// Trace is a context with the trace that the request is part of. Nothing else of it counts. It may be nil.
	Trace context.Context

	// News is called when the stream of the claim may have something to tell, which [Stream.Take] returns. It must not
	// block, and must not call this package. If it is nil, [Stream.Next] waits for that.
	News func()
}

// check returns a [*lockagent.OptionError] if something is wrong that the agent does not look at.
func (r *Request) check() error {
	wrong := func(option, format string, args ...any) error {
		return &lockagent.OptionError{Option: option, Reason: fmt.Sprintf(format, args...)}
	}
	text := func(option, s string, most int) error {
		if len(s) > most || !utf8.ValidString(s) {
			return wrong(option, "%d bytes, and the limit is %d bytes of UTF-8", len(s), most)
		}
		return nil
	}
	switch {
	case r.Try && r.Wait != 0:
		return wrong("wait", "wait and try exclude each other; leave one of them out")
	case r.Wait < 0:
		return wrong("wait", "%v is negative; use try to ask once", r.Wait)
	case r.TTL < 0 || r.TTL > lockagent.MaxLease:
		return wrong("ttl", "%v is not between 0 and %v", r.TTL, lockagent.MaxLease)
	case r.Detach && r.TTL == 0 && r.ForPID == 0 && r.Lease == 0:
		return wrong("detach", "a claim that nothing ends would be forgotten; add ttl, for_pid or lease")
	case !r.Detach && (r.TTL != 0 || r.ForPID != 0):
		return wrong("detach", "ttl and for_pid are of detached claims; add detach")
	case r.Holds < 0 || r.Holds > refusal.MaxHolds:
		return wrong("holds", "%d is not between 1 and %d; make another claim for more", r.Holds, refusal.MaxHolds)
	case r.NoReentry && r.Session == "":
		return wrong("no_reentry", "a claim without a session is never a re-entry; add session")
	case r.Secret != "" && (len(r.Secret) < MinSecret || len(r.Secret) > MaxSecret):
		return wrong(
			"secret", "%d bytes are not between %d and %d; choose them at random, or leave secret out", len(r.Secret), MinSecret,
			MaxSecret,
		)
	case len(r.Labels) > MaxLabels:
		return wrong("labels", "%d labels, and the limit is %d", len(r.Labels), MaxLabels)
	}
	if err := text("session", r.Session, refusal.MaxSession); err != nil {
		return err
	}
	if err := errors.Join(
		text("command", r.Command, MaxCommand), text("program", r.Client.Program, MaxProgram),
	); err != nil {
		return err
	}
	for name, value := range r.Labels {
		if err := text("labels", name, MaxLabelLen); err != nil {
			return err
		}
		if err := text("labels", value, MaxLabelLen); err != nil {
			return err
		}
	}
	return nil
}

// owner is who holds the lock for the agent: the claim alone, or a session of the user.
func (r *Request) owner(id string) lockagent.Owner {
	if r.Session == "" {
		return lockagent.Owner(id)
	}
	return lockagent.Owner(strconv.FormatUint(uint64(r.Client.UID), 10) + "/" + r.Session)
}

// tag is by what the next daemon finds the claim of a request, if the owner does not tell.
func (r *Request) tag(id string) string {
	if r.Session == "" {
		return ""
	}
	return id
}

// asks is the request to the agent.
func (r *Request) asks(id string, watch actor.Watcher, who lockagent.Who) actor.Request {
	return actor.Request{
		Owner: r.owner(id), Kind: r.Kind, Mode: r.Mode, Permits: r.Permits, Try: r.Try, Wait: r.Wait, Lease: r.Lease,
		Session: r.Session != "", NoReentry: r.NoReentry, NoRest: r.NoRest, Outlive: r.Outlive, Watch: watch, Tag: r.tag(id),
		Holds: uint16(r.Holds), Who: who,
	}
}
