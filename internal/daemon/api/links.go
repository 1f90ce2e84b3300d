package api

import (
	"context"
	"errors"
	"sync"

	"connectrpc.com/connect"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/daemon/claims"
	"github.com/lockagent/lockagent/internal/daemon/refusal"
	"github.com/lockagent/lockagent/internal/daemon/wire"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// links has the links of all clients.
type links struct {
	mu   sync.Mutex
	open map[string]*link // guarded by mu
}

func (l *links) add(k *link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[k.id] = k
}

func (l *links) remove(k *link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, k.id)
}

// find returns the link with an id, if it is one of the user. A link has one Submit.
func (l *links) find(id string, uid uint32) (*link, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.open[id]
	if k == nil || k.uid != uid {
		return nil, refusal.ErrNoClaim
	}
	delete(l.open, id)
	return k, nil
}

// Link implements [lockagentv1connect.LockServiceHandler].
func (l *locks) Link(
	ctx context.Context, _ *lockagentv1.LinkRequest, out *connect.ServerStream[lockagentv1.LinkNews],
) error {
	client, err := l.client(ctx)
	if err != nil {
		return wire.Refuse(err)
	}
	k := newLink(client.UID)
	l.links.add(k)
	defer k.close()
	defer l.links.remove(k)
	if err := out.Send(&lockagentv1.LinkNews{Link: k.id}); err != nil {
		return err
	}
	for {
		events, err := k.next(ctx)
		if err != nil {
			return err
		}
		if err := out.Send(&lockagentv1.LinkNews{Events: events}); err != nil {
			return err
		}
	}
}

// Submit implements [lockagentv1connect.LockServiceHandler].
func (l *locks) Submit(
	ctx context.Context, in *connect.ClientStream[lockagentv1.SubmitRequest],
) (_ *lockagentv1.SubmitResponse, err error) {
	client, err := l.client(ctx)
	if err != nil {
		return nil, wire.Refuse(err)
	}
	var k *link
	for in.Receive() {
		m := in.Msg()
		if k == nil {
			if k, err = l.links.find(m.GetLink(), client.UID); err != nil {
				return nil, wire.Refuse(err)
			}
			defer func() { k.leave(err) }()
			unhurried(ctx)
		}
		for _, c := range m.GetCommands() {
			err := k.await(ctx)
			if err == nil {
				err = l.do(ctx, k, c)
			}
			if err != nil {
				return nil, wire.Refuse(err)
			}
		}
	}
	if err := in.Err(); err != nil && ctx.Err() == nil {
		return nil, err
	}
	return &lockagentv1.SubmitResponse{}, nil
}

// do does what a client wants of its link. An error ends the call: the client does not keep to the rules.
func (l *locks) do(ctx context.Context, k *link, c *lockagentv1.Command) error {
	ref := c.GetRef()
	switch {
	case c.GetAcquire() != nil:
		return k.claim(ref, func(news func()) (*claims.Stream, error) {
			req, err := l.request(ctx, c.GetAcquire())
			if err != nil {
				return nil, err
			}
			req.News = news
			s, err := l.Book.Acquire(req)
			if err == nil && c.GetAcquire().GetWarn() {
				s.Warn()
			}
			return s, l.Access.Refused(ctx, err)
		})
	case c.GetAttach() != nil:
		return k.claim(ref, func(news func()) (*claims.Stream, error) {
			client, err := l.client(ctx)
			if err != nil {
				return nil, err
			}
			if err := l.use(ctx, c.GetAttach()); err != nil {
				return nil, err
			}
			s, err := l.Book.Attach(client, c.GetAttach().GetClaim(), c.GetAttach().GetSecret(), news)
			if err == nil && c.GetAttach().GetWarn() {
				s.Warn()
			}
			return s, l.Access.Refused(ctx, err)
		})
	case c.GetRelease() != nil:
		k.release(ref, wire.ToGivenUp(c.GetRelease().GetLost()))
	case c.GetExtend() != nil:
		lease, err := wire.ToDuration("lease", c.GetExtend().GetLease())
		if err != nil {
			return err
		}
		k.extend(ctx, ref, c.GetExtend().GetId(), func(s *claims.Stream) (claims.Deadline, error) {
			return s.Extend(ctx, lease)
		})
	case c.GetWarn() != nil:
		if s := k.take(ref, false); s != nil { // otherwise its end has been told
			s.Warn()
		}
	default:
		return &lockagent.OptionError{
			Option: "command", Reason: "the daemon does not know it; its version may be older than that of the client",
		}
	}
	return nil
}

// failure is the message for an error, or the empty one for none.
func failure(err error) *lockagentv1.Failure {
	if err == nil {
		return &lockagentv1.Failure{}
	}
	f, _ := wire.FromError(err)
	return f
}

var errRef = &lockagent.OptionError{
	Option: "ref", Reason: "the link has a claim with that number already; take another one",
}

// errLinkOver ends a Submit whose link has ended.
var errLinkOver = errors.New("api: the link has ended")
