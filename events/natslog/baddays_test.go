package natslog

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/audit"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	"github.com/lockagent/lockagent/internal/waittest"
)

// TestServerIsNoNATS has something at the address that accepts connections and never says anything.
// Later there is a server.
func TestServerIsNoNATS(t *testing.T) {
	t.Parallel()
	server := newProcess(t)
	mute, err := net.Listen("tcp", server.settings["ADDR"])
	if err != nil {
		t.Fatal(err)
	}
	var accepting sync.WaitGroup
	var conns []net.Conn
	accepting.Go(func() {
		for {
			c, err := mute.Accept()
			if err != nil {
				return
			}
			conns = append(conns, c)
		}
	})
	hangUp := sync.OnceFunc(func() {
		_ = mute.Close()
		accepting.Wait()
		for _, c := range conns {
			_ = c.Close()
		}
	})
	defer hangUp()

	var log heard
	c := Connection{URL: server.url, Logger: log.logger()}
	p := newPublisher(t, Config{Connection: c})
	other := newPublisher(t, Config{Connection: c, Agent: "other"})
	for n := range 100 { // while it waits for an answer
		p.Record(t.Context(), requested(n))
		other.Record(t.Context(), requested(n))
	}
	for _, p := range []*Publisher{p, other} {
		waittest.Until(t, "the publisher knows why", func() bool {
			timeout, ok := errors.AsType[net.Error](p.Stats().Err)
			return ok && timeout.Timeout()
		})
	}
	waittest.Until(t, "it says why", func() bool { return strings.Contains(log.String(), "timeout") })
	wantStats(t, p, Stats{Recorded: 100, Queued: 100})
	done, cancel := contextEnded()
	defer cancel()
	if dropped, ok := errors.AsType[*DroppedError](other.Close(done)); !ok || dropped.Unconfirmed != 100 ||
		dropped.Cause == nil {
		t.Errorf("close: %v", dropped)
	}

	hangUp()
	server.start()
	flushed(t, p)
	wantEverything(t, c, 100)
}

// TestPermissionWithdrawn has an operator take away a permission from an agent that publishes, and
// give it back.
func TestPermissionWithdrawn(t *testing.T) {
	t.Parallel()
	conf := documented(t, "conf")
	for name, test := range map[string]struct{ permission, operation, subject string }{
		"Publish": {`"lockagent.v1.agent-1.>"`, "publish", "lockagent.v1.agent-1.lock.orders.42"},
		"Look":    {`"$JS.API.STREAM.INFO.LOCKAGENT"`, "publish", "$JS.API.STREAM.INFO.LOCKAGENT"},
		"Listen":  {`"_INBOX.>"`, "subscribe", "_INBOX."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			var l link
			// The server forgets who was permitted what, and closes the connections of those that this touches.
			configure := func(conf string) *natsserver.Server {
				l.use(nil)
				s := natstest.Start(t, natsserver.Config{Dir: dir, ConfigFile: natstest.File(t, conf), Listen: "127.0.0.1:0"})
				l.use(s)
				return s
			}
			stop := func(s *natsserver.Server) {
				if err := s.Stop(); err != nil {
					t.Fatal(err)
				}
			}
			s := configure(conf)
			if _, err := client(t, asUser(t, s, "operator")).CreateStream(waittest.Context(t), documentedStream(t)); err != nil {
				t.Fatal(err)
			}
			var log heard
			c := asUser(t, s, "agent-1")
			c.URL, c.InProcess, c.Logger = "", &l, log.logger()
			p := newPublisher(t, Config{Connection: c, Agent: "agent-1"})
			p.Record(t.Context(), requested(0))
			flushed(t, p)

			stop(s)
			s = configure(strings.Replace(conf, test.permission, `"nothing"`, 1))
			for n := range 100 {
				p.Record(t.Context(), requested(1+n))
			}
			waittest.Until(t, "the publisher knows why", func() bool {
				missing, ok := errors.AsType[*PermissionError](p.Stats().Err)
				return ok && missing.Operation == test.operation && strings.HasPrefix(missing.Subject, test.subject)
			})
			waittest.Until(t, "it says why", func() bool { return strings.Contains(log.String(), "events wait in the queue") })
			wantStats(t, p, Stats{Recorded: 101, Published: 1, Queued: 100})

			stop(s)
			s = configure(conf)
			flushed(t, p)
			if err := p.Close(waittest.Context(t)); err != nil {
				t.Error(err)
			}
			reader := asUser(t, s, "auditor")
			all, report := replayed(t, reader, "")
			if len(all) != 101 || report.Verdict != audit.Proven {
				t.Errorf("%d records:\n%v", len(all), report)
			}
			wantOnce(t, all, 101)
		})
	}
}

