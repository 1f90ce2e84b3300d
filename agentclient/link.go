package agentclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/bootclock"
	"github.com/lockagent/lockagent/internal/daemon/refusal"
	"github.com/lockagent/lockagent/internal/daemon/wire"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// The link carries all claims. When it breaks, the agent makes another one, and says again what it wants. It attaches
// to each claim whose id the daemon has told, and asks anew for the others. If the daemon, or the one before, has such
// a request already, it knows the secret, and goes on with that claim.

// start makes the first link, and keeps one until the agent ends.
func (a *agent) start(ctx context.Context) error {
	first := make(chan error, 1)
	go a.keep(func(err error) {
		select {
		case first <- err:
		default:
		}
	})
	var err error
	select {
	case err = <-first:
	case <-ctx.Done():
		err = lockagent.CauseOf(ctx)
	}
	if err != nil {
		a.stop()
		<-a.ended
		return err
	}
	return nil
}

// keep keeps a link. tried is told of each attempt.
func (a *agent) keep(tried func(error)) {
	defer close(a.ended)
	defer a.rpc.hangUp()
	pause := retryMin
	for {
		err := a.converse(func() {
			tried(nil)
			pause = retryMin
		})
		tried(a.unlinked(err))
		select {
		case <-time.After(pause/2 + rand.N(pause)):
		case <-a.over.Done():
			return
		}
		pause = min(2*pause, retryMax)
	}
}

// unlinked says that there is no link, because of err. It returns the error of a call.
func (a *agent) unlinked(err error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.linked || a.silent.IsZero() {
		a.silent = time.Now()
	}
	a.linked, a.trouble, a.commands = false, err, nil
	for _, c := range a.claims {
		c.asked, c.confirmed = false, false
		if c.stage == waiting && c.req.Try {
			c.deny(a.unavailable(err))
			a.giveBack(c) // the daemon may have granted it
		}
	}
	return a.unavailable(err)
}

// converse makes a link, and reads it until it ends.
func (a *agent) converse(made func()) error {
	ctx, cancel := context.WithCancel(a.over)
	defer cancel()
	news, err := a.rpc.lock.Link(ctx, &lockagentv1.LinkRequest{})
	if err != nil {
		return err
	}
	defer func() {
		cancel()
		_ = news.Close() // how it ended has been told
	}()
	if !news.Receive() {
		return cmp.Or(news.Err(), errEnded)
	}
	link := news.Msg().GetLink()
	a.resume()
	made()
	submitted := make(chan error, 1)
	go func() {
		defer cancel()
		submitted <- a.send(ctx, link)
	}()
	for news.Receive() {
		for _, e := range news.Msg().GetEvents() {
			a.hear(e)
		}
	}
	err = news.Err()
	cancel()
	if refused := <-submitted; connect.CodeOf(err) == connect.CodeCanceled { // the link ended because that did
		err = cmp.Or(refused, err)
	}
	return cmp.Or(err, errEnded)
}

var errEnded = errors.New("agentclient: the daemon has ended the stream")

// batchSize is how many bytes of commands go in one message. Every daemon takes twice that: its configuration allows no
// smaller limit. The largest command has a quarter of that: a name, a session, a secret and a text for people.
const batchSize = 8 << 10

// send sends commands until ctx ends. Otherwise it returns why the daemon takes no more of them.
func (a *agent) send(ctx context.Context, link string) error {
	var answering sync.WaitGroup
	defer answering.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out, err := a.rpc.submit.CallClientStream(ctx).Conn()
	if err != nil {
		return err
	}
	answer := make(chan error, 1)
	answering.Go(func() { answer <- out.Receive(new(lockagentv1.SubmitResponse)) })
	for {
		if commands := a.batch(); len(commands) > 0 {
			switch err := out.Send(&lockagentv1.SubmitRequest{Link: link, Commands: commands}); {
			case errors.Is(err, io.EOF): // the answer tells why
				return <-answer
			case err != nil:
				return err
			}
			continue
		}
		select {
		case <-a.kick:
		case err := <-answer:
			return err
		case <-ctx.Done():
			return nil
		}
	}
}

