//go:build linux

package daemon

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/natslog"
	"github.com/lockagent/lockagent/internal/daemon/access"
	"github.com/lockagent/lockagent/internal/daemon/refusal"
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
	return events.Record{
		Position: position, Epoch: 1, Seq: position,
		Event: lockagent.Event{Kind: kind, Lock: lock, Agent: "host-1", Time: time.Unix(1_800_000_000, 0)},
	}
}

// readRecords returns what a client is told of the log.
func readRecords(
	t *testing.T, c *testClient, req *lockagentv1.ReadLogRequest,
) (told []*lockagentv1.LogRecord, err error) {
	t.Helper()
	s, err := c.look.ReadLog(waittest.Context(t), req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	for s.Receive() {
		told = append(told, s.Msg().GetRecords()...)
	}
	return told, s.Err()
}

// eventOf is the event of a record that the client was told of.
func eventOf(t *testing.T, told *lockagentv1.LogRecord) (event events.Record) {
	t.Helper()
	err := events.ReadLines(strings.NewReader(told.GetEvent()), func(r *events.Record, err error) error {
		event = *r
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return event
}

// readLog returns what a client is told of the log: the records with their places, and what is wrong.
func readLog(
	t *testing.T, c *testClient, req *lockagentv1.ReadLogRequest,
) (records []events.Record, wrong []string, err error) {
	t.Helper()
	all, err := readRecords(t, c, req)
	for _, told := range all {
		if text := told.GetWrong(); text != "" {
			wrong = append(wrong, fmt.Sprintf("%d: %s", told.GetPosition(), text))
			continue
		}
		r := eventOf(t, told)
		r.Position, r.Origin = told.GetPosition(), told.GetOrigin()
		if told.GetStored() != nil {
			r.Stored = told.GetStored().AsTime()
		}
		records = append(records, r)
	}
	return records, wrong, err
}

// may returns rules that allow everybody some rights to all names.
func may(t *testing.T, rights access.Right) *access.Access {
	t.Helper()
	all, err := access.ParsePattern("**")
	if err != nil {
		t.Fatal(err)
	}
	rules, err := access.New(access.Config{
		Directory: Directory{}, Rules: []access.Rule{{Match: all, Allow: rights}}, Now: time.Now,
		Refused: func(uint32, error, uint64) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

// The log comes as it is: each record with its place, signs of life too, and what cannot be read in its place.
func TestReadLog(t *testing.T) {
	stored := time.Unix(1_800_000_001, 123_000).UTC()
	log := &fakeLog{
		state: natslog.StreamState{
			Name: "LOCKAGENT", Created: stored.Add(-time.Hour), First: 7, Last: 20, Begins: stored.Add(-time.Minute), Missing: 2,
			Shared: true, Now: stored,
		},
		records: []events.Record{
			recordOf(7, lockagent.EventAgentStarted, ""), recordOf(8, lockagent.EventGranted, "orders/42"),
			recordOf(8, lockagent.EventReleased, "orders/42"),
			recordOf(9, lockagent.EventAlive, ""), recordOf(10, 0, ""), recordOf(14, lockagent.EventLost, "secret"),
		},
		errs: map[int]error{4: &events.DecodeError{Position: 10, Err: errors.New("no JSON")}},
		end:  lockagent.ErrClosed,
	}
	var want []events.Record
	for i := range log.records {
		r := &log.records[i]
		r.Time, r.Stored, r.Origin = r.Time.UTC(), stored, "here.1"
		if log.errs[i] == nil {
			want = append(want, *r)
		}
	}
	d := run(t, func(cfg *Config) { cfg.Log, cfg.Access = log, may(t, access.Operate) })
	for name, c := range d.clients(t) {
		t.Run(name, func(t *testing.T) {
			for _, follow := range []bool{false, true} {
				got, wrong, err := readLog(t, c, &lockagentv1.ReadLogRequest{Follow: follow})
				if !reflect.DeepEqual(got, want) {
					t.Errorf("told\n%+v, want\n%+v", got, want)
				}
				if len(wrong) != 1 || wrong[0] != "10: "+log.errs[4].Error() {
					t.Errorf("wrong is %q", wrong)
				}
				if ended := errors.Is(wire.Refused(err), lockagent.ErrClosed); ended != follow {
					t.Errorf("it ends with %v", err)
				}
			}
			told, err := c.look.GetLog(waittest.Context(t), &lockagentv1.GetLogRequest{})
			if err != nil {
				t.Fatal(err)
			}
			state := natslog.StreamState{
				Name: told.GetName(), Created: told.GetCreated().AsTime(), First: told.GetFirst(), Last: told.GetLast(),
				Begins: told.GetBegins().AsTime(), Missing: told.GetMissing(), Shared: told.GetShared(),
				Now: told.GetNow().AsTime(),
			}
			if state != log.state {
				t.Errorf("the log has\n%+v, want\n%+v", state, log.state)
			}
		})
	}
}

// A log tells of all locks, so it is for operators. Some of its locks are for those who may watch them.
func TestReadLogIsForOperators(t *testing.T) {
	log := &fakeLog{records: []events.Record{recordOf(1, lockagent.EventGranted, "secret")}}
	c := run(t, func(cfg *Config) { cfg.Log, cfg.Access = log, may(t, access.Acquire|access.Look|access.Watch) }).client(t)
	got, _, err := readLog(t, c, &lockagentv1.ReadLogRequest{})
	if err = wire.Refused(err); !errors.Is(err, refusal.ErrForbidden) || len(got) > 0 {
		t.Errorf("told %v, %v", got, err)
	}
	if _, err := c.look.GetLog(
		waittest.Context(t), &lockagentv1.GetLogRequest{},
	); !errors.Is(wire.Refused(err), refusal.ErrForbidden) {
		t.Errorf("got %v", err)
	}
	operators := func(cfg *Config) { cfg.Log, cfg.Access = log, may(t, access.Acquire|access.Look|access.Operate) }
	c = run(t, operators).client(t)
	got, _, err = readLog(t, c, &lockagentv1.ReadLogRequest{Watch: "secret"})
	if err = wire.Refused(err); !errors.Is(err, refusal.ErrForbidden) || len(got) > 0 {
		t.Errorf("who may not watch is told %v, %v", got, err)
	}
}

func TestReadLogThatIsNotThere(t *testing.T) {
	for name, test := range map[string]struct {
		log  *fakeLog
		code connect.Code
	}{
		"NoLog":    {nil, connect.CodeFailedPrecondition},
		"NoEvents": {&fakeLog{failed: natslog.ErrNoStream}, connect.CodeNotFound},
		"Away":     {&fakeLog{failed: errors.New("it has stopped")}, connect.CodeUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			c := run(t, func(cfg *Config) {
				if test.log != nil {
					cfg.Log = test.log
				}
			}).client(t)
			_, err := readRecords(t, c, &lockagentv1.ReadLogRequest{})
			_, watchErr := readRecords(t, c, &lockagentv1.ReadLogRequest{Watch: "**", Follow: true})
			_, stateErr := c.look.GetLog(waittest.Context(t), &lockagentv1.GetLogRequest{})
			for _, err := range []error{err, watchErr, stateErr} {
				if connect.CodeOf(err) != test.code {
					t.Errorf("got %v, want %v", err, test.code)
				}
			}
		})
	}
}

func TestReadLogOfWhatCannotBe(t *testing.T) {
	c := run(t, func(cfg *Config) { cfg.Log = &fakeLog{} }).client(t)
	for option, req := range map[string]*lockagentv1.ReadLogRequest{
		"now":     {From: &lockagentv1.ReadLogRequest_Now{Now: true}},
		"kinds":   {Kinds: []string{"granted", "given"}},
		"since":   {From: &lockagentv1.ReadLogRequest_Since{Since: &timestamppb.Timestamp{Nanos: -1}}},
		"filter":  {Lock: "a", Pattern: "b"},
		"watch":   {Watch: "a", Urgent: true},
		"pattern": {Watch: "a***"},
	} {
		_, err := readRecords(t, c, req)
		if bad, ok := errors.AsType[*lockagent.OptionError](wire.Refused(err)); !ok || bad.Option != option {
			t.Errorf("%s: got %v", option, err)
		}
	}
}

// quietLog is an event log to which nothing is added.
type quietLog struct{ fakeLog }

func (*quietLog) Tail(ctx context.Context, _ natslog.From, _ events.Filter, _ events.Visit) error {
	<-ctx.Done()
	return ctx.Err()
}

// A client hears at once that it will be told of records, also while there are none.
func TestReadLogBeginsAtOnce(t *testing.T) {
	d := run(t, func(cfg *Config) { cfg.Log = &quietLog{} })
	ctx, cancel := context.WithCancel(waittest.Context(t))
	defer cancel()
	s, err := d.client(t).look.ReadLog(ctx, &lockagentv1.ReadLogRequest{Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	if s.ResponseHeader().Get("Content-Type") == "" {
		t.Error("the daemon says nothing")
	}
	cancel()
	_ = s.Close() // which the cancelled context ends
}

// endlessLog has the same record again and again. It counts them.
type endlessLog struct {
	fakeLog
	told chan struct{} // closed when nobody reads any more
}

func (l *endlessLog) Replay(_ context.Context, _ natslog.From, _ events.Filter, visit events.Visit) error {
	defer close(l.told)
	r := recordOf(1, lockagent.EventGranted, "orders/42")
	for {
		if err := visit(&r, nil); err != nil {
			return err
		}
	}
}

// A client that has seen enough ends the reading of the log.
func TestReadLogEndsWithItsClient(t *testing.T) {
	log := &endlessLog{told: make(chan struct{})}
	c := run(t, func(cfg *Config) { cfg.Log = log }).client(t)
	ctx, cancel := context.WithCancel(waittest.Context(t))
	defer cancel()
	s, err := c.look.ReadLog(ctx, &lockagentv1.ReadLogRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if !s.Receive() || len(s.Msg().GetRecords()) == 0 {
		t.Fatalf("got %v, %v", s.Msg(), s.Err())
	}
	cancel()
	_ = s.Close()
	waittest.Receive(t, "the end of the reading", log.told)
}
