package natslog

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/internal/eventstest"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	"github.com/lockagent/lockagent/internal/waittest"
)

// TestStreamsThatLoseEvents are refused, with the setting and what mends it. As soon as somebody
// does that, the publisher goes on.
func TestStreamsThatLoseEvents(t *testing.T) {
	t.Parallel()
	base := jetstream.StreamConfig{Name: DefaultStream, Subjects: []string{events.AllSubjects}}
	for name, test := range map[string]struct {
		change  func(*jetstream.StreamConfig)
		setting string
		mend    string
		mended  func(*jetstream.StreamConfig) // nil if it cannot be mended
	}{
		"Subjects": {
			func(c *jetstream.StreamConfig) { c.Subjects = []string{"lockagent.v1.*.lock.>", "x"} },
			"its subjects [lockagent.v1.*.lock.> x] do not cover lockagent.v1." + string(eventstest.Agent) + ".>",
			"nats stream edit LOCKAGENT '--subjects=x,lockagent.v1.>'",
			func(c *jetstream.StreamConfig) { c.Subjects = []string{events.AllSubjects} },
		},
		"Interest": {
			func(c *jetstream.StreamConfig) { c.Retention = jetstream.InterestPolicy },
			"interest", "nats stream edit LOCKAGENT --retention=limits",
			func(c *jetstream.StreamConfig) { c.Retention = jetstream.LimitsPolicy },
		},
		"WorkQueue": {
			func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy },
			"work queue", "configure another stream", nil,
		},
		"PerSubject": {
			func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 1 },
			"it keeps 1 messages of each lock only", "nats stream edit LOCKAGENT --max-msgs-per-subject=-1",
			func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = -1 },
		},
		"Memory": {
			func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage },
			"in memory", "configure another stream", nil,
		},
		"Sealed": {
			func(c *jetstream.StreamConfig) { c.Sealed = true },
			"sealed", "configure another stream", nil,
		},
		"Mirror": {
			func(c *jetstream.StreamConfig) { c.Subjects, c.Mirror = nil, &jetstream.StreamSource{Name: "OTHER"} },
			"mirror", "configure another stream", nil,
		},
		"NoAck": {
			func(c *jetstream.StreamConfig) { c.NoAck = true },
			"it acknowledges nothing", "nats stream edit LOCKAGENT --ack",
			func(c *jetstream.StreamConfig) { c.NoAck = false },
		},
		"Sources": {
			func(c *jetstream.StreamConfig) { c.Sources = []*jetstream.StreamSource{{Name: "OTHER"}} },
			"duplicates", "nats stream edit LOCKAGENT --dupe-window=2m",
			func(c *jetstream.StreamConfig) { c.Duplicates = 2 * time.Minute },
		},
		"Size": {
			func(c *jetstream.StreamConfig) { c.MaxMsgSize = 100_000 },
			"messages of 100000 bytes", "nats stream edit LOCKAGENT --max-msg-size=-1",
			func(c *jetstream.StreamConfig) { c.MaxMsgSize = -1 },
		},
		"Transform": {
			func(c *jetstream.StreamConfig) {
				c.SubjectTransform = &jetstream.SubjectTransformConfig{Source: ">", Destination: "new.>"}
			},
			"it changes subjects", "nats stream edit LOCKAGENT --no-transform",
			func(c *jetstream.StreamConfig) { c.SubjectTransform = nil },
		},
		"Async": {
			func(c *jetstream.StreamConfig) { c.PersistMode = jetstream.AsyncPersistMode },
			"not written yet", "configure another stream", nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := Connection{InProcess: natstest.Start(t, natsserver.Config{})}
			js := client(t, c)
			if _, err := js.CreateStream(
				waittest.Context(t), jetstream.StreamConfig{Name: "OTHER", Subjects: []string{"other"}},
			); err != nil {
				t.Fatal(err)
			}
			cfg := base
			test.change(&cfg)
			sealed := cfg.Sealed
			cfg.Sealed = false // nobody can make a stream that is sealed from the beginning
			if _, err := js.CreateStream(waittest.Context(t), cfg); err != nil {
				t.Fatal(err)
			}
			if cfg.Sealed = sealed; sealed {
				if _, err := js.UpdateStream(waittest.Context(t), cfg); err != nil {
					t.Fatal(err)
				}
			}
			var log heard
			c.Logger = log.logger()
			p := newPublisher(t, Config{Connection: c, Agent: eventstest.Agent})
			p.Record(t.Context(), requested(0))
			waittest.Until(t, "the publisher knows why", func() bool { return p.Stats().Err != nil })
			flaw, ok := errors.AsType[*StreamError](p.Stats().Err)
			if !ok || !errors.Is(flaw, ErrStream) || !strings.Contains(flaw.Setting, test.setting) ||
				!strings.Contains(flaw.Mend, test.mend) {
				t.Fatalf("got %v", p.Stats().Err)
			}
			if strings.HasPrefix(flaw.Mend, "nats ") {
				runsInAShell(t, flaw.Mend)
			}
			waittest.Until(t, "the publisher says why", func() bool { return strings.Contains(log.String(), test.mend) })
			if lines := strings.Count(log.String(), "\n"); lines != 1 {
				t.Errorf("logged\n%s", log.String())
			}
			if test.mended == nil {
				return
			}
			test.mended(&cfg)
			if _, err := js.UpdateStream(waittest.Context(t), cfg); err != nil {
				t.Fatal(err)
			}
			flushed(t, p)
			wantEverything(t, c, 1)
		})
	}
}

