package transport

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
)

func sentinelConfig(s *redistest.Sentinel) Config {
	c := config("")
	c.MasterSet = redistest.MasterSet
	c.Addrs = nil
	for _, w := range s.Watchers {
		c.Addrs = append(c.Addrs, w.Addr())
	}
	return c
}

// heard is a listener who notes what it is told.
type heard struct {
	stands   chan bool
	messages chan string
}

func listen(s *Subscriptions, t Topic) (heard, func()) {
	h := heard{make(chan bool, 100), make(chan string, 100)}
	cancel := s.Subscribe(t, Listener{
		Message: func(m string) { h.messages <- m },
		Stands:  func(again bool) { h.stands <- again },
	})
	return h, cancel
}

// hears has a server publish until a listener hears it: a subscription may be moving.
func (h heard) hears(t testing.TB, server *redistest.Server, command, channel string) {
	t.Helper()
	waittest.Until(t, "the message to be heard", func() bool {
		server.Do(command, channel, "hello")
		return len(h.messages) > 0
	})
}

// A master that hangs is left as soon as the Sentinels announce another, even if it may be
// silent for longer than anybody waits. So are the first Sentinel and its silence.
func TestAMasterThatHangsIsReplaced(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinels(t, 3, 500*time.Millisecond)
	s := connect(t, sentinelConfig(sentinel))
	lanes, subs := counters(s), NewSubscriptions(s)
	eventually(t, lanes, "key")
	h, _ := listen(subs, Topic{Channel: "news"})
	if waittest.Receive(t, "the subscription to stand", h.stands) {
		t.Error("it stands again before it stood")
	}
	sentinel.A.AwaitReplica()
	sentinel.A.Pause()
	sentinel.Watcher.Pause()
	under := make(chan error, 1)
	lanes.Add(t.Context(), 0, question{"key", func(_ string, err error) { under <- err }})
	if err := waittest.Receive(t, "the call to the master that hangs", under); err == nil {
		t.Error("a master that hangs answered")
	}
	eventually(t, lanes, "key")
	if s.Master(0).Addr() != sentinel.B.Addr() {
		t.Errorf("the master is %s, want %s", s.Master(0).Addr(), sentinel.B.Addr())
	}
	if !waittest.Receive(t, "the subscription to stand again", h.stands) {
		t.Error("it does not tell that it stood before")
	}
	h.hears(t, sentinel.B, "PUBLISH", "news")

	// When the old master goes on, and says so, it is not followed back.
	sentinel.A.Resume()
	sentinel.Watcher.Resume()
	for range 10 {
		s.Doubt()
		eventually(t, lanes, "key")
	}
	if s.Master(0).Addr() != sentinel.B.Addr() {
		t.Errorf("the master is %s again, want %s", s.Master(0).Addr(), sentinel.B.Addr())
	}
}

// One Sentinel is enough to hear of all.
func TestOtherSentinelsAreFound(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinels(t, 3, 500*time.Millisecond)
	c := sentinelConfig(sentinel)
	c.Addrs = c.Addrs[:1]
	s := connect(t, c)
	lanes := counters(s)
	eventually(t, lanes, "key")
	waittest.Until(t, "all Sentinels to report", func() bool {
		s.sentinels.mu.Lock()
		defer s.sentinels.mu.Unlock()
		return len(s.sentinels.reports) == 3
	})
	sentinel.A.AwaitReplica()
	sentinel.Watcher.Kill()
	sentinel.A.Kill()
	eventually(t, lanes, "key")
	if s.Master(0).Addr() != sentinel.B.Addr() {
		t.Errorf("the master is %s, want %s", s.Master(0).Addr(), sentinel.B.Addr())
	}
}

// Which of several reports is believed.
func TestChooseAmongSentinels(t *testing.T) {
	old, current, next := report{"a:1", 4}, report{"b:1", 5}, report{"c:1", 6}
	rival := report{"d:1", 5}
	for _, c := range []struct {
		what    string
		reports []report
		want    report
	}{
		{"the newest", []report{old, next, current}, next},
		{"the present one among equals", []report{rival, current}, current},
		{"the present one among equals, in another order", []report{current, rival}, current},
		{"nobody who lags", []report{old, old}, current},
		{"nobody at all", nil, current},
		{"a new epoch of the same", []report{{"b:1", 7}, current}, report{"b:1", 7}},
		{"all, if they were set up anew", []report{old, old, old}, old},
		{"another, if the present one is not named any more", []report{rival, old, old}, rival},
	} {
		now := time.Now()
		w := &sentinels{
			current: current, reports: make(map[string]report),
			known: map[string]time.Time{"0": now, "1": now, "2": now},
		}
		for i, r := range c.reports {
			w.reports[string(rune('0'+i))] = r
		}
		if got := w.choose(); got != c.want {
			t.Errorf("%s: %v was chosen, want %v", c.what, got, c.want)
		}
	}
}

// Sentinels may be set up anew at other addresses. Those that are gone count for a while. Then
// the others are believed, and nobody dials those that are gone.
func TestSentinelsThatAreGoneAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const configured, gone, here = "127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"
		current, anew := report{"old:1", 6}, report{"new:1", 1}
		s := &Servers{config: config(configured), nodes: make(map[string]*Node)}
		s.life, s.end = context.WithCancel(t.Context())
		s.table.Store(new(table))
		w := &s.sentinels
		w.current = current
		w.known = map[string]time.Time{configured: time.Now()}
		w.reports = make(map[string]report)
		s.discover(gone)
		time.Sleep(forgotten - time.Second)
		s.heard(here, anew)
		if w.current != current {
			t.Errorf("%v was chosen while others may know better", w.current)
		}
		time.Sleep(2*time.Second + 2*longestRetry)
		s.heard(here, anew)
		if w.current != anew {
			t.Errorf("%v was chosen when the others were forgotten", w.current)
		}
		w.mu.Lock()
		if _, known := w.known[gone]; known || len(w.known) != 2 {
			t.Errorf("known are %v", w.known)
		}
		w.mu.Unlock()
		s.Close()
	})
}

// Whatever a Sentinel answers, whoever asks gets an error at most.
func TestASentinelThatAnswersAnything(t *testing.T) {
	for _, sent := range []string{
		">0", ">1\r\n+message", ">1\r\n*0", ">3\r\n+subscribe\r\n+x\r\n:1", ">3\r\n+subscribe\r\n++switch-master\r\n:1",
		"+OK", ":1", "_", "*0", "*2\r\n:1\r\n*0", "%0", "%1\r\n+config-epoch\r\n+x",
		"-ERR", "-MISCONF no disk", "$-9", "*-9", "garbage",
	} {
		m := new(moody)
		m.say(sent)
		c := config("")
		c.MasterSet, c.Addrs, c.Silence = "mymaster", []string{m.start(t)}, 50*time.Millisecond
		if s, err := Connect(waittest.Context(t), c); err == nil {
			t.Errorf("there is a master after %q", sent)
			s.Close()
		}
	}
}
