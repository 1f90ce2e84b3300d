package agentclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/daemon/follow"
	"github.com/lockagent/lockagent/internal/daemon/wire"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// The link carries all claims. When it breaks, the agent makes another one, and says again what it wants, as package
// follow has it.

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
	for attempts := 0; ; attempts++ {
		err := a.converse(func() {
			tried(nil)
			attempts = 0
		})
		tried(a.unlinked(err))
		select {
		case <-time.After(follow.Pause(attempts)):
		case <-a.over.Done():
			return
		}
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
		a.submit(c)
		if c.stage == releasing && c.released != nil {
			a.push(c.give())
		}
	}
}

// submit asks for a claim that waits, and attaches to one that does not.
func (a *agent) submit(c *claim) {
	if !a.linked {
		return
	}
	c.asked = true
	if c.stage != waiting {
		a.push(&lockagentv1.Command{Ref: c.ref, Command: &lockagentv1.Command_Attach{Attach: &lockagentv1.AttachRequest{
			Claim: c.ID, Secret: c.Secret, Warn: c.warns,
		}}})
		return
	}
	r := c.request()
	c.known, c.bounded = true, r.GetWait() != nil
	if c.since.IsZero() {
		c.since = time.Now()
	}
	a.push(&lockagentv1.Command{Ref: c.ref, Command: &lockagentv1.Command_Acquire{Acquire: r}})
}

// later asks for a claim again after a pause.
func (a *agent) later(c *claim) {
	c.asked = false
	pause := follow.Pause(c.tries)
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
		told = c.refused(wire.ToError(e.GetRefused()))
	case e.GetEvent() != nil:
		told = c.hear(e.GetEvent())
	}
	a.mu.Unlock()
	told()
}

func (c *claim) hear(e *lockagentv1.ClaimEvent) (told func()) {
	news := c.Hear(e)
	switch {
	case news.Over != nil:
		return c.refused(news.Over)
	case news.Granted != nil && c.stage == waiting && news.Foreign != nil:
		c.over = true // nobody could know its deadline
		c.deny(fmt.Errorf("%w: the deadlines of the daemon mean nothing here: %w", lockagent.ErrInternal, news.Foreign))
		c.agent.giveBack(c)
	case news.Granted != nil && c.stage == waiting:
		c.granted(news.Granted, news.Until)
	case news.Until != 0:
		c.renew(news.Until)
	case e.GetWarning() != nil:
		c.warn()
	}
	if news.GoesOn && !c.confirmed {
		c.confirmed = true
		c.extendAgain()
	}
	return func() {}
}

// refused says that the daemon does not have the claim, or not any more, because of err.
func (c *claim) refused(err error) (told func()) {
	again := c.Again(err)
	c.over = !again
	err = c.told(err)
	switch {
	case again && (c.stage == held || c.stage == waiting && !c.req.Try):
		c.agent.later(c)
	case c.stage == held:
		if !errors.Is(err, lockagent.ErrLost) {
			err = c.lost(lockagent.LostDenied)
		}
		told = c.end(err)
		c.agent.remove(c)
		return told
	case c.stage == waiting && again:
		c.refuse(c.agent.unavailable(err))
	case c.stage == waiting && errors.Is(err, lockagent.ErrReleased): // by somebody who knows the secret
		c.refuse(lockagent.ErrNotGranted)
	case c.stage == waiting:
		c.refuse(err)
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

// unavailable is the error of a call that the daemon did not answer.
func (a *agent) unavailable(err error) error {
	if err == nil {
		err = errEnded
	}
	return fmt.Errorf("%w: the daemon at %s: %w", lockagent.ErrStoreUnavailable, a.cfg.Socket, wire.Refused(err))
}
