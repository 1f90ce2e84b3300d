package events

import (
	"math/rand/v2"
	"reflect"
	"testing"
)

// What an audit forgets of agents whose logs are over changes nothing that it says.
func TestPastAgentsComeBack(t *testing.T) {
	retired, back := 0, 0
	for seed := range uint64(24) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := newWorld(r, worldConfig{
			length: 1000 * (600 + r.IntN(900)), crashes: seed%2 == 0, resets: seed%3 == 0, breaks: seed%5 == 0, returns: true,
		})
		forgetful, keen := NewAudit(), NewAudit()
		for i, r := range w.stream {
			if _, past := forgetful.past.New[r.Agent]; past {
				back++
			}
			forgetful.Add(r)
			keen.Add(r)
			if l := keen.logs[r.Agent]; l.spans < 1<<20 {
				l.spans += 1 << 20 // so it is kept
			}
			retired = max(retired, len(forgetful.past.New))
			if i%1500 == 0 {
				if a, b := forgetful.ReportAt(r.Stored), keen.ReportAt(r.Stored); !reflect.DeepEqual(a, b) {
					t.Fatalf("seed %d, at %d\n%v\nof one that keeps everything\n%v", seed, i, a, b)
				}
			}
			if i%1000 == 500 {
				forgetful = resumed(t, forgetful)
			}
		}
		if len(keen.past.New) > 0 {
			t.Fatal("the audit that should keep everything does not")
		}
		if a, b := forgetful.Report(), keen.Report(); !reflect.DeepEqual(a, b) {
			t.Fatalf("seed %d\n%v\nof one that keeps everything\n%v", seed, a, b)
		}
	}
	if retired == 0 || back == 0 {
		t.Errorf("%d agents were retired, and %d came back", retired, back)
	}
	t.Logf("up to %d agents were retired at a time, and %d came back", retired, back)
}

// resumed returns what resumes from the checkpoint of an audit.
func resumed(t *testing.T, a *Audit) *Audit {
	t.Helper()
	text, err := a.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	a, err = ResumeAudit(text)
	if err != nil {
		t.Fatal(err)
	}
	return a
}
