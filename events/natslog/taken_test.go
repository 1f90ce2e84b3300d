package natslog

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/internal/eventstest"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	"github.com/lockagent/lockagent/internal/waittest"
)

// taker makes a stream that has all subjects of ours.
func taker(t *testing.T, js jetstream.JetStream, name string, subjects ...string) {
	t.Helper()
	if _, err := js.CreateStream(waittest.Context(t), jetstream.StreamConfig{Name: name, Subjects: subjects}); err != nil {
		t.Fatal(err)
	}
}

// wantTaken fails the test unless err says that our stream cannot be made, who has its subjects, and what to do.
func wantTaken(t *testing.T, err error, has string) {
	t.Helper()
	flaw, ok := errors.AsType[*StreamError](err)
	if want := "it cannot be made, because " + has + " subjects of " + events.AllSubjects; !ok || flaw.Setting != want ||
		!strings.HasPrefix(flaw.Mend, "configure that stream") {
		t.Errorf("got %v, want %s", err, want)
	}
}

// A stream that can never be made is noticed by everybody who would make it, and by those who only look.
func TestAnotherStreamHasOurSubjects(t *testing.T) {
	t.Parallel()
	c := Connection{InProcess: natstest.Start(t, natsserver.Config{}), Logger: testLogger(t)}
	js := client(t, c)
	taker(t, js, "OTHERS", "lockagent.*.a.>")
	taker(t, js, "MORE", "lockagent.v1.b.>")
	taker(t, js, "NONE", "orders.>")
	const both = `streams "MORE" and "OTHERS" have`

	e, err := Examine(waittest.Context(t), ReaderConfig{Connection: c})
	if err != nil || e.Found || e.Unusable != nil || e.Unknown != nil {
		t.Fatalf("got %+v, %v", e, err)
	}
	wantTaken(t, e.Flaw, both)

	p := newPublisher(t, Config{Connection: c})
	p.Record(t.Context(), requested(0))
	waittest.Until(t, "the publisher knows why", func() bool { return p.Stats().Err != nil })
	wantTaken(t, p.Stats().Err, both)

	ends := newEnds(t)
	streamFor(t, ends.source, nil)
	f := forward(t, ends.from, c)
	waittest.Until(t, "the forwarder knows why", func() bool { return f.Stats().Err != nil })
	wantTaken(t, f.Stats().Err, both)

	for _, name := range []string{"OTHERS", "MORE"} {
		if err := js.DeleteStream(waittest.Context(t), name); err != nil {
			t.Fatal(err)
		}
	}
	flushed(t, p)
	if e, err = Examine(waittest.Context(t), ReaderConfig{Connection: c}); err != nil || !e.Found || e.Flaw != nil {
		t.Errorf("got %+v, %v", e, err)
	}
}

// A stream that lacks subjects cannot be mended as long as another one has them.
func TestAnotherStreamHasTheRestOfOurSubjects(t *testing.T) {
	t.Parallel()
	c := Connection{InProcess: natstest.Start(t, natsserver.Config{}), Logger: testLogger(t)}
	js := client(t, c)
	taker(t, js, DefaultStream, "lockagent.v1.a.>")
	taker(t, js, "OTHERS", "lockagent.v1."+string(eventstest.Agent)+".>")
	e, err := Examine(waittest.Context(t), ReaderConfig{Connection: c})
	if err != nil {
		t.Fatal(err)
	}
	p := newPublisher(t, Config{Connection: c})
	p.Record(t.Context(), requested(0))
	waittest.Until(t, "the publisher knows why", func() bool { return p.Stats().Err != nil })
	for who, err := range map[string]error{"who looks": e.Flaw, "the publisher": p.Stats().Err} {
		flaw, ok := errors.AsType[*StreamError](err)
		if !ok || !strings.HasSuffix(flaw.Setting, `, which stream "OTHERS" has`) ||
			!strings.HasPrefix(flaw.Mend, "take them from there, and then nats stream edit LOCKAGENT ") {
			t.Errorf("%s: got %v", who, err)
		}
	}
}

