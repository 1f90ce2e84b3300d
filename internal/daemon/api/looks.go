package api

import (
	"context"
	"fmt"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/daemon/access"
	"github.com/lockagent/lockagent/internal/daemon/claims"
	"github.com/lockagent/lockagent/internal/daemon/wire"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
	"github.com/lockagent/lockagent/proto/lockagent/v1/lockagentv1connect"
)

// looks is the LookService.
type looks struct{ Config }

var _ lockagentv1connect.LookServiceHandler = (*looks)(nil)

// Bounds of a page.
const (
	defaultPage = 1000
	maxPage     = 10_000
	fullPage    = 1 << 20 // bytes after which a page ends: nobody may read it
)

// visible returns which names match a pattern that the client may look at, or whose changes it may watch.
func (l *looks) visible(ctx context.Context, text string, changes bool) (func(lockagent.Name) bool, error) {
	if err := l.Access.Enter(ctx, changes); err != nil {
		return nil, err
	}
	return l.matching(ctx, text, changes)
}

// matching is visible that does not refuse a client that may look at nothing.
func (l *looks) matching(ctx context.Context, text string, changes bool) (func(lockagent.Name) bool, error) {
	if text == "" {
		text = "**"
	}
	pattern, err := access.ParsePattern(text)
	if err != nil {
		return nil, &lockagent.OptionError{Option: "pattern", Reason: err.Error()}
	}
	return func(name lockagent.Name) bool {
		return pattern.Match(string(name)) && l.Access.Sees(ctx, name, changes)
	}, nil
}

// List implements [lockagentv1connect.LookServiceHandler]. The token of a page is the last name of the page before.
func (l *looks) List(ctx context.Context, req *lockagentv1.ListRequest) (*lockagentv1.ListResponse, error) {
	see := l.visible
	if req.GetOnlyVisible() {
		see = l.matching
	}
	visible, err := see(ctx, req.GetPattern(), false)
	if err != nil {
		return nil, wire.Refuse(err)
	}
	if name := lockagent.Name(req.GetName()); name != "" {
		if req.GetPattern() != "" || req.GetPageToken() != "" {
			return nil, wire.Refuse(&lockagent.OptionError{
				Option: "name", Reason: "it stands in place of a pattern, and has one page; leave pattern and page_token out",
			})
		}
		page := &lockagentv1.ListResponse{}
		if found := l.Book.Lock(name); found.Held+found.Waiting > 0 && visible(name) {
			page.Locks = append(page.Locks, l.lock(&found))
		}
		return page, nil
	}
	size := int(req.GetPageSize())
	switch {
	case size == 0:
		size = defaultPage
	case size < 0 || size > maxPage:
		return nil, wire.Refuse(&lockagent.OptionError{
			Option: "page_size", Reason: fmt.Sprintf("%d is not between 1 and %d", size, maxPage),
		})
	}
	found, more, err := l.Book.Locks(ctx, visible, lockagent.Name(req.GetPageToken()), size)
	if err != nil {
		return nil, wire.Refuse(err)
	}
	page := &lockagentv1.ListResponse{}
	for i, bytes := 0, 0; i < len(found); i++ {
		if bytes >= fullPage {
			found, more = found[:i], true
			break
		}
		lock := l.lock(&found[i])
		page.Locks = append(page.Locks, lock)
		bytes += proto.Size(lock)
	}
	if more {
		page.NextPageToken = string(found[len(found)-1].Name)
	}
	return page, nil
}

// Get implements [lockagentv1connect.LookServiceHandler].
func (l *looks) Get(ctx context.Context, req *lockagentv1.GetRequest) (*lockagentv1.GetResponse, error) {
	status, err := l.status(ctx, req.GetName(), req.GetKind())
	if err != nil {
		return nil, wire.Refuse(err)
	}
	found := l.Book.Lock(lockagent.Name(req.GetName()))
	return &lockagentv1.GetResponse{
		Lock: l.lock(&found), Held: status.Locked, Holder: wire.Text(status.Holder),
		Remaining: durationpb.New(status.Remaining), Count: int32(status.HoldCount), Resting: status.Resting,
	}, nil
}

