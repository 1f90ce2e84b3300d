//go:build linux

package daemon

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/natslog"
	"github.com/lockagent/lockagent/internal/daemon/access"
	"github.com/lockagent/lockagent/internal/daemon/wire"
	"github.com/lockagent/lockagent/internal/waittest"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// fakeLog is an event log with a few records, and the errors between them.
type fakeLog struct {
	state   natslog.StreamState
	failed  error // instead of the state
	records []events.Record
	errs    map[int]error // instead of the record with that index
	end     error         // of Tail
	late    uint64        // a position; who begins there is told of the records from there on
}

func (l *fakeLog) State(context.Context) (natslog.StreamState, error) { return l.state, l.failed }

func (l *fakeLog) Tail(_ context.Context, from natslog.From, _ events.Filter, visit events.Visit) error {
	for i := range l.records {
		if from == natslog.FromPosition(l.late) && l.records[i].Position < l.late {
			continue
		}
		if err := visit(&l.records[i], l.errs[i]); err != nil {
			return err
		}
	}
	return l.end
}

// Replay tells of the same, and ends with it.
func (l *fakeLog) Replay(ctx context.Context, from natslog.From, filter events.Filter, visit events.Visit) error {
	if err := l.Tail(ctx, from, filter, visit); !errors.Is(err, l.end) {
		return err
	}
	return nil
}

func recordOf(position uint64, kind lockagent.EventKind, lock lockagent.Name) events.Record {
	return events.Record{Position: position, Epoch: 1, Seq: position, Event: lockagent.Event{Kind: kind, Lock: lock, Agent: "host-1", Time: time.Unix(1_800_000_000, 0)}}
}

// follow returns what a client is told: the locks of events, and what is missing in brackets.
func follow(t *testing.T, c *testClient, pattern string, since time.Time) (told []string, err error) {
	t.Helper()
	s, err := c.look.Follow(background, &lockagentv1.FollowRequest{Pattern: pattern, Since: timestamppb.New(since)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	for s.Receive() {
		if missing := s.Msg().GetMissing(); missing != "" {
			told = append(told, "["+missing+"]")
			continue
		}
		err := events.ReadLines(strings.NewReader(s.Msg().GetEvent()), func(r *events.Record, err error) error {
			told = append(told, string(r.Lock)+" "+r.Kind.String())
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	return told, wire.Refused(s.Err())
}

// quietLog is an event log to which nothing is added.
type quietLog struct{ fakeLog }

func (*quietLog) Tail(ctx context.Context, _ natslog.From, _ events.Filter, _ events.Visit) error {
	<-ctx.Done()
	return ctx.Err()
}

// A client hears at once that it will be told of events, also while there are none.
func TestFollowBeginsAtOnce(t *testing.T) {
	d := run(t, func(cfg *Config) { cfg.Log = &quietLog{} })
	ctx, cancel := context.WithCancel(waittest.Context(t))
	defer cancel()
	s, err := d.client(t).look.Follow(ctx, &lockagentv1.FollowRequest{Since: timestamppb.Now()})
	if err != nil {
		t.Fatal(err)
	}
	if s.ResponseHeader().Get("Content-Type") == "" {
		t.Error("the daemon says nothing")
	}
	cancel()
	_ = s.Close() // which the cancelled context ends
}

// The past that a client may have the daemon read is bounded. The client is told what it does not hear of.
func TestFollowFromLongAgo(t *testing.T) {
	begins := time.Unix(1_700_000_000, 0)
	log := &fakeLog{
		state: natslog.StreamState{First: 1, Last: 250_000, Begins: begins}, late: 150_001, end: lockagent.ErrClosed,
		records: []events.Record{
			recordOf(1, lockagent.EventGranted, "first"), recordOf(150_000, lockagent.EventGranted, "early"),
			recordOf(150_001, lockagent.EventGranted, "late"), recordOf(150_002, lockagent.EventReleased, "late"),
		},
	}
	c := run(t, func(cfg *Config) { cfg.Log = log }).client(t)
	want := []string{"[only the last 100000 messages of the log are told; lockagent events history has those before]", "late granted", "late released"}
	if got, err := follow(t, c, "", begins); !slices.Equal(got, want) || !errors.Is(err, lockagent.ErrClosed) {
		t.Errorf("told\n%q, %v, want\n%q", got, err, want)
	}
}

func TestFollow(t *testing.T) {
	begins := time.Unix(1_700_000_000, 500)
	log := &fakeLog{
		state: natslog.StreamState{First: 7, Last: 20, Begins: begins},
		records: []events.Record{
			recordOf(7, lockagent.EventAgentStarted, ""), recordOf(8, lockagent.EventGranted, "orders/42"), recordOf(8, lockagent.EventReleased, "orders/42"),
			recordOf(9, lockagent.EventAlive, ""), recordOf(10, lockagent.EventGranted, "secret"), recordOf(11, 0, ""),
			recordOf(14, lockagent.EventGranted, "other"), recordOf(12, 0, ""), recordOf(13, lockagent.EventLost, "orders/42"),
		},
		errs: map[int]error{5: &events.DecodeError{Position: 11, Err: errors.New("no JSON")}, 7: natslog.ErrRewound},
		end:  lockagent.ErrClosed,
	}
	all, _ := access.ParsePattern("**")
	secret, _ := access.ParsePattern("secret")
	rules, err := access.New(access.Config{
		Directory: Directory{}, Rules: []access.Rule{{Match: secret}, {Match: all, Allow: access.Look | access.Watch}}, Now: time.Now, Refused: func(uint32, error, uint64) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	c := run(t, func(cfg *Config) { cfg.Log, cfg.Access = log, rules }).client(t)
	const gone, cut = "[2 messages of the log are gone; events are missing here]", "[the end of the log was lost; events may be missing here]"
	damaged := "[" + log.errs[5].Error() + "]"
	for pattern, want := range map[string][]string{
		"":         {" agentstarted", "orders/42 granted", "orders/42 released", damaged, gone, "other granted", cut, "orders/42 lost"},
		"orders/*": {"orders/42 granted", "orders/42 released", damaged, gone, cut, "orders/42 lost"},
	} {
		got, err := follow(t, c, pattern, begins)
		if !slices.Equal(got, want) {
			t.Errorf("%q is told\n%q, want\n%q", pattern, got, want)
		}
		if !errors.Is(err, lockagent.ErrClosed) {
			t.Errorf("it ends with %v", err)
		}
	}
	wrong := func(want string, since time.Time) {
		t.Helper()
		got, err := follow(t, c, "", since)
		if bad, ok := errors.AsType[*lockagent.OptionError](err); !ok || bad.Option != "since" || !strings.Contains(bad.Reason, want) || len(got) > 0 {
			t.Errorf("got %q, %v, want %s", got, err, want)
		}
	}
	wrong("begins later: it has nothing from before 2023-11-14T22:13:20.001Z", begins.Add(-1))
	wrong("must be set", time.Date(-5, 1, 1, 0, 0, 0, 0, time.UTC))
	log.state = natslog.StreamState{First: 21, Last: 20, Now: begins} // its age has removed everything
	wrong("begins later", begins.Add(-1))
	log.failed = natslog.ErrNoStream
	wrong("no events yet", begins)
	log.failed = errors.New("it has stopped")
	if _, err := follow(t, c, "", begins); err == nil || !strings.Contains(err.Error(), "does not answer: it has stopped") {
		t.Errorf("got %v", err)
	}
	if _, err := follow(t, run(t).client(t), "", begins); err == nil || !strings.Contains(err.Error(), "no event log") {
		t.Errorf("got %v", err)
	}
}