// batch takes the commands that go in the next message.
func (a *agent) batch() []*lockagentv1.Command {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for left := batchSize; n < len(a.commands); n++ {
		if left -= proto.Size(a.commands[n]); left < 0 && n > 0 {
			break
		}
	}
	commands := a.commands[:n:n]
	a.commands = a.commands[n:]
	return commands
}

// push has a command sent, if there is a link. The mutex must be held, as for all that follows.
func (a *agent) push(c *lockagentv1.Command) {
	if !a.linked {
		return // the next link begins with what is wanted then
	}
	a.commands = append(a.commands, c)
	select {
	case a.kick <- struct{}{}:
	default:
	}
}

// resume says over a new link what is wanted, in the order in which it was asked for.
func (a *agent) resume() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.linked, a.silent, a.trouble, a.commands = true, time.Time{}, nil, nil
	for _, ref := range slices.Sorted(maps.Keys(a.claims)) {
		c := a.claims[ref]
		if c.place != nil { // the first of its queue asks
			continue
		}
		if c.stage != releasing {
			a.submit(c)
			continue
		}
		a.attach(c)
		if c.released != nil {
			a.push(c.give())
		}
	}
}

// submit asks for a claim, or attaches to it.
func (a *agent) submit(c *claim) {
	if !a.linked {
		return
	}
	if c.id != "" {
		a.attach(c)
		return
	}
	r := c.request()
	c.asked, c.known, c.bounded = true, true, r.GetWait() != nil
	if c.since.IsZero() {
		c.since = time.Now()
	}
	a.push(&lockagentv1.Command{Ref: c.ref, Command: &lockagentv1.Command_Acquire{Acquire: r}})
}

// attach attaches to a claim.
func (a *agent) attach(c *claim) {
	c.asked = true
	a.push(&lockagentv1.Command{Ref: c.ref, Command: &lockagentv1.Command_Attach{Attach: &lockagentv1.AttachRequest{
		Claim: c.id, Secret: c.secret, Warn: c.warns,
	}}})
}

// later asks for a claim again after a pause.
func (a *agent) later(c *claim) {
	c.asked = false
	pause := min(retryMin<<min(c.tries, 16), retryMax)
	c.tries++
	time.AfterFunc(pause, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if !c.asked && c.stage <= held {
			a.submit(c)
		}
	})
}

// hear does what the daemon says of a claim.
func (a *agent) hear(e *lockagentv1.LinkEvent) {
	a.mu.Lock()
	c := a.claims[e.GetRef()]
	told := func() {}
	switch {
	case c == nil: // it is over
	case e.GetReleased() != nil:
		if c.stage == releasing {
			var err error
			if e.GetReleased().GetReason() != lockagentv1.Reason_REASON_UNSPECIFIED {
				err = c.told(wire.ToError(e.GetReleased()))
			}
			a.settle(c, err)
		}
	case e.GetExtended() != nil:
		c.extended(e.GetExtended())
	case e.GetRefused() != nil:
		c.over = true
		told = c.refused(c.told(wire.ToError(e.GetRefused())))
	case e.GetEvent() != nil:
		told = c.hear(e.GetEvent())
	}
	a.mu.Unlock()
	told()
}