// Watch implements [lockagentv1connect.LookServiceHandler].
func (l *looks) Watch(
	ctx context.Context, req *lockagentv1.WatchRequest, out *connect.ServerStream[lockagentv1.WatchEvent],
) error {
	visible, err := l.visible(ctx, req.GetPattern(), true)
	if err != nil {
		return wire.Refuse(err)
	}
	watch := l.Book.Watch(visible)
	defer watch.Stop()
	if err := l.all(ctx, visible, out); err != nil {
		return err
	}
	for {
		names, lost, err := watch.Next(ctx)
		if err != nil {
			return wire.Refuse(err)
		}
		if lost {
			reset := &lockagentv1.WatchEvent{Event: &lockagentv1.WatchEvent_Reset_{Reset_: &lockagentv1.Reset{}}}
			if err := out.Send(reset); err != nil {
				return err
			}
			if err := l.all(ctx, visible, out); err != nil {
				return err
			}
			continue
		}
		for _, name := range names {
			found := l.Book.Lock(name)
			if err := out.Send(&lockagentv1.WatchEvent{Event: &lockagentv1.WatchEvent_Lock{Lock: l.lock(&found)}}); err != nil {
				return err
			}
		}
	}
}

// all tells of all locks, in pages so that nobody waits for long.
func (l *looks) all(
	ctx context.Context, visible func(lockagent.Name) bool, out *connect.ServerStream[lockagentv1.WatchEvent],
) error {
	last, more := lockagent.Name(""), true
	for more {
		found, further, err := l.Book.Locks(ctx, visible, last, defaultPage)
		if err != nil {
			return wire.Refuse(err)
		}
		more = further
		for i := range found {
			last = found[i].Name
			lock := &lockagentv1.WatchEvent{Event: &lockagentv1.WatchEvent_Lock{Lock: l.lock(&found[i])}}
			if err := out.Send(lock); err != nil {
				return err
			}
		}
	}
	return out.Send(&lockagentv1.WatchEvent{Event: &lockagentv1.WatchEvent_Live{Live: &lockagentv1.Live{}}})
}

// lock is the message for a lock.
func (l *looks) lock(of *claims.Lock) *lockagentv1.Lock {
	return &lockagentv1.Lock{
		Name: wire.Text(string(of.Name)), Kind: wire.FromKind(of.Kind), Held: int32(of.Held), Waiting: int32(of.Waiting),
		Holders: l.claims(of.Holders), Waiters: l.claims(of.Waiters),
	}
}

var states = map[claims.State]lockagentv1.State{
	claims.Waiting:  lockagentv1.State_STATE_WAITING,
	claims.Held:     lockagentv1.State_STATE_HELD,
	claims.Doubtful: lockagentv1.State_STATE_UNCERTAIN,
}

func (l *looks) claims(of []claims.Claim) (told []*lockagentv1.Claim) {
	for i := range of {
		c := &of[i]
		var pids []int32
		for _, pid := range c.Workers {
			pids = append(pids, int32(pid))
		}
		state := states[c.State]
		if c.Resumed && c.State != claims.Waiting {
			state = lockagentv1.State_STATE_RESUMED
		}
		var expires *timestamppb.Timestamp
		if !c.Expires.IsZero() {
			expires = timestamppb.New(c.Expires)
		}
		told = append(told, &lockagentv1.Claim{
			Claim: c.ID, State: state, Mode: wire.FromMode(c.Mode), Permits: int32(c.Permits), Token: uint64(c.Token),
			Client: &lockagentv1.Client{
				Pid: int32(c.Client.PID), Uid: c.Client.UID, Gid: c.Client.GID, User: wire.Text(l.UserName(c.Client.UID)),
				Program: wire.Text(c.Client.Program),
			},
			Since: timestamppb.New(c.Since), Left: wire.FromDuration(max(0, c.Left).Truncate(time.Millisecond)),
			Detached: c.Detached, Session: c.Session, Command: c.Command, Labels: c.Labels, Pids: pids, Expires: expires,
			ForPid: int32(c.ForPID),
		})
	}
	return told
}