// runsInAShell fails the test unless a shell takes the command for one command with its arguments.
func runsInAShell(t *testing.T, command string) {
	t.Helper()
	dir := t.TempDir() // where a '>' would make a file
	sh := exec.Command("sh", "-euc", "nats() { printf '%s\\n' \"$@\"; }; "+command)
	sh.Dir = dir
	out, err := sh.CombinedOutput()
	if want := strings.ReplaceAll(strings.TrimPrefix(strings.ReplaceAll(command, "'", ""), "nats "), " ", "\n") +
		"\n"; err != nil || string(out) != want {
		t.Errorf("a shell makes this of %s: %v\n%s", command, err, out)
	}
	if made, err := os.ReadDir(dir); err != nil || len(made) > 0 {
		t.Errorf("%s makes %v, %v", command, made, err)
	}
}

// TestWeakerStream is used, with one warning however often the connection comes and goes.
func TestWeakerStream(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, natsserver.Config{})
	_, err := client(t, Connection{InProcess: server}).CreateStream(waittest.Context(t), jetstream.StreamConfig{
		Name: DefaultStream, Subjects: []string{"lockagent.>"}, MaxMsgs: 3, MaxAge: time.Hour,
		Duplicates: time.Second, Discard: jetstream.DiscardNew,
	})
	if err != nil {
		t.Fatal(err)
	}
	var log heard
	var l link
	l.use(server)
	p := newPublisher(t, Config{Connection: Connection{InProcess: &l, Logger: log.logger()}})
	for i := range 3 {
		p.Record(t.Context(), requested(i))
		flushed(t, p)
		l.cut()
	}
	const want = `settings="max age is 1h0m0s, not 0s, max messages is 3, not -1, ` +
		`direct access is false, not true, duplicate window is 1s, not 2m0s, discard is DiscardNew, not DiscardOld"`
	if got := strings.Count(log.String(), "weaker settings"); got != 1 || !strings.Contains(log.String(), want) {
		t.Errorf("%d warnings:\n%s", got, log.String())
	}
	// Now the stream is full.
	p.Record(t.Context(), requested(3))
	waittest.Until(t, "the publisher knows why", func() bool {
		return p.Stats().Err != nil && strings.Contains(p.Stats().Err.Error(), "maximum messages exceeded")
	})
}

func TestDifferences(t *testing.T) {
	plain := &jetstream.StreamConfig{AllowDirect: true}
	compressed := &jetstream.StreamConfig{AllowDirect: true, Compression: jetstream.S2Compression}
	if got := differences(plain, compressed); got != "compression is None, not S2" {
		t.Errorf("got %q", got)
	}
	if got := differences(compressed, plain); got != "" {
		t.Errorf("got %q", got)
	}
}