func (c *claim) hear(e *lockagentv1.ClaimEvent) (told func()) {
	told = func() {}
	switch {
	case e.GetQueued() != nil:
		c.id, c.secret, c.holder = e.GetQueued().GetClaim(), e.GetQueued().GetSecret(), e.GetQueued().GetHolder()
	case e.GetGranted() != nil:
		g := e.GetGranted()
		c.id, c.secret = g.GetClaim(), g.GetSecret()
		until, err := instant(g.GetDeadline())
		switch {
		case c.stage == waiting && err != nil:
			c.over = true // nobody could know its deadline
			c.deny(err)
			c.agent.giveBack(c)
		case c.stage == waiting:
			c.granted(g, until)
		case c.stage == held && lockagent.Token(g.GetToken()) != c.first:
			return c.lose(c.lost(lockagent.LostDenied))
		case err == nil:
			c.uncertain = false // unless the daemon says so again
			c.renew(until)
			if !c.confirmed && lockagent.Token(g.GetToken()) == c.first {
				c.confirmed = true
				c.extendAgain()
			}
		}
	case e.GetRenewed() != nil:
		if until, err := instant(e.GetRenewed().GetDeadline()); err == nil {
			c.renew(until)
		}
	case e.GetWarning() != nil:
		c.wanted, c.uncertain = e.GetWarning().GetWanted(), e.GetWarning().GetUncertain()
		c.warn()
	case e.GetEnded() != nil:
		return c.ended(e.GetEnded())
	}
	return told
}

// ended does what the last event of a claim says.
func (c *claim) ended(e *lockagentv1.Ended) (told func()) {
	c.over = true
	var err error = lockagent.ErrNotGranted // somebody who knows the secret has released it
	switch {
	case e.GetLost() != nil:
		err = c.told(wire.ToLost(e.GetLost()))
	case e.GetDenied() != nil:
		err = c.told(wire.ToError(e.GetDenied()))
	case c.stage == held:
		err = c.lost(lockagent.LostDenied)
	}
	if c.stage == held {
		return c.lose(err)
	}
	return c.refused(err)
}

// lose ends a hold that the daemon has ended.
func (c *claim) lose(err error) (told func()) {
	told = c.end(err)
	c.agent.remove(c)
	return told
}

// refused says that the daemon does not have the claim, because of err.
func (c *claim) refused(err error) (told func()) {
	again := errors.Is(err, refusal.ErrDraining) || errors.Is(err, refusal.ErrJournal) ||
		errors.Is(err, lockagent.ErrClosed)
	gone := errors.Is(err, refusal.ErrNoClaim)
	switch c.stage {
	case held:
		if !again {
			return c.lose(c.lost(lockagent.LostDenied))
		}
		c.over = false
		c.agent.later(c)
	case waiting:
		switch {
		case (again || gone) && !c.req.Try:
			c.id, c.over = "", false
			c.agent.later(c)
		case again || gone:
			c.refuse(c.agent.unavailable(err))
		default:
			c.refuse(err)
		}
	}
	return func() {}
}

// told completes an error of the daemon with what only the client knows.
func (c *claim) told(err error) error {
	if e, ok := errors.AsType[*lockagent.LostError](err); ok {
		e.Name, e.Owner, e.Token = c.name, c.req.Owner, cmp.Or(c.token, e.Token)
	}
	if e, ok := errors.AsType[*lockagent.WaitError](err); ok {
		e.Holder = c.agent.holderOf(c.name, e.Holder)
	}
	if e, ok := errors.AsType[*lockagent.HeldError](err); ok {
		e.Holder = c.agent.holderOf(c.name, e.Holder)
	}
	return err
}

// instant is the instant of a deadline. It means nothing if the daemon has another clock.
func instant(d *lockagentv1.Deadline) (time.Duration, error) {
	if err := bootclock.Foreign(d.GetBootId()); err != nil {
		return 0, fmt.Errorf("%w: the deadlines of the daemon mean nothing here: %w", lockagent.ErrInternal, err)
	}
	return time.Duration(d.GetBoottime()), nil
}

// unavailable is the error of a call that the daemon did not answer.
func (a *agent) unavailable(err error) error {
	if err == nil {
		err = errEnded
	}
	return fmt.Errorf("%w: the daemon at %s: %w", lockagent.ErrStoreUnavailable, a.cfg.Socket, wire.Refused(err))
}
