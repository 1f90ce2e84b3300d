//go:build linux

package daemon

import (
	"context"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lockagent/lockagent/internal/daemon/refusal"
	"github.com/lockagent/lockagent/internal/daemon/wire"
	"github.com/lockagent/lockagent/internal/waittest"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// testLink is a link of a test.
type testLink struct {
	t      testing.TB
	id     string
	news   *connect.ServerStreamForClient[lockagentv1.LinkNews]
	events []*lockagentv1.LinkEvent // that were received, and not looked at
	submit *connect.ClientStreamForClientSimple[lockagentv1.SubmitRequest, lockagentv1.SubmitResponse]
	end    func()
}

func (c *testClient) link(t testing.TB) *testLink {
	t.Helper()
	ctx, cancel := context.WithCancel(waittest.Context(t))
	news, err := c.Link(ctx, &lockagentv1.LinkRequest{})
	if err != nil {
		t.Fatal(err)
	}
	k := &testLink{t: t, news: news, end: func() {
		cancel()
		_ = news.Close()
	}}
	t.Cleanup(k.end)
	if !news.Receive() {
		t.Fatal(news.Err())
	}
	k.id = news.Msg().GetLink()
	if k.submit, err = c.Submit(ctx); err != nil {
		t.Fatal(err)
	}
	return k
}

func (k *testLink) send(commands ...*lockagentv1.Command) {
	k.t.Helper()
	if err := k.submit.Send(&lockagentv1.SubmitRequest{Link: k.id, Commands: commands}); err != nil {
		k.t.Fatal(err)
	}
}

func (k *testLink) next() *lockagentv1.LinkEvent {
	k.t.Helper()
	for len(k.events) == 0 {
		if !k.news.Receive() {
			k.t.Fatalf("the link ended: %v", k.news.Err())
		}
		k.events = k.news.Msg().GetEvents()
	}
	e := k.events[0]
	k.events = k.events[1:]
	return e
}

func (k *testLink) granted(ref uint64) *lockagentv1.Granted {
	k.t.Helper()
	for {
		e := k.next()
		if e.GetRef() == ref && e.GetEvent().GetQueued() != nil {
			continue
		}
		if e.GetRef() != ref || e.GetEvent().GetGranted() == nil {
			k.t.Fatalf("got %v, want a grant of %d", e, ref)
		}
		return e.GetEvent().GetGranted()
	}
}

func acquireAs(ref uint64, req *lockagentv1.AcquireRequest) *lockagentv1.Command {
	return &lockagentv1.Command{Ref: ref, Command: &lockagentv1.Command_Acquire{Acquire: req}}
}

func releaseOf(ref uint64) *lockagentv1.Command {
	return &lockagentv1.Command{Ref: ref, Command: &lockagentv1.Command_Release{Release: &lockagentv1.Give{}}}
}

func TestLink(t *testing.T) {
	r := run(t)
	k := r.client(t).link(t)
	k.send(
		acquireAs(1, &lockagentv1.AcquireRequest{Name: "door"}), acquireAs(2, &lockagentv1.AcquireRequest{Name: "door"}),
	)
	first := k.granted(1)
	k.send(releaseOf(1))
	// The release of 1 and the grant of 2 come in any order.
	var second *lockagentv1.Granted
	for released := false; !released || second == nil; {
		switch e := k.next(); {
		case e.GetReleased() != nil && e.GetRef() == 1:
			released = true
			if e.GetReleased().GetReason() != 0 {
				t.Errorf("released: %v", e)
			}
		case e.GetEvent().GetGranted() != nil && e.GetRef() == 2:
			second = e.GetEvent().GetGranted()
		case e.GetEvent().GetQueued() == nil:
			t.Fatalf("got %v", e)
		}
	}
	if second.GetToken() <= first.GetToken() {
		t.Errorf("token %d after %d", second.GetToken(), first.GetToken())
	}
	k.send(releaseOf(7)) // there is none: it is over already
	if e := k.next(); e.GetRef() != 7 || e.GetReleased() == nil || e.GetReleased().GetReason() != 0 {
		t.Errorf("got %v", e)
	}
	k.send(acquireAs(3, &lockagentv1.AcquireRequest{Name: "a}b"}))
	if e := k.next(); e.GetRef() != 3 || refusalOf(e).GetReason() != lockagentv1.Reason_REASON_BAD_NAME {
		t.Errorf("got %v", e)
	}
	k.end()
	r.client(t).acquire(t, &lockagentv1.AcquireRequest{Name: "door"}).granted() // the claim has ended with its link
}

// refusalOf is why there is no claim, however the daemon says it.
func refusalOf(e *lockagentv1.LinkEvent) *lockagentv1.Failure {
	if e.GetRefused() != nil {
		return e.GetRefused()
	}
	return e.GetEvent().GetEnded().GetDenied()
}

// A client hears why from both calls: it cannot tell which of them ended first.
func TestALinkEndsWhenItsClientBreaksTheRules(t *testing.T) {
	r := run(t)
	for what, send := range map[string]func(k *testLink){
		"a number twice": func(k *testLink) {
			k.send(
				acquireAs(1, &lockagentv1.AcquireRequest{Name: "door"}), acquireAs(1, &lockagentv1.AcquireRequest{Name: "door"}),
			)
		},
		"an empty command": func(k *testLink) { k.send(&lockagentv1.Command{Ref: 1}) },
		"a message that is too large": func(k *testLink) {
			k.send(acquireAs(1, &lockagentv1.AcquireRequest{Name: "door"}))
			k.granted(1)
			command := acquireAs(2, &lockagentv1.AcquireRequest{Name: "door", Command: strings.Repeat("x", 2*defaultRequest)})
			// The answer may come before its end.
			_ = k.submit.Send(&lockagentv1.SubmitRequest{Commands: []*lockagentv1.Command{command}})
		},
	} {
		t.Run(what, func(t *testing.T) {
			k := r.client(t).link(t)
			send(k)
			_, refused := k.submit.CloseAndReceive()
			for k.news.Receive() { // until it ends
			}
			if err := k.news.Err(); refused == nil || err == nil || err.Error() != refused.Error() {
				t.Errorf("the link ended with %v, and the answer to the commands is %v", err, refused)
			}
			r.client(t).acquire(t, &lockagentv1.AcquireRequest{Name: "door"}).granted()
		})
	}
	k := r.client(t).link(t)
	k.id = "another"
	k.send(releaseOf(1))
	_, err := k.submit.CloseAndReceive()
	if wire.Refused(err) != refusal.ErrNoClaim { //nolint:errorlint // it is that value
		t.Errorf("a link that there is not: %v", err)
	}
}

func TestAHoldOutlivesItsLink(t *testing.T) {
	r := run(t)
	k := r.client(t).link(t)
	k.send(acquireAs(1, &lockagentv1.AcquireRequest{Name: "report", Lease: durationpb.New(time.Hour), Outlive: true}))
	g := k.granted(1)
	k.end()
	other := r.client(t)
	ctx := waittest.Context(t)
	for detached := false; !detached; { // until the daemon has noticed the end
		list, err := other.look.List(ctx, &lockagentv1.ListRequest{})
		if err != nil || len(list.GetLocks()) != 1 {
			t.Fatalf("the hold has ended with its link: %v, %v", list, err)
		}
		detached = list.GetLocks()[0].GetHolders()[0].GetDetached()
	}
	s := other.acquire(t, &lockagentv1.AcquireRequest{Name: "report", Try: true})
	if e := s.ended(); e.GetDenied().GetReason() != lockagentv1.Reason_REASON_HELD {
		t.Errorf("got %v, want that it is held", e)
	}
	if _, err := other.Release(ctx, &lockagentv1.ReleaseRequest{Claim: g.GetClaim(), Secret: g.GetSecret()}); err != nil {
		t.Fatal(err)
	}
	other.acquire(t, &lockagentv1.AcquireRequest{Name: "report"}).granted()
	e := other.acquire(t, &lockagentv1.AcquireRequest{Name: "other", Outlive: true}).ended()
	if e.GetDenied().GetReason() != lockagentv1.Reason_REASON_BAD_OPTION {
		t.Errorf("a kept lease that outlives its link: %v", e)
	}
}
