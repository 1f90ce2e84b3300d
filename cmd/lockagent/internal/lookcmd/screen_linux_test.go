//go:build linux

package lookcmd

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/client"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// toldLock is what the daemon tells of a lock that so many hold and wait for, since a time.
func toldLock(name string, held, waiting int32, since time.Time) *lockagentv1.WatchEvent {
	l := &lockagentv1.Lock{Name: name, Kind: lockagentv1.Kind_KIND_PLAIN, Held: held, Waiting: waiting}
	if held > 0 {
		l.Holders = []*lockagentv1.Claim{{
			State: lockagentv1.State_STATE_UNCERTAIN, Token: 7, Since: timestamppb.New(since),
			Client: &lockagentv1.Client{Pid: 42, Program: "deploy\x1b[2J"},
		}}
	}
	if waiting > 0 {
		l.Waiters = []*lockagentv1.Claim{{State: lockagentv1.State_STATE_WAITING, Since: timestamppb.New(since)}}
	}
	return &lockagentv1.WatchEvent{Event: &lockagentv1.WatchEvent_Lock{Lock: l}}
}

func TestScreen(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.Local)
	s := screen{socket: "/a.sock", locks: make(map[lockagent.Name]client.LockView)}
	s.hear(toldLock("b", 1, 0, now.Add(-time.Minute)))
	s.hear(toldLock("a", 1, 2, now.Add(-time.Second)))
	s.hear(toldLock("c", 0, 1, now.Add(-time.Hour)))
	s.hear(toldLock("d", 1, 0, now))
	s.hear(toldLock("d", 0, 0, now))
	names := func() (all []string) {
		for _, v := range s.sorted() {
			all = append(all, string(v.Name))
		}
		return all
	}
	for i, want := range [][]string{{"a", "c", "b"}, {"c", "b", "a"}, {"a", "b", "c"}} {
		s.order = i
		if got := names(); !slices.Equal(got, want) {
			t.Errorf("by %s they are %q", orders[i].by, got)
		}
	}
	s.order = 0
	lines := s.draw(200, 24, now)
	text := strings.Join(lines, "\n")
	for _, want := range []string{
		"/a.sock   3 locks   2 held   3 waiting   2 uncertain", "sorted by waiters", "\nLOCK  KIND   STATE",
		"\na     plain  uncertain  7", `"deploy\x1b[2J" (pid 42)`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not say %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "\x1b") {
		t.Error("a lock controls the terminal")
	}
	lines = s.draw(20, 5, now)
	if len(lines) != 5 || lines[4] != "... and 3 more" {
		t.Errorf("in 5 lines it is %q", lines)
	}
	for _, line := range lines {
		if len(line) > 20 {
			t.Errorf("a line has %d characters: %q", len(line), line)
		}
	}
	s.gone, s.since = errors.New("no daemon"), now.Add(-3*time.Second)
	if lines = s.draw(200, 24, now); lines[1] != "STALE since 11:59:57.000Z: no daemon" {
		t.Errorf("without a daemon it says %q", lines[1])
	}
	s.hear(&lockagentv1.WatchEvent{Event: &lockagentv1.WatchEvent_Reset_{Reset_: &lockagentv1.Reset{}}})
	if got := names(); len(got) != 0 {
		t.Errorf("after a reset there are %q", got)
	}
}
