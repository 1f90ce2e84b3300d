package natslog

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	"github.com/lockagent/lockagent/internal/waittest"
)

// setPasswords sets the variables that the documented configuration takes its passwords from.
func setPasswords() {
	for _, name := range []string{"AGENT", "AUDITOR", "FORWARDER", "OPERATOR"} {
		_ = os.Setenv(name+"_PASSWORD", secretOf(name)) // the names are right
	}
}

func secretOf(name string) string { return "s3cr3t-of-" + strings.ToLower(name) }

// asUser is a connection as a user in docs/nats.md.
func asUser(t *testing.T, s *natsserver.Server, user string) Connection {
	t.Helper()
	name, _, _ := strings.Cut(user, "-")
	if name == "root" {
		name = "operator"
	}
	c := Connection{URL: s.URL(), User: user, PasswordFile: natstest.File(t, secretOf(name))}
	if ownAnswers {
		c.InboxPrefix = "_INBOX_" + user
	}
	return c
}

// ownAnswers has asUser return connections with answers of their own. A test that sets it does not
// run beside others.
var ownAnswers bool

// withOwnAnswers is a configuration in which each user has answers of its own.
func withOwnAnswers(conf string) string {
	users := strings.Split(conf, "user: ")
	for i := range users[1:] {
		name, _, _ := strings.Cut(users[1+i], ",")
		users[1+i] = strings.ReplaceAll(users[1+i], "_INBOX.>", "_INBOX_"+name+".>")
	}
	return strings.Join(users, "user: ")
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

// TestDocumentedPermissionsAreEnough has a publisher, a reader and a forwarder do all that they do.
// The page says in words how the variants differ.
func TestDocumentedPermissionsAreEnough(t *testing.T) {
	conf := documented(t, "conf")
	t.Run("AsTheyAre", func(t *testing.T) {
		permitted(t, func() *natsserver.Server { return documentedServer(t, conf) }, DefaultStream, events.DefaultPrefix, "")
	})
	t.Run("WithoutDirectAccess", func(t *testing.T) {
		direct := regexp.MustCompile(`DIRECT\.GET\.LOCKAGENT[^"]*"`)
		permitted(t, func() *natsserver.Server {
			s := natstest.StartSecured(t, direct.ReplaceAllString(conf, `STREAM.MSG.GET.LOCKAGENT"`))
			makeStreams(t, asUser(t, s, "operator"), func(cfg *jetstream.StreamConfig) { cfg.AllowDirect = false })
			return s
		}, DefaultStream, events.DefaultPrefix, "")
	})
	t.Run("TheyMakeTheStream", func(t *testing.T) {
		more := strings.ReplaceAll(
			conf, "publish: [", "publish: [\n\"$JS.API.STREAM.CREATE.LOCKAGENT\"\n\"$JS.API.STREAM.CREATE.LOCKAGENT_URGENT\"",
		)
		permitted(
			t, func() *natsserver.Server { return natstest.StartSecured(t, more) }, DefaultStream, events.DefaultPrefix, "",
		)
	})
	t.Run("OwnAnswers", func(t *testing.T) {
		ownAnswers = true
		defer func() { ownAnswers = false }()
		permitted(
			t, func() *natsserver.Server { return documentedServer(t, withOwnAnswers(conf)) }, DefaultStream,
			events.DefaultPrefix, "",
		)
	})
	t.Run("OtherNamesInADomain", func(t *testing.T) {
		other := strings.NewReplacer("LOCKAGENT", "OTHER", "lockagent.v1", "other.prefix",
			"jetstream: enabled\naccounts", "jetstream: { domain: hub }\naccounts").Replace(conf)
		permitted(t, func() *natsserver.Server {
			s := natstest.StartSecured(t, other)
			c := asUser(t, s, "operator")
			c.Domain = "hub"
			makeStreams(t, c, func(cfg *jetstream.StreamConfig) {
				if cfg.Name == DefaultStream {
					cfg.Name, cfg.Subjects = "OTHER", []string{"other.prefix.>"}
					return
				}
				*cfg = urgentOf(
					&jetstream.StreamConfig{Name: "OTHER", Storage: cfg.Storage, Replicas: cfg.Replicas, AllowDirect: cfg.AllowDirect},
					"other.prefix",
				)
			})
			return s
		}, "OTHER", "other.prefix", "hub")
	})
}

// permitted fails the test unless the users of a new server may do all that they do.
func permitted(t *testing.T, start func() *natsserver.Server, stream, prefix, domain string) {
	t.Helper()
	s := start()
	var log heard
	publishDoubtfully(t, s, Config{
		Stream: stream, Prefix: prefix, Connection: Connection{Domain: domain, Logger: log.logger()},
	})
	c := asUser(t, s, "auditor")
	c.Logger, c.Domain = log.logger(), domain
	r, err := OpenReader(ReaderConfig{Connection: c, Stream: stream, Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, filter := range []events.Filter{
		{},
		{Agents: []lockagent.AgentID{"agent-1"}},
		{Lock: "orders/42"},
		{Agents: []lockagent.AgentID{"agent-1"}, Lock: "orders/42"},
		{Pattern: "orders/>"},
		{Kinds: []lockagent.EventKind{lockagent.EventLost, lockagent.EventReleased}},
		{Urgent: true},
	} {
		readAll(t, r, filter)
	}
	forwardDoubtfully(t, s, r.cfg, start(), &log)
	readForgotten(t, s, r)
	if strings.Contains(log.String(), "not permit") {
		t.Errorf("not permitted:\n%s", log.String())
	}
}

// readForgotten has the operator make the log forget all but its last message, which has no consequences. Then the
// reader finds in the copies what had some.
func readForgotten(t *testing.T, s *natsserver.Server, r *Reader) {
	t.Helper()
	ctx := waittest.Context(t)
	c := asUser(t, s, "operator")
	c.Domain = r.cfg.Domain
	js := client(t, c)
	var all, kept []uint64
	if err := r.Replay(ctx, From{}, events.Filter{Urgent: true}, positions(&all, 0)); err != nil || len(all) == 0 {
		t.Fatalf("read %v, %v", all, err)
	}
	awaitCopies(t, js, urgentName(r.cfg.Stream), uint64(len(all)))
	log, err := js.Stream(ctx, r.cfg.Stream)
	if err != nil {
		t.Fatal(err)
	}
	cfg := log.CachedInfo().Config
	cfg.MaxMsgs = 1
	if _, err := js.UpdateStream(ctx, cfg); err != nil {
		t.Fatal(err)
	}
	if err := r.Replay(ctx, From{}, events.Filter{Urgent: true}, positions(&kept, 0)); err != nil ||
		!slices.Equal(kept, all) {
		t.Errorf("read %v, %v; want %v", kept, err, all)
	}
	kept = nil
	if err := r.Tail(
		ctx, From{}, events.Filter{Urgent: true}, positions(&kept, all[len(all)-1]),
	); !errors.Is(err, errEnough) || !slices.Equal(kept, all) {
		t.Errorf("followed %v, %v; want %v", kept, err, all)
	}
}

// forwardDoubtfully forwards to a hub, where somebody puts something else behind the records of the
// agent. So the next forwarder has to look for them.
func forwardDoubtfully(t *testing.T, s *natsserver.Server, source ReaderConfig, hub *natsserver.Server, log *heard) {
	t.Helper()
	to := ReaderConfig{Connection: asUser(t, hub, "forwarder"), Stream: source.Stream, Prefix: source.Prefix}
	to.Domain = source.Domain
	cfg := ForwardConfig{Source: source, Hub: to, Logger: log.logger()}
	f := forwardWith(t, cfg)
	waittest.Until(t, "all is forwarded", func() bool { return f.Stats().Forwarded == 3 })
	f.stop()
	putForeign(t, asUser(t, hub, "forwarder"), source.Prefix+".agent-1.lock.x", "")
	putForeign(t, asUser(t, s, "agent-1"), source.Prefix+".agent-1.lock.x", "agent-1:2:1")
	f = forwardWith(t, cfg)
	waittest.Until(t, "the new one is forwarded", func() bool { return f.Stats().Forwarded == 1 })
	if got := f.Stats(); got.Present+got.Discarded != 0 {
		t.Errorf("got %+v", got)
	}
}

// putForeign stores a message that is not from a publisher of this process. It has no id if id is
// empty.
func putForeign(t *testing.T, c Connection, subject, id string) {
	t.Helper()
	m := nats.NewMsg(subject)
	if id != "" {
		m.Header.Set(jetstream.MsgIDHeader, id)
	}
	if _, err := connected(t, c).RequestMsgWithContext(waittest.Context(t), m); err != nil {
		t.Fatal(err)
	}
}

// publishDoubtfully publishes as agent-1. The publisher does not know what arrived before its
// connection was cut.
func publishDoubtfully(t *testing.T, s *natsserver.Server, cfg Config) {
	t.Helper()
	way := &link{}
	way.use(s)
	user := asUser(t, s, "agent-1")
	cfg.InProcess, cfg.Agent = way, "agent-1"
	cfg.User, cfg.PasswordFile, cfg.InboxPrefix = user.User, user.PasswordFile, user.InboxPrefix
	p := newPublisher(t, cfg)
	lost := lockagent.Event{Kind: lockagent.EventLost, Lock: "orders/42"}
	p.Record(t.Context(), lost)
	flushed(t, p)

	c := asUser(t, s, "auditor")
	c.Domain, c.Logger = cfg.Domain, testLogger(t)
	r, err := OpenReader(ReaderConfig{Connection: c, Stream: cfg.Stream})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	way.mute(true)
	p.Record(t.Context(), lost)
	waittest.Until(t, "the stream has what the publisher does not know of", func() bool {
		state, err := r.State(waittest.Context(t))
		return err == nil && state.Last == 2
	})
	way.mute(false)
	way.cut()
	p.Record(t.Context(), lockagent.Event{Kind: lockagent.EventReleased, Lock: "orders/42"})
	if err := p.Close(waittest.Context(t)); err != nil {
		t.Fatal(err)
	}
}

// readAll reads in every way that a Reader has.
func readAll(t *testing.T, r *Reader, filter events.Filter) {
	t.Helper()
	ctx := waittest.Context(t)
	var got, tailed []uint64
	if err := r.Replay(ctx, From{}, filter, seqs(&got, 0)); err != nil || len(got) == 0 {
		t.Errorf("%+v: replayed %v, %v", filter, got, err)
	}
	if err := r.Tail(ctx, FromPosition(1), filter, seqs(&tailed, len(got))); !errors.Is(err, errEnough) {
		t.Errorf("%+v: tailed %v, %v", filter, tailed, err)
	}
	state, err := r.State(ctx)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := r.stream(ctx)
	if err != nil {
		t.Fatal(err)
	}
	rest := reading{r: r, stream: stream, filter: filter, last: state.Last}
	if left, err := rest.anyLeft(ctx, 1); err != nil || !left {
		t.Errorf("%+v: it does not see what is left: %v", filter, err)
	}
}

// TestDocumentedPermissionsAreNotMore has each user try what others may do.
func TestDocumentedPermissionsAreNotMore(t *testing.T) {
	t.Parallel()
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
			[]string{api + "INFO.LOCKAGENT", api + "INFO.LOCKAGENT_URGENT"},
			[]string{
				"lockagent.v1.agent-1.lock.orders.42",
				api + "MSG.DELETE.LOCKAGENT", api + "PURGE.LOCKAGENT", api + "DELETE.LOCKAGENT", api + "UPDATE.LOCKAGENT",
				api + "MSG.DELETE.LOCKAGENT_URGENT", api + "PURGE.LOCKAGENT_URGENT", api + "DELETE.LOCKAGENT_URGENT",
				api + "UPDATE.LOCKAGENT_URGENT",
			},
		},
		"forwarder": {
			[]string{"lockagent.v1.agent-1.lock.orders.42", api + "INFO.LOCKAGENT"},
			[]string{
				"$JS.API.CONSUMER.CREATE.LOCKAGENT.x",
				api + "MSG.DELETE.LOCKAGENT", api + "PURGE.LOCKAGENT", api + "DELETE.LOCKAGENT", api + "UPDATE.LOCKAGENT",
			},
		},
		"operator": {
			[]string{api + "INFO.LOCKAGENT", api + "INFO.LOCKAGENT_URGENT"},
			[]string{
				"lockagent.v1.agent-1.lock.orders.42", api + "MSG.DELETE.LOCKAGENT", api + "PURGE.LOCKAGENT",
				api + "MSG.DELETE.LOCKAGENT_URGENT", api + "PURGE.LOCKAGENT_URGENT", api + "DELETE.LOCKAGENT_URGENT",
			},
		},
	} {
		t.Run(user, func(t *testing.T) {
			nc, refusal := refusals(t, asUser(t, s, user))
			for _, subject := range append(test.may, test.mayNot...) {
				if err := nc.Publish(subject, nil); err != nil {
					t.Fatal(err)
				}
			}
			// The refusals come in the order of what was published. So any of them that is for
			// something else comes first.
			for _, subject := range test.mayNot {
				if got, want := refusal(), (PermissionError{"publish", subject}); got != want {
					t.Errorf("got %+v, want %+v", got, want)
				}
			}
		})
	}
}

// TestOwnConsumerIsPermitted has a program remember in the server how far it has come. The page says
// in words what it needs more than a reader.
func TestOwnConsumerIsPermitted(t *testing.T) {
	const ofReader = `"$JS.API.STREAM.MSG.GET.LOCKAGENT"`
	conf := strings.Replace(documented(t, "conf"), ofReader, ofReader+"\n"+`"$JS.ACK.LOCKAGENT.>"`, 1)
	s := documentedServer(t, conf)
	p := newPublisher(t, Config{Connection: asUser(t, s, "agent-1"), Agent: "agent-1"})
	p.Record(t.Context(), requested(1))
	flushed(t, p)

	consumer, err := client(t, asUser(t, s, "auditor")).CreateOrUpdateConsumer(
		waittest.Context(t), DefaultStream, jetstream.ConsumerConfig{Durable: "billing"},
	)
	if err != nil {
		t.Fatal(err)
	}
	m, err := consumer.Next()
	if err != nil {
		t.Fatal(err)
	}
	if err := m.DoubleAck(waittest.Context(t)); err != nil {
		t.Error(err)
	}
}

// refusals connects, and returns what tells of each refusal by the server, in their order.
func refusals(t *testing.T, c Connection) (nc *nats.Conn, next func() PermissionError) {
	t.Helper()
	refused := make(chan error, 100)
	nc = connected(
		t, c, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- explained(err) }),
	)
	return nc, func() (missing PermissionError) {
		t.Helper()
		select {
		case err := <-refused:
			told, ok := errors.AsType[*PermissionError](err)
			if !ok {
				t.Fatal(err)
			}
			missing = *told
		case <-waittest.Context(t).Done():
			t.Fatal("the server refuses nothing more")
		}
		return missing
	}
}