// TestSmallAccount has an account with less room than a new stream shall have, or than its events need. Then an
// operator gives it more.
func TestSmallAccount(t *testing.T) {
	t.Parallel()
	const conf = `accounts: { A: { jetstream: { max_file: %d, max_mem: 0 }, users: [ { user: joe, password: secret } ] } }`
	for name, test := range map[string]struct {
		maxBytes, account int64
		says              string
	}{
		"NewStream": {0, 200_000, "it shall have 1073741824 bytes"},
		"Events":    {-1, 200_000, "the account has no room left for stream"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, password := t.TempDir(), natstest.File(t, "secret")
			var l link
			start := func(bytes int64) *natsserver.Server {
				s := natstest.Start(t, natsserver.Config{
					Dir: dir, ConfigFile: natstest.File(t, fmt.Sprintf(conf, bytes)), MaxBytes: 4 << 30,
				})
				l.use(s)
				return s
			}
			s := start(test.account)
			var log heard
			c := Connection{InProcess: &l, User: "joe", PasswordFile: password, Logger: log.logger()}
			p := newPublisher(t, Config{Connection: c, MaxBytes: test.maxBytes})
			const events = 3000
			for n := range events {
				p.Record(t.Context(), requested(n))
			}
			waittest.Until(t, "the publisher knows why", func() bool {
				err := p.Stats().Err
				return err != nil && strings.Contains(err.Error(), test.says)
			})
			waittest.Until(t, "it says why", func() bool { return log.count(test.says) == 1 })
			if got := p.Stats(); got.Queued == 0 || got.Dropped > 0 {
				t.Errorf("got %+v", got)
			}
			l.use(nil)
			if err := s.Stop(); err != nil {
				t.Fatal(err)
			}
			start(2 << 30)
			flushed(t, p)
			wantOnce(t, written(t, c, ""), events)
		})
	}
}

// TestSlowReader has a reader stop in the middle of the log. The publisher does not notice. The
// reader goes on where it was, and what the stream has removed in the meantime is a hole for an audit.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	for name, keeps := range map[string]int64{"KeepsAll": -1, "Forgets": 100} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := Connection{InProcess: natstest.Start(t, natsserver.Config{})}
			if _, err := client(t, c).CreateStream(waittest.Context(t), jetstream.StreamConfig{
				Name: DefaultStream, Subjects: []string{events.AllSubjects}, MaxMsgs: keeps,
			}); err != nil {
				t.Fatal(err)
			}
			const many = prefetch + 2000 // more messages than are under way to a reader
			p := newPublisher(t, Config{Connection: c})
			record := func(from, to int) {
				for n := from; n < to; n++ {
					e := requested(n)
					e.Lock = lockagent.Name(fmt.Sprint("orders/", n))
					p.Record(t.Context(), e)
				}
				flushed(t, p)
			}
			record(0, 1)

			r := newReader(t, c)
			stopped, goOn, end := make(chan signal), make(chan signal), make(chan error, 1)
			auditor := newLogAudit(t)
			read, last, holes := 0, uint64(0), 0
			go func() {
				end <- r.Tail(waittest.Context(t), From{}, events.Filter{}, func(r *events.Record, err error) error {
					if err := auditor.Visit(r, err); err != nil {
						return err
					}
					if read++; read == 1 {
						close(stopped)
						<-goOn
					}
					switch {
					case r.Seq <= last:
						return fmt.Errorf("record %d after %d", r.Seq, last)
					case r.Seq > last+1:
						holes++
					}
					if last = r.Seq; last == many {
						return errEnough
					}
					return nil
				})
			}()
			<-stopped
			record(1, many)
			wantStats(t, p, Stats{Recorded: many, Published: many})
			close(goOn)
			if err := <-end; !errors.Is(err, errEnough) {
				t.Fatal(err)
			}
			report := auditor.Report()
			if report.RecordHoles.Count != holes || (holes > 0) != (keeps > 0) || (read < many) != (keeps > 0) {
				t.Errorf("%d records were read, with %d holes; the audit names %d", read, holes, report.RecordHoles.Count)
			}
			if want := map[bool]audit.Verdict{true: audit.Incomplete, false: audit.Proven}[holes > 0]; report.Verdict != want {
				t.Errorf("the verdict is %v, want %v", report.Verdict, want)
			}
		})
	}
}