func TestCovers(t *testing.T) {
	const subjects = "a.b.me.>"
	for pattern, want := range map[string]bool{
		">": true, "a.>": true, "a.b.>": true, "*.b.*.>": true, "a.b.me.>": true,
		"a.b.me.*": false, "a.b.you.>": false, "a.b.me": false, "a.b.me.lock.>": false, "a.b.*.lock.>": false, "b.>": false,
		"": false,
	} {
		if got := covered(subjects, []string{"x", pattern}); got != want {
			t.Errorf("%q covers %q: %v", pattern, subjects, got)
		}
	}
}

// TestSubjectsAreTaken has another stream take what is meant for ours, under a connection that lasts. When it
// is gone, our stream gets what the other one took.
func TestSubjectsAreTaken(t *testing.T) {
	t.Parallel()
	c := Connection{InProcess: natstest.Start(t, natsserver.Config{})}
	js := client(t, c)
	var log heard
	c.Logger = log.everything()
	p := newPublisher(t, Config{Connection: c})
	p.Record(t.Context(), requested(0))
	flushed(t, p)
	update := func(subject string) {
		t.Helper()
		if _, err := js.UpdateStream(
			waittest.Context(t), jetstream.StreamConfig{Name: DefaultStream, Subjects: []string{subject}},
		); err != nil {
			t.Fatal(err)
		}
	}
	update("something.else")
	if _, err := js.CreateStream(waittest.Context(t), jetstream.StreamConfig{
		Name: "OTHER", Subjects: []string{events.AllSubjects},
	}); err != nil {
		t.Fatal(err)
	}
	p.Record(t.Context(), requested(1))
	waittest.Until(t, "the publisher says who takes it", func() bool {
		return log.count(`stream \"OTHER\" takes the subjects of stream \"LOCKAGENT\"`) > 0
	})
	waittest.Until(t, "the publisher knows what is wrong with its stream", func() bool {
		err := p.Stats().Err
		return errors.Is(err, ErrStream) && strings.Contains(err.Error(), "do not cover")
	})
	if got := p.Stats(); got.Published != 1 || got.Queued != 1 {
		t.Errorf("got %+v", got)
	}
	if err := js.DeleteStream(waittest.Context(t), "OTHER"); err != nil {
		t.Fatal(err)
	}
	update(events.AllSubjects)
	flushed(t, p)
	wantEverything(t, c, 2)
}

// TestSubjectsOfNobody has no stream take what is meant for ours.
func TestSubjectsOfNobody(t *testing.T) {
	c := Connection{InProcess: natstest.Start(t, natsserver.Config{})}
	js := client(t, c)
	streamFor(t, js, func(cfg *jetstream.StreamConfig) { cfg.Subjects = []string{"something.else"} })
	p := newPublisher(t, Config{Connection: c})
	p.Record(t.Context(), requested(0))
	waittest.Until(t, "the publisher knows why", func() bool { return p.Stats().Err != nil })
	done, cancel := contextEnded()
	defer cancel()
	if err := p.Close(done); !errors.Is(err, ErrStream) {
		t.Errorf("close: %v", err)
	}
}

// TestAnswers are those that a server gives when it does not store something.
func TestAnswers(t *testing.T) {
	for want, answer := range map[string]answered{
		`stream "B" takes the subjects of stream "A"`:            {Stream: "B"},
		`the NATS server or the account has no room left for st`: {Error: &jetstream.APIError{ErrorCode: errNoStorage}},
		`another program publishes to stream "A" too: `:          {Error: &jetstream.APIError{ErrorCode: errWrongLast}},
		`stream "A" does not store what is published; it may be`: {Error: &jetstream.APIError{ErrorCode: 10077}},
	} {
		if err := answer.check("A"); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestTextOfStreamError is what an operator reads.
func TestTextOfStreamError(t *testing.T) {
	err := flawOf(&jetstream.StreamConfig{Name: "A", Subjects: []string{">"}, NoAck: true, Duplicates: 1}, "x.>", "x.>")
	if want := `events: stream "A" would lose events: it acknowledges nothing; nats stream edit A --ack`; err == nil ||
		err.Error() != want {
		t.Errorf("got %v", err)
	}
}
