//go:build linux

package daemon

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/natslog"
	"github.com/lockagent/lockagent/internal/daemon/access"
	"github.com/lockagent/lockagent/internal/daemon/wire"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// watchLog returns what a client is told that may watch: the locks of events, and what is missing in brackets.
func watchLog(t *testing.T, c *testClient, req *lockagentv1.ReadLogRequest) (told []string, err error) {
	t.Helper()
	all, err := readRecords(t, c, req)
	for _, r := range all {
		text := "[" + r.GetWrong() + "]"
		if r.GetWrong() == "" {
			event := eventOf(t, r)
			text = string(event.Lock) + " " + event.Kind.String()
		}
		told = append(told, fmt.Sprintf("%d: %s", r.GetPosition(), text))
	}
	return told, wire.Refused(err)
}

// The past that a client may have the daemon read is bounded. The client is told what it does not hear of. A log that
// is made anew meanwhile is read from its beginning on.
func TestWatchersOfTheLogReadABoundedPast(t *testing.T) {
	log := &fakeLog{
		state: natslog.StreamState{First: 1, Last: 250_000}, late: 150_001, end: lockagent.ErrClosed,
		records: []events.Record{
			recordOf(1, lockagent.EventGranted, "first"), recordOf(150_000, lockagent.EventGranted, "early"),
			recordOf(150_001, lockagent.EventGranted, "late"), recordOf(150_002, lockagent.EventReleased, "late"),
			recordOf(150_002, 0, ""), // in place of which is the end of the log
			recordOf(150_003, lockagent.EventGranted, "later"),
		},
		errs: map[int]error{4: natslog.ErrRewound},
	}
	c := run(t, func(cfg *Config) { cfg.Log, cfg.Access = log, may(t, access.Watch) }).client(t)
	const bound = "150000: [only the last 100000 messages of the log are told; lockagent events history has those before]"
	const cut = "150002: [the end of the log was lost; events may be missing here]"
	want := []string{bound, "150001: late granted", "150002: late released", cut, "150003: later granted"}
	for _, follow := range []bool{false, true} {
		got, err := watchLog(t, c, &lockagentv1.ReadLogRequest{Watch: "**", Follow: follow})
		if !slices.Equal(got, want) || errors.Is(err, lockagent.ErrClosed) != follow {
			t.Errorf("told\n%q, %v, want\n%q", got, err, want)
		}
	}

	log.records = []events.Record{
		recordOf(200_000, lockagent.EventGranted, "old"), recordOf(0, 0, ""), recordOf(1, lockagent.EventGranted, "new"),
	}
	log.errs = map[int]error{1: natslog.ErrRewound}
	want = []string{
		"200000: old granted", "0: [the end of the log was lost; events may be missing here]", "1: new granted",
	}
	if got, err := watchLog(t, c, &lockagentv1.ReadLogRequest{Watch: "**", Follow: true}); !slices.Equal(got, want) {
		t.Errorf("told\n%q, %v, want\n%q", got, err, want)
	}
}

// Who may watch some locks is told of these, of what goes on with them, and of what the log lacks. What the log says of
// other locks, of none, and where it is damaged, is not for that client.
func TestWatchersOfTheLogSeeTheirLocks(t *testing.T) {
	log := &fakeLog{
		state: natslog.StreamState{First: 7, Last: 20},
		records: []events.Record{
			recordOf(7, lockagent.EventAgentStarted, ""), recordOf(8, lockagent.EventGranted, "orders/42"),
			recordOf(8, lockagent.EventReleased, "orders/42"),
			recordOf(9, lockagent.EventAlive, ""), recordOf(10, lockagent.EventGranted, "secret"), recordOf(11, 0, ""),
			recordOf(14, lockagent.EventGranted, "other"), recordOf(14, lockagent.EventHolding, "other"),
			recordOf(14, lockagent.EventRenewed, "other"),
			recordOf(12, 0, ""), recordOf(13, lockagent.EventLost, "orders/42"),
		},
		errs: map[int]error{
			5: &events.DecodeError{Position: 11, Subject: "granted.secret", Err: errors.New("no JSON")}, 9: natslog.ErrRewound,
		},
		end: lockagent.ErrClosed,
	}
	all, _ := access.ParsePattern("**")
	secret, _ := access.ParsePattern("secret")
	rules, err := access.New(access.Config{
		Directory: Directory{},
		Rules:     []access.Rule{{Match: secret, Allow: access.Look}, {Match: all, Allow: access.Look | access.Watch}},
		Now:       time.Now,
		Refused:   func(uint32, error, uint64) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	c := run(t, func(cfg *Config) { cfg.Log, cfg.Access = log, rules }).client(t)
	const damaged = "11: [a message of the log cannot be read; an event may be missing here]"
	const gone, cut = "13: [2 messages of the log are gone; events are missing " +
		"here]", "12: [the end of the log was lost; events may be missing here]"
	for pattern, want := range map[string][]string{
		"**": {
			"8: orders/42 granted", "8: orders/42 released", damaged, gone, "14: other granted", cut, "13: orders/42 lost",
		},
		"orders/*": {"8: orders/42 granted", "8: orders/42 released", damaged, gone, cut, "13: orders/42 lost"},
		"secret":   {damaged, gone, cut},
	} {
		for _, follow := range []bool{false, true} {
			got, err := watchLog(t, c, &lockagentv1.ReadLogRequest{Watch: pattern, Follow: follow})
			if !slices.Equal(got, want) {
				t.Errorf("%q is told\n%q, want\n%q", pattern, got, want)
			}
			if errors.Is(err, lockagent.ErrClosed) != follow {
				t.Errorf("it ends with %v", err)
			}
		}
	}
}