// Who may not ask for the names of streams knows that another one has the subjects, and not which.
func TestAnotherStreamMayNotBeNamed(t *testing.T) {
	t.Parallel()
	s := natstest.StartSecured(t, `jetstream: enabled, accounts: { a: { jetstream: enabled, users: [
		{ user: root, password: secret },
		{ user: joe, password: secret, permissions: { publish: { allow: ">", deny: "$JS.API.STREAM.NAMES" } } },
	] } }`)
	as := func(user string) Connection {
		return Connection{URL: s.URL(), User: user, PasswordFile: natstest.File(t, "secret"), Logger: testLogger(t)}
	}
	e, err := Examine(waittest.Context(t), ReaderConfig{Connection: as("joe")})
	if err != nil || e.Found || e.Flaw != nil || !errors.Is(e.Unknown, ErrNotPermitted) {
		t.Errorf("got %+v, %v", e, err)
	}
	taker(t, client(t, as("root")), "OTHERS", events.AllSubjects)
	p := newPublisher(t, Config{Connection: as("joe")})
	p.Record(t.Context(), requested(0))
	waittest.Until(t, "the publisher knows why", func() bool { return p.Stats().Err != nil })
	wantTaken(t, p.Stats().Err, "another stream has")
	ends := newEnds(t)
	streamFor(t, ends.source, nil)
	f := forward(t, ends.from, as("joe"))
	waittest.Until(t, "the forwarder knows why", func() bool { return f.Stats().Err != nil })
	wantTaken(t, f.Stats().Err, "another stream has")
}

// A NATS without JetStream answers, and has no log: all say so, and what to do.
func TestNoJetStream(t *testing.T) {
	t.Parallel()
	const joe = `{ user: joe, password: secret }`
	for name, conf := range map[string]string{
		"InTheServer": `accounts: { a: { users: [` + joe + `] } }`,
		"ForTheAccount": `jetstream: enabled, accounts: { b: { jetstream: enabled, users: [{ user: root, password: secret }] }
			a: { users: [` + joe + `] } }`,
		"InTheDomain": `jetstream: { domain: hub }, accounts: { a: { jetstream: enabled, users: [` + joe + `] } }`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := Connection{
				URL: natstest.StartSecured(t, conf).URL(), User: "joe", PasswordFile: natstest.File(t, "secret"),
				Logger: testLogger(t),
			}
			if name == "InTheDomain" {
				c.Domain = "elsewhere"
			}
			want := func(who string, err error) {
				t.Helper()
				if !errors.Is(err, ErrNoJetStream) ||
					!strings.Contains(err.Error(), `write "jetstream: enabled" in the configuration`) {
					t.Errorf("%s: got %v", who, err)
				}
			}
			p := newPublisher(t, Config{Connection: c})
			p.Record(t.Context(), requested(0))
			waittest.Until(t, "the publisher knows why", func() bool { return p.Stats().Err != nil })
			want("the publisher", p.Stats().Err)
			r := newReader(t, c)
			want("who reads", r.Replay(waittest.Context(t), From{}, events.Filter{}, seqs(new([]uint64), 0)))
			want("who follows", r.Tail(waittest.Context(t), From{}, events.Filter{}, seqs(new([]uint64), 0)))
			_, err := r.State(waittest.Context(t))
			want("who asks for the state", err)
			_, err = SetLimits(waittest.Context(t), ReaderConfig{Connection: c}, Limits{})
			want("who sets limits", err)
			e, err := Examine(waittest.Context(t), ReaderConfig{Connection: c})
			if err != nil {
				t.Fatal(err)
			}
			want("who examines it", e.Unusable)
			ends := newEnds(t)
			streamFor(t, ends.source, nil)
			f := forward(t, ends.from, c)
			waittest.Until(t, "the forwarder knows why", func() bool { return f.Stats().Err != nil })
			want("the forwarder", f.Stats().Err)
		})
	}
}
