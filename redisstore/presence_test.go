package redisstore

import (
	"log/slog"
	"slices"
	"sync"
	"testing"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/redisstore/internal/script"
)

// attendant is a store that listens, with the verdicts that its agent has heard.
type attendant struct {
	store *Store

	mu    sync.Mutex // guards heard
	heard []lockagent.MessageKind
}

func attend(t *testing.T, url string) *attendant {
	t.Helper()
	store, err := Config{GraceFirst: NoGraceFirst, Logger: slog.New(slog.DiscardHandler)}.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return &attendant{store: store}
}

func (a *attendant) listen(agent lockagent.AgentID) {
	a.store.Listen(agent, func(m lockagent.Message) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.heard = append(a.heard, m.Kind)
	})
}

// take returns how often the agent has heard a verdict since the last call.
func (a *attendant) take(verdict lockagent.MessageKind) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.heard = slices.DeleteFunc(a.heard, func(kind lockagent.MessageKind) bool {
		if kind == verdict {
			n++
		}
		return kind == verdict
	})
	return n
}

// judged waits until one of two is told of its twin, and the other one that it is alone.
func judged(t *testing.T, one, two *attendant) {
	t.Helper()
	var alone, twin [2]int
	waittest.Until(t, "one to be alone, and the other one to be told", func() bool {
		for i, a := range []*attendant{one, two} {
			alone[i] += a.take(lockagent.MessageAlone)
			twin[i] += a.take(lockagent.MessageTwin)
		}
		return alone[0] > 0 && twin[1] > 0 || alone[1] > 0 && twin[0] > 0
	})
	if twin[0] > 0 && twin[1] > 0 {
		t.Error("both were told of a twin")
	}
}

// Two processes begin to listen as one agent while Redis is away.
func TestTwinsMeetWhenTheServerIsBack(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one, two := attend(t, server.URL()), attend(t, server.URL())
	server.Kill()
	id := lockagent.NewAgentID()
	one.listen(id)
	two.listen(id)
	server.Restart()
	judged(t, one, two)
}

// The copy of a machine that runs knows all that the original knows. When both have connected anew, one of them is
// told.
func TestTheCopyOfAProcessIsFoundOut(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	original, clone := attend(t, server.URL()), attend(t, server.URL())
	id := lockagent.NewAgentID()
	original.listen(id)
	waittest.Until(t, "the original to be alone", func() bool { return original.take(lockagent.MessageAlone) > 0 })
	server.Kill()
	clone.listen(id)
	from, to := original.store.listener.Load(), clone.store.listener.Load()
	from.mu.Lock()
	known := from.presence
	known.words = slices.Clone(known.words)
	from.mu.Unlock()
	to.mu.Lock()
	to.presence = known
	to.mu.Unlock()
	server.Restart()
	judged(t, original, clone)
}

// A word of the process itself that arrives late is no sign of another one, and neither is a word of another database.
func TestALateWordIsNoTwin(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a := attend(t, server.URL())
	id := lockagent.NewAgentID()
	a.listen(id)
	l := a.store.listener.Load()
	alone := func() bool { return a.take(lockagent.MessageAlone) > 0 }
	waittest.Until(t, "to be alone", alone)
	l.mu.Lock()
	word := l.presence.words[0]
	l.mu.Unlock()
	server.Do("CLIENT", "KILL", "TYPE", "pubsub")
	waittest.Until(t, "to be alone again", alone)
	heard := server.Dial()
	if _, err := heard.Do("SUBSCRIBE", script.AgentChannel(id)); err != nil {
		t.Fatal(err)
	}
	const another = "0.another"
	for _, word := range []string{word, "1.another", another} {
		server.Do("PUBLISH", script.AgentChannel(id), script.Here(word))
	}
	for {
		message, err := heard.Receive()
		if err != nil {
			t.Fatal(err)
		}
		text, _ := message.([]any)[2].(string)
		if taken, answers, _ := script.ReadHere(text); !answers {
			continue
		} else if taken != another {
			t.Errorf("the answer to %q is %q", taken, text)
		}
		return
	}
}

// Whoever may not subscribe cannot find out whether it is alone, and goes on.
func TestNobodyWaitsForAVerdictThatCannotCome(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.WithUser("app", "secret", "~* &* +@all"))
	a := attend(t, server.UserURL("app", "secret"))
	server.Do("ACL", "SETUSER", "app", "resetchannels", "&redisson_*")
	a.listen(lockagent.NewAgentID())
	waittest.Until(t, "to be taken for alone", func() bool { return a.take(lockagent.MessageAlone) > 0 })
}