// TestOwnAnswersAreNotRead has a user listen to the answers to another one.
func TestOwnAnswersAreNotRead(t *testing.T) {
	ownAnswers = true
	defer func() { ownAnswers = false }()
	s := documentedServer(t, withOwnAnswers(documented(t, "conf")))
	nc, refusal := refusals(t, asUser(t, s, "agent-1"))
	const answers = "_INBOX_auditor.>"
	if _, err := nc.SubscribeSync(answers); err != nil {
		t.Fatal(err)
	}
	if got, want := refusal(), (PermissionError{"subscribe", answers}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestPublisherMayNotListen names the permission for answers again and again, and not that they do not come.
func TestPublisherMayNotListen(t *testing.T) {
	t.Parallel()
	s := documentedServer(t, documented(t, "conf"))
	var log heard
	c := asUser(t, s, "agent-1")
	c.InboxPrefix, c.Logger = "_OTHER", log.everything()
	p := newPublisher(t, Config{Connection: c, Agent: "agent-1"})
	p.Record(t.Context(), requested(1))
	waittest.Until(t, "it tries again and again", func() bool { return log.count("still nothing is published") >= 4 })
	missing, ok := errors.AsType[*PermissionError](p.Stats().Err)
	if !ok || missing.Operation != "subscribe" || !strings.HasPrefix(missing.Subject, "_OTHER.") ||
		log.count("deadline") > 0 {
		t.Errorf("got %v\n%s", p.Stats().Err, &log)
	}
}

func TestPublisherIsNotAnother(t *testing.T) {
	t.Parallel()
	s := documentedServer(t, documented(t, "conf"))
	var log heard
	c := asUser(t, s, "agent-1")
	c.Logger = log.everything()
	p := newPublisher(t, Config{Connection: c, Agent: "agent-2"})
	p.Record(t.Context(), requested(1))
	waittest.Until(t, "the publisher says what it may not do", func() bool {
		missing, ok := errors.AsType[*PermissionError](p.Stats().Err)
		return ok && strings.Contains(missing.Subject, "lockagent.v1.agent-2.")
	})
	waittest.Until(t, "it tries again and again", func() bool { return log.count("still nothing is published") >= 3 })
	said := 0
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, "not permit") && !strings.Contains(line, "level=DEBUG") {
			said++
		}
	}
	if said != 1 || log.count("nothing is published until this is over") != 1 {
		t.Errorf("%d lines say why:\n%s", said, &log)
	}
	if n := p.Stats().Published; n != 0 {
		t.Errorf("%d events are published", n)
	}
}

