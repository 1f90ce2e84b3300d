package servecmd

import (
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events/natslog"
	"github.com/lockagent/lockagent/internal/daemon/journal"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
)

// The journal may lack a start that the event log knows, because it could not be written, and the event log one that
// the journal knows.
func TestTheNextEpoch(t *testing.T) {
	t.Parallel()
	c := natslog.Connection{InProcess: natstest.Start(t, natsserver.Config{})}
	p, err := natslog.NewPublisher(natslog.Config{Connection: c, Agent: "a", Epoch: 5})
	if err != nil {
		t.Fatal(err)
	}
	p.Record(t.Context(), lockagent.Event{Kind: lockagent.EventAgentStarted})
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, err := natslog.OpenReader(natslog.ReaderConfig{Connection: c})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, test := range []struct {
		agent  lockagent.AgentID
		record string
		log    *natslog.Reader
		want   uint64
	}{
		{"a", "", r, 6},
		{"a", "4", r, 6},
		{"a", "7", r, 8},
		{"a", "7", nil, 8},
		{"a", "", nil, 1},
		{"b", "", r, 1},
		{"b", "3", r, 4},
	} {
		j, before, err := journal.Open(filepath.Join(t.TempDir(), "journal"))
		if err != nil {
			t.Fatal(err)
		}
		if test.record != "" {
			before.Records = map[string][]byte{epochRecord: []byte(test.record)}
		}
		s := &server{agent: test.agent, journal: j, before: before, logger: slog.New(slog.DiscardHandler)}
		if got := s.nextEpoch(test.log); got != test.want {
			t.Errorf("%+v: the epoch is %d", test, got)
		}
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}
}
