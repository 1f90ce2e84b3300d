package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
)

// documented returns the only block of a language in docs/nats.md.
func documented(t *testing.T, language string) string {
	t.Helper()
	page, err := os.ReadFile("../docs/nats.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)\n```"+language+"\n(.*?)\n```\n").FindAllStringSubmatch(string(page), -1)
	if len(blocks) != 1 {
		t.Fatalf("the page has %d blocks of %s, want 1", len(blocks), language)
	}
	return blocks[0][1]
}

// documentedStream returns the settings of the stream in docs/nats.md, for one server with a
// small disk.
func documentedStream(t *testing.T) jetstream.StreamConfig {
	t.Helper()
	var cfg jetstream.StreamConfig
	d := json.NewDecoder(strings.NewReader(documented(t, "json")))
	d.DisallowUnknownFields()
	if err := d.Decode(&cfg); err != nil {
		t.Fatal(err)
	}
	cfg.Replicas, cfg.MaxBytes = 1, 1<<20
	return cfg
}

// documentedServer starts a server as docs/nats.md configures it, and makes the stream as
// its operator.
func documentedServer(t *testing.T, conf string) *natsserver.Server {
	t.Helper()
	for _, name := range []string{"AGENT", "AUDITOR", "OPERATOR"} {
		t.Setenv(name+"_PASSWORD", secretOf(name))
	}
	s := natstest.StartSecured(t, conf)
	js := client(t, asUser(t, s, "operator"))
	if _, err := js.CreateStream(testContext(t), documentedStream(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := js.UpdateStream(testContext(t), documentedStream(t)); err != nil {
		t.Fatal(err)
	}
	return s
}

func secretOf(name string) string { return "s3cr3t-of-" + strings.ToLower(name) }

// asUser is a connection as a user in docs/nats.md.
func asUser(t *testing.T, s *natsserver.Server, user string) Connection {
	t.Helper()
	name, _, _ := strings.Cut(user, "-")
	return Connection{URL: s.URL(), User: user, PasswordFile: natstest.File(t, secretOf(name))}
}

// heard is a logger that keeps what is at level warn or above.
type heard struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (h *heard) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.Write(b)
}

func (h *heard) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(h, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

func (h *heard) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.String()
}

// TestDocumentedPermissionsAreEnough has a publisher and a reader do all that they do.
func TestDocumentedPermissionsAreEnough(t *testing.T) {
	s := documentedServer(t, documented(t, "conf"))
	var log heard

	// The publisher does not know what arrived before its connection was cut.
	way := &link{}
	way.use(s)
	c := asUser(t, s, "agent-1")
	c.URL, c.InProcess, c.Logger = "", way, log.logger()
	p := newPublisher(t, Config{Connection: c, Agent: "agent-1"})
	p.Record(t.Context(), requested(1))
	flushed(t, p)
	js := client(t, asUser(t, s, "operator"))
	way.mute(true)
	p.Record(t.Context(), requested(2))
	eventually(t, "the stream has the event that the publisher does not know of", func() bool {
		stream, err := js.Stream(testContext(t), DefaultStream)
		return err == nil && stream.CachedInfo().State.LastSeq == 2
	})
	p.Record(t.Context(), lockagent.Event{Kind: lockagent.EventLost, Lock: "orders/42"})
	way.mute(false)
	way.cut()
	p.Record(t.Context(), requested(3))
	if err := p.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}

	c = asUser(t, s, "auditor")
	c.Logger = log.logger()
	r, err := OpenReader(ReaderConfig{Connection: c})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.State(testContext(t)); err != nil {
		t.Error(err)
	}
	for _, filter := range []Filter{
		{},
		{Agents: []lockagent.AgentID{"agent-1"}},
		{Lock: "orders/42"},
		{Agents: []lockagent.AgentID{"agent-1"}, Lock: "orders/42"},
		{Kinds: []lockagent.EventKind{lockagent.EventLost}},
		{Kinds: []lockagent.EventKind{lockagent.EventLost, lockagent.EventRequested}},
		{Urgent: true},
	} {
		var got, tailed []uint64
		if err := r.Replay(testContext(t), From{}, filter, seqs(&got, 0)); err != nil || len(got) == 0 {
			t.Errorf("%+v: replayed %v, %v", filter, got, err)
		}
		if err := r.Tail(testContext(t), FromPosition(1), filter, seqs(&tailed, len(got))); !errors.Is(err, errEnough) {
			t.Errorf("%+v: tailed %v, %v", filter, tailed, err)
		}
		stream, err := r.stream(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		last := stream.CachedInfo().State.LastSeq
		rest := reading{r: r, stream: stream, filter: filter, last: last}
		if left, err := rest.anyLeft(testContext(t)); err != nil || !left {
			t.Errorf("%+v: it does not see what is left: %v", filter, err)
		}
	}
	if strings.Contains(log.String(), "not permit") {
		t.Errorf("not permitted:\n%s", log.String())
	}
}

// TestDocumentedPermissionsAreNotMore has a publisher, and a reader, try what others may do.
func TestDocumentedPermissionsAreNotMore(t *testing.T) {
	s := documentedServer(t, documented(t, "conf"))
	const api = "$JS.API.STREAM."
	for user, test := range map[string]struct{ may, mayNot []string }{
		"agent-1": {
			[]string{"lockagent.v1.agent-1.lock.orders.42", api + "INFO.LOCKAGENT"},
			[]string{
				"lockagent.v1.agent-2.lock.orders.42", "lockagent.v1.agent-10.lock.orders.42",
				api + "MSG.DELETE.LOCKAGENT", api + "PURGE.LOCKAGENT", api + "DELETE.LOCKAGENT", api + "UPDATE.LOCKAGENT",
			},
		},
		"auditor": {
			[]string{api + "INFO.LOCKAGENT"},
			[]string{
				"lockagent.v1.agent-1.lock.orders.42",
				api + "MSG.DELETE.LOCKAGENT", api + "PURGE.LOCKAGENT", api + "DELETE.LOCKAGENT", api + "UPDATE.LOCKAGENT",
			},
		},
		"operator": {
			[]string{api + "INFO.LOCKAGENT"},
			[]string{"lockagent.v1.agent-1.lock.orders.42", api + "MSG.DELETE.LOCKAGENT", api + "PURGE.LOCKAGENT"},
		},
	} {
		t.Run(user, func(t *testing.T) {
			c := asUser(t, s, user)
			c.Logger = testLogger(t)
			refused := make(chan error, 100)
			nc, err := c.dial("test", nats.ErrorHandler(c.errorHandler(func(err error) { refused <- err })))
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			for _, subject := range append(test.may, test.mayNot...) {
				if err := nc.Publish(subject, nil); err != nil {
					t.Fatal(err)
				}
			}
			// The refusals come in the order of what was published. So any of them that is for
			// something else comes first.
			for _, subject := range test.mayNot {
				select {
				case err := <-refused:
					missing, ok := errors.AsType[*PermissionError](err)
					if !ok || missing.Operation != "publish" || missing.Subject != subject {
						t.Errorf("got %v, want that it may not publish to %s", err, subject)
					}
				case <-testContext(t).Done():
					t.Fatalf("it may publish to %s", subject)
				}
			}
		})
	}
}

func TestPublisherIsNotAnother(t *testing.T) {
	s := documentedServer(t, documented(t, "conf"))
	p := newPublisher(t, Config{Connection: asUser(t, s, "agent-1"), Agent: "agent-2"})
	p.Record(t.Context(), requested(1))
	eventually(t, "the publisher says what it may not do", func() bool {
		missing, ok := errors.AsType[*PermissionError](p.Stats().Err)
		return ok && strings.Contains(missing.Subject, "lockagent.v1.agent-2.")
	})
	if n := p.Stats().Published; n != 0 {
		t.Errorf("%d events are published", n)
	}
}

// TestReaderNamesTheMissingPermission takes the permissions of a reader away, one by one.
func TestReaderNamesTheMissingPermission(t *testing.T) {
	conf := documented(t, "conf")
	begin := strings.Index(conf, "user: auditor")
	end := begin + strings.Index(conf[begin:], "user: operator")
	lines := strings.Split(conf[begin:end], "\n")
	tested := 0
	for i, line := range lines {
		permission := strings.Trim(line, " \"")
		switch {
		case strings.HasPrefix(permission, "subscribe:"):
			permission = "_INBOX."
			line = strings.Replace(line, "_INBOX.>", "nothing", 1)
		case strings.HasPrefix(permission, "$JS.API."):
			permission = strings.TrimSuffix(strings.TrimSuffix(permission, ">"), "*")
			line = `"nothing"`
		default:
			continue
		}
		tested++
		t.Run(permission, func(t *testing.T) {
			less := append(append(append([]string{}, lines[:i]...), line), lines[i+1:]...)
			s := documentedServer(t, conf[:begin]+strings.Join(less, "\n")+conf[end:])
			p := newPublisher(t, Config{Connection: asUser(t, s, "agent-1"), Agent: "agent-1"})
			p.Record(t.Context(), requested(1))
			flushed(t, p)

			r := newReader(t, asUser(t, s, "auditor"))
			var got []uint64
			err := r.Replay(testContext(t), From{}, Filter{}, seqs(&got, 0))
			missing, ok := errors.AsType[*PermissionError](err)
			switch {
			case strings.Contains(permission, "CONSUMER.DELETE"), strings.Contains(permission, "DIRECT.GET"):
				// The server tidies up by itself, and this reader waits for nothing that is gone.
				if err != nil || len(got) != 1 {
					t.Errorf("read %v, %v", got, err)
				}
			case !ok || !strings.HasPrefix(missing.Subject, permission) || len(got) > 0:
				t.Errorf("read %v, %v", got, err)
			}
			if strings.Contains(permission, "STREAM.INFO") {
				if _, err := r.State(testContext(t)); !errors.Is(err, ErrNotPermitted) {
					t.Errorf("the bounds: %v", err)
				}
			}
		})
	}
	if tested != 6 {
		t.Errorf("%d permissions tested, want 6", tested)
	}
}

// TestDocumentedStream: the publisher takes the stream in docs/nats.md as it is.
func TestDocumentedStream(t *testing.T) {
	cfg := documentedStream(t)
	if cfg.Name != DefaultStream || len(cfg.Subjects) != 1 || cfg.Subjects[0] != AllSubjects {
		t.Errorf("it is %s for %v", cfg.Name, cfg.Subjects)
	}
	if !cfg.DenyDelete || !cfg.DenyPurge || !cfg.AllowDirect {
		t.Errorf("it is %+v", cfg)
	}
}