// lessPermitted is the configuration in docs/nats.md without one permission of one user.
type lessPermitted struct {
	permission string // the beginning of what is missing
	conf       string
}

// without takes the permissions of a user away, one by one.
func without(conf, user string) (all []lessPermitted) {
	begin := strings.Index(conf, "user: "+user)
	end := begin + strings.Index(conf[begin:], "\n      }")
	lines := strings.Split(conf[begin:end], "\n")
	for i, line := range lines {
		permission, _, _ := strings.Cut(strings.TrimLeft(line, ` "`), `"`)
		switch {
		case strings.HasPrefix(permission, "subscribe:"):
			permission = "_INBOX."
			line = strings.Replace(line, "_INBOX.>", "nothing", 1)
		case strings.HasPrefix(permission, "$JS.API."), strings.HasPrefix(permission, "lockagent."):
			permission = strings.TrimSuffix(strings.TrimSuffix(permission, ">"), "*")
			line = `"nothing"`
		default:
			continue
		}
		less := slices.Clone(lines)
		less[i] = line
		all = append(all, lessPermitted{permission, conf[:begin] + strings.Join(less, "\n") + conf[end:]})
	}
	return all
}

// forget has the operator make the log forget its only message, of which there is a copy. One without consequences
// comes behind that message.
func forget(t *testing.T, p *Publisher, operator jetstream.JetStream) {
	t.Helper()
	awaitCopies(t, operator, copiesOf, 1)
	log := documentedStream(t)
	log.MaxMsgs = 1
	if _, err := operator.UpdateStream(waittest.Context(t), log); err != nil {
		t.Fatal(err)
	}
	p.Record(t.Context(), requested(1))
	flushed(t, p)
}

