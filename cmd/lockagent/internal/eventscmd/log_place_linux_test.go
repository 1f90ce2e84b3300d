package eventscmd

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/logtest"
	"github.com/lockagent/lockagent/events"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// A place in the log that is read again after an interruption does not repeat what was visited of it.
func TestAPlaceInALogIsVisitedOnce(t *testing.T) {
	var visited []string
	at := logPlace{visit: func(r *events.Record, err error) error {
		visited = append(visited, string(r.Lock))
		return err
	}}
	take := func(position uint64, lock lockagent.Name) {
		t.Helper()
		var line strings.Builder
		r := events.Record{
			Epoch: 1, Seq: 1,
			Event: lockagent.Event{Kind: lockagent.EventRequested, Agent: "a", Lock: lock, Time: logtest.Begun},
		}
		if err := events.WriteLine(&line, r); err != nil {
			t.Fatal(err)
		}
		if err := at.take(&lockagentv1.LogRecord{
			Position: position, What: &lockagentv1.LogRecord_Event{Event: line.String()},
		}); err != nil {
			t.Fatal(err)
		}
	}
	take(1, "a")
	take(4, "b")
	take(4, "c")
	at.skip = at.records // the daemon restarts
	take(4, "b")
	take(4, "c")
	take(4, "d")
	at.skip = at.records
	take(5, "e") // the rest of that message was removed meanwhile
	take(5, "f")
	if want := []string{"a", "b", "c", "d", "e", "f"}; !slices.Equal(visited, want) {
		t.Errorf("visited %q, want %q", visited, want)
	}
	if at.read() != 5 {
		t.Errorf("read up to %d", at.read())
	}
	wrong := errors.New("enough")
	at.visit = func(*events.Record, error) error { return wrong }
	if err := at.take(&lockagentv1.LogRecord{
		Position: 6, What: &lockagentv1.LogRecord_Wrong{Wrong: "cut"},
	}); !errors.Is(err, wrong) || !errors.Is(at.failed, wrong) {
		t.Errorf("got %v, %v", err, at.failed)
	}
}