func TestReaderNamesTheMissingPermission(t *testing.T) {
	t.Parallel()
	all := without(documented(t, "conf"), "auditor")
	if len(all) != 11 {
		t.Errorf("%d permissions tested, want 11", len(all))
	}
	for _, less := range all {
		t.Run(less.permission, func(t *testing.T) {
			t.Parallel()
			s := documentedServer(t, less.conf)
			p := newPublisher(t, Config{Connection: asUser(t, s, "agent-1"), Agent: "agent-1"})
			p.Record(t.Context(), lockagent.Event{Kind: lockagent.EventBroken, Lock: "orders/42"})
			flushed(t, p)

			var log heard
			c := asUser(t, s, "auditor")
			c.Logger = log.logger()
			r, err := OpenReader(ReaderConfig{Connection: c})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if strings.Contains(less.permission, "_URGENT") {
				forget(t, p, client(t, asUser(t, s, "operator")))
			}
			var got []uint64
			err = r.Replay(waittest.Context(t), From{}, events.Filter{Urgent: true}, positions(&got, 0))
			missing, ok := errors.AsType[*PermissionError](err)
			switch {
			case strings.Contains(less.permission, "STREAM.INFO.LOCKAGENT_URGENT"):
				if warned := strings.Contains(log.String(), "what the log has forgotten is not read"); err != nil || len(got) > 0 ||
					!warned {
					t.Errorf("read %v, %v\n%s", got, err, &log)
				}
			case strings.Contains(less.permission, "CONSUMER.DELETE"), strings.Contains(less.permission, "MSG.GET"):
				// The server tidies up by itself, and this reader waits for nothing that is gone.
				if err != nil || len(got) != 1 {
					t.Errorf("read %v, %v", got, err)
				}
				wantLeaderNamed(t, r, less.permission)
			case !ok || !strings.HasPrefix(missing.Subject, less.permission) || len(got) > 0:
				t.Errorf("read %v, %v", got, err)
			case errors.Is(err, context.Canceled):
				t.Errorf("our own context has not ended: %v", err)
			}
			if strings.HasSuffix(less.permission, "STREAM.INFO.LOCKAGENT") {
				if _, err := r.State(waittest.Context(t)); !errors.Is(err, ErrNotPermitted) {
					t.Errorf("the state: %v", err)
				}
			}
		})
	}
}

// wantLeaderNamed has a reader ask whether nothing follows, which only the leader of a stream knows. The error names
// the permission for that, if the reader lacks it.
func wantLeaderNamed(t *testing.T, r *Reader, lacks string) {
	t.Helper()
	var none []uint64
	err := r.Replay(waittest.Context(t), From{}, events.Filter{Lock: "orders/7"}, seqs(&none, 0))
	missing, ok := errors.AsType[*PermissionError](err)
	switch want := strings.HasSuffix(lacks, "MSG.GET.LOCKAGENT"); {
	case !want && err != nil, want && (!ok || missing.Subject != lacks), len(none) > 0:
		t.Errorf("without %s: read %v, %v", lacks, none, err)
	}
}

// rooted is a configuration with one more user, who may do everything.
func rooted(conf string) string {
	return strings.Replace(conf, "users: [", "users: [ { user: root, password: $OPERATOR_PASSWORD }", 1)
}
