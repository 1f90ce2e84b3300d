package natslog

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/internal/eventstest"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	"github.com/lockagent/lockagent/internal/waittest"
)

// entrance is a way into a server, and one that the server refuses.
type entrance struct {
	conf         string
	right, wrong Connection
}

const jetstreamConf = "accounts: { LOCKS: { jetstream: enabled, users: [ %s ] } }\n"

func usersConf(user string) string { return fmt.Sprintf(jetstreamConf, user) }

func entrances(t *testing.T) map[string]entrance {
	file := func(text string) string { return natstest.File(t, text) }
	public, seed := natstest.NewNkey(t)
	_, otherSeed := natstest.NewNkey(t)
	operator, stranger := natstest.NewOperator(t), natstest.NewOperator(t)
	later := time.Now().Add(time.Hour)
	user := usersConf(`{ user: joe, password: "s3cr3t-words" }`)
	return map[string]entrance{
		"User": {
			user,
			Connection{User: "joe", PasswordFile: file("s3cr3t-words\n")},
			Connection{User: "joe", PasswordFile: file("wrong-words")},
		},
		"UserFile": {
			user,
			Connection{UserFile: file("joe\n"), PasswordFile: file("s3cr3t-words")},
			Connection{UserFile: file("jim\n"), PasswordFile: file("s3cr3t-words")},
		},
		"TokenFile": {
			"authorization: { token: s3cr3t-words }",
			Connection{TokenFile: file("s3cr3t-words\n")},
			Connection{TokenFile: file("wrong-words\n")},
		},
		"Nkey": {
			usersConf("{ nkey: " + public + " }"),
			Connection{Nkey: seed},
			Connection{Nkey: otherSeed},
		},
		"Creds": {
			operator.Conf,
			Connection{Creds: file(operator.Creds(t, later))},
			Connection{Creds: file(stranger.Creds(t, later))},
		},
		"ExpiredCreds": {
			operator.Conf,
			Connection{Creds: file(operator.Creds(t, later))},
			Connection{Creds: file(operator.Creds(t, time.Now().Add(-time.Hour)))},
		},
		"NoCredentials": {
			user,
			Connection{User: "joe", PasswordFile: file("s3cr3t-words\n")},
			Connection{},
		},
	}
}

// goesThrough fails the test unless a publisher, a reader and a program's own client work over c.
func goesThrough(t *testing.T, c Connection) {
	t.Helper()
	p := newPublisher(t, Config{Connection: c})
	p.Record(t.Context(), requested(1))
	flushed(t, p)
	var got []uint64
	if err := newReader(t, c).Replay(waittest.Context(t), From{}, events.Filter{}, seqs(&got, 0)); err != nil ||
		len(got) != 1 {
		t.Errorf("read %v, %v", got, err)
	}
	stream, err := client(t, c).Stream(waittest.Context(t), DefaultStream)
	if err != nil {
		t.Fatal(err)
	}
	if m, err := stream.GetLastMsgForSubject(waittest.Context(t), events.AllSubjects); err != nil || m.Sequence != 1 {
		t.Errorf("the client got %v, %v", m, err)
	}
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	for name, e := range entrances(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := natstest.StartSecured(t, e.conf).URL()
			e.right.URL, e.wrong.URL = url, url
			goesThrough(t, e.right)

			p := newPublisher(t, Config{Connection: e.wrong})
			p.Record(t.Context(), requested(1))
			waittest.Until(
				t, "the publisher says that it is refused", func() bool { return errors.Is(p.Stats().Err, ErrNotPermitted) },
			)
			e.wrong.Logger = testLogger(t)
			if r, err := OpenReader(ReaderConfig{Connection: e.wrong}); !errors.Is(err, ErrNotPermitted) {
				t.Errorf("the reader got %v, %v", r, err)
			}
			if nc, err := Connect(e.wrong); !errors.Is(err, ErrNotPermitted) {
				t.Errorf("the client got %v, %v", nc, err)
			}
		})
	}
}

// TestCredentialsAreRotated puts the right secret in place while a publisher tries with
// another.
func TestCredentialsAreRotated(t *testing.T) {
	t.Parallel()
	for name, e := range entrances(t) {
		if name == "Nkey" || name == "NoCredentials" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := natstest.StartSecured(t, e.conf).URL()
			e.right.URL, e.wrong.URL = url, url
			var log heard
			e.wrong.Logger = log.everything()
			p := newPublisher(t, Config{Connection: e.wrong})
			p.Record(t.Context(), requested(1))
			waittest.Until(t, "the publisher is refused", func() bool { return errors.Is(p.Stats().Err, ErrNotPermitted) })
			from, to := e.right.secrets(), e.wrong.secrets()
			for _, path := range to {
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			}
			waittest.Until(t, "the log says that a file is missing", func() bool { return log.count("no such file") > 0 })
			for i := range from {
				if err := os.Link(from[i], to[i]); err != nil {
					t.Fatal(err)
				}
			}
			flushed(t, p)
			if text := log.String(); strings.Contains(text, "-words") || strings.Contains(text, "eyJ") ||
				strings.Contains(text, "SUA") {
				t.Errorf("it tells a secret: %s", text)
			}
		})
	}
}

// secrets are the files that say who we are.
func (c *Connection) secrets() (paths []string) {
	for _, path := range []string{c.Creds, c.UserFile, c.PasswordFile, c.TokenFile} {
		if path != "" {
			paths = append(paths, path)
		}
	}
	return paths
}

func TestTLS(t *testing.T) {
	t.Parallel()
	certs, others := natstest.NewCerts(t), natstest.NewCerts(t)
	conf := fmt.Sprintf(
		"tls: { cert_file: %q, key_file: %q, ca_file: %q, verify: true }", certs.ServerCert, certs.ServerKey, certs.CA,
	)
	first := strings.Replace(conf, "verify: true", "verify: true, handshake_first: true", 1)
	good := Connection{CA: certs.CA, Cert: certs.ClientCert, Key: certs.ClientKey}
	with := func(change func(*Connection)) Connection {
		c := good
		change(&c)
		return c
	}
	for name, test := range map[string]struct {
		conf string
		c    Connection
		want string // in the error, or empty if it goes through
	}{
		"OK":              {conf, good, ""},
		"CertAndKey":      {conf, with(func(c *Connection) { c.Cert, c.Key = certs.ClientBoth, "" }), ""},
		"ServerName":      {conf, with(func(c *Connection) { c.ServerName = "nats.test" }), ""},
		"WrongServerName": {conf, with(func(c *Connection) { c.ServerName = "else.test" }), "else.test"},
		"WrongCA":         {conf, with(func(c *Connection) { c.CA = others.CA }), "unknown authority"},
		"NoCA":            {conf, with(func(c *Connection) { c.CA = "" }), "unknown authority"},
		"TLSFirst":        {first, with(func(c *Connection) { c.TLSFirst = true }), ""},
		"NoTLSThere":      {"", good, "secure connection not available"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.c.URL = strings.Replace(natstest.StartSecured(t, test.conf).URL(), "tls://", "nats://", 1)
			if test.want == "" {
				goesThrough(t, test.c)
				return
			}
			p := newPublisher(t, Config{Connection: test.c})
			p.Record(t.Context(), requested(1))
			waittest.Until(t, "the publisher says why", func() bool {
				err := p.Stats().Err
				return err != nil && strings.Contains(err.Error(), test.want)
			})
			test.c.Logger = testLogger(t)
			if r, err := OpenReader(ReaderConfig{Connection: test.c}); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("the reader got %v, %v", r, err)
			}
			if nc, err := Connect(test.c); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("the client got %v, %v", nc, err)
			}
		})
	}

	for name, c := range map[string]Connection{
		"NoClientCert":    with(func(c *Connection) { c.Cert, c.Key = "", "" }),
		"WrongClientCert": with(func(c *Connection) { c.Cert, c.Key = others.ClientCert, others.ClientKey }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.URL = natstest.StartSecured(t, conf).URL()
			p := newPublisher(t, Config{Connection: c})
			p.Record(t.Context(), requested(1))
			// The server closes the connection with its reason. The reason is lost at
			// times, so it is not there at each attempt.
			waittest.Until(
				t, "the publisher says that it is refused", func() bool { return errors.Is(p.Stats().Err, ErrNotPermitted) },
			)
		})
	}
}

func TestSeveralServers(t *testing.T) {
	t.Parallel()
	gone := natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"})
	if err := gone.Stop(); err != nil {
		t.Fatal(err)
	}
	there := natstest.StartSecured(t, usersConf(`{ user: joe, password: "s3cr3t-words" }`))
	goesThrough(t, Connection{
		URL:  gone.URL() + ", " + there.URL(),
		User: "joe", PasswordFile: natstest.File(t, "s3cr3t-words"),
	})
}

func TestDomain(t *testing.T) {
	t.Parallel()
	url := natstest.StartSecured(t, "jetstream: { domain: hub }").URL()
	goesThrough(t, Connection{URL: url, Domain: "hub"})
	if _, err := client(t, Connection{URL: url, Domain: "other"}).Stream(
		waittest.Context(t), DefaultStream,
	); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("another domain: %v", err)
	}
}

// TestCredentialsInProcess: a server in this process may know users too.
func TestCredentialsInProcess(t *testing.T) {
	t.Parallel()
	s := natstest.StartSecured(t, usersConf(`{ user: joe, password: "s3cr3t-words" }`))
	goesThrough(t, Connection{InProcess: s, User: "joe", PasswordFile: natstest.File(t, "s3cr3t-words")})
}

// TestConnectionOfAProgram: it has the options that the program adds, and comes back when it was
// interrupted.
func TestConnectionOfAProgram(t *testing.T) {
	t.Parallel()
	server := natstest.StartSecured(
		t, usersConf(`{ user: joe, password: "s3cr3t-words", permissions: { publish: "ours" } }`),
	)
	var l link
	var log heard
	l.use(server)
	nc := connected(t, Connection{
		InProcess: &l, User: "joe", PasswordFile: natstest.File(t, "s3cr3t-words"), Logger: log.logger(),
	}, nats.Name("billing"))
	if nc.Opts.Name != "billing" {
		t.Errorf("its name is %q", nc.Opts.Name)
	}
	if err := nc.Publish("theirs", nil); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "its log says what it may not do", func() bool {
		return strings.Contains(log.String(), `NATS does not permit the user to publish to \"theirs\"`)
	})

	l.use(nil)
	l.cut()
	waittest.Until(t, "nothing is taken without a connection", func() bool {
		return errors.Is(nc.Publish("ours", nil), nats.ErrReconnectBufExceeded)
	})
	l.use(server)
	waittest.Until(t, "it is back", func() bool { return nc.Publish("ours", nil) == nil && nc.Flush() == nil })
}

// A program that wants to hear of nothing is told of nothing.
func TestConnectionWithoutHandlers(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, natsserver.Config{})
	var l link
	l.use(server)
	nc := connected(t, Connection{InProcess: &l}, nats.ErrorHandler(nil), nats.ReconnectErrHandler(nil))
	l.use(nil)
	l.cut()
	waittest.Until(t, "it is interrupted", nc.IsReconnecting)
	l.lie("this is no NATS server\r\n")
	l.use(server)
	waittest.Until(t, "it is back", func() bool { return nc.Flush() == nil })
}

// TestBadConnection: nothing listens at the address, so each error comes before any
// connection is tried.
func TestBadConnection(t *testing.T) {
	t.Parallel()
	const url, secret = "nats://127.0.0.1:1", "s3cr3t-words"
	file := func(text string) string { return natstest.File(t, text) }
	certs := natstest.NewCerts(t)
	_, seed := natstest.NewNkey(t)
	password, missing := file(secret), filepath.Join(t.TempDir(), "missing")
	creds := natstest.NewOperator(t).Creds(t, time.Now().Add(time.Hour))
	jwtOnly, _, _ := strings.Cut(creds, "-----BEGIN USER NKEY SEED")
	for name, test := range map[string]struct {
		c      Connection
		option string
		want   string
	}{
		"MissingCreds":    {Connection{URL: url, Creds: missing}, "Creds", "no such file"},
		"MissingPassword": {Connection{URL: url, User: "joe", PasswordFile: missing}, "PasswordFile", "no such file"},
		"MissingToken":    {Connection{URL: url, TokenFile: missing}, "TokenFile", "no such file"},
		"MissingCA":       {Connection{URL: url, CA: missing}, "CA", "no such file"},
		"MissingCert":     {Connection{URL: url, Cert: missing}, "Cert", "no such file"},
		"MissingKey":      {Connection{URL: url, Cert: certs.ClientCert, Key: missing}, "Cert", "no such file"},
		"DirectoryAsNkey": {Connection{URL: url, Nkey: t.TempDir()}, "Nkey", "is a directory"},
		"PasswordAsCreds": {Connection{URL: url, Creds: password}, "Creds", "has no JWT"},
		"NkeyAsCreds":     {Connection{URL: url, Creds: seed}, "Creds", "has no JWT"},
		"JWTWithoutSeed":  {Connection{URL: url, Creds: file(jwtOnly)}, "Creds", "no nkey seed"},
		"PasswordAsNkey":  {Connection{URL: url, Nkey: password}, "Nkey", "no nkey seed"},
		"EmptyPassword":   {Connection{URL: url, User: "joe", PasswordFile: file("\n")}, "PasswordFile", "is empty"},
		"TwoTokens": {
			Connection{URL: url, TokenFile: file(secret + "\n" + secret)}, "TokenFile", "more than one line",
		},
		"KeyAsCA":        {Connection{URL: url, CA: certs.ClientKey}, "CA", "failed to parse"},
		"KeyAsCert":      {Connection{URL: url, Cert: certs.ClientKey, Key: certs.ClientKey}, "Cert", "failed to find"},
		"KeyOfAnother":   {Connection{URL: url, Cert: certs.ClientCert, Key: certs.ServerKey}, "Cert", "does not match"},
		"CertWithoutKey": {Connection{URL: url, Cert: certs.ClientCert}, "Cert", "error loading client certificate"},
		"KeyWithoutCert": {Connection{URL: url, Key: certs.ClientKey}, "Key", "set Cert too"},
		"CredsAndNkey":   {Connection{URL: url, Creds: file(creds), Nkey: seed}, "Nkey", "Creds says already who we are"},
		"TokenAndUser": {
			Connection{URL: url, User: "joe", PasswordFile: password, TokenFile: password},
			"TokenFile",
			"PasswordFile says already",
		},
		"URLAndPassword": {
			Connection{URL: "nats://joe:" + secret + "@127.0.0.1:1", PasswordFile: password},
			"PasswordFile",
			"URL says already who we are",
		},
		"URLAndToken": {
			Connection{URL: "nats://" + secret + "@127.0.0.1:1", TokenFile: password},
			"TokenFile",
			"URL says already who we are",
		},
		"UserTwice": {
			Connection{URL: url, User: "joe", UserFile: password, PasswordFile: password},
			"UserFile",
			"leave one of the two out",
		},
		"NoPassword":        {Connection{URL: url, User: "joe"}, "User", "set PasswordFile too"},
		"NoUser":            {Connection{URL: url, PasswordFile: password}, "PasswordFile", "set User or UserFile too"},
		"DomainOfTwoTokens": {Connection{URL: url, Domain: "a.b"}, "Domain", "letters"},
		"InboxOfAll":        {Connection{URL: url, InboxPrefix: "a.>"}, "InboxPrefix", "letters"},
		"TLSInProcess":      {Connection{InProcess: &link{}, CA: certs.CA}, "CA", "without TLS"},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			test.c.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			_, err := OpenReader(ReaderConfig{Connection: test.c})
			bad, ok := errors.AsType[*lockagent.OptionError](err)
			if !ok || bad.Option != test.option || !strings.Contains(bad.Reason, test.want) {
				t.Errorf("got %v, want %s: %s", err, test.option, test.want)
			}
			if nc, alone := Connect(test.c); alone == nil || alone.Error() != err.Error() {
				t.Errorf("the client got %v, %v, want %v", nc, alone, err)
			}
			if _, err := NewPublisher(
				Config{Connection: test.c, Agent: eventstest.Agent},
			); !errors.Is(err, lockagent.ErrBadOption) {
				t.Errorf("the publisher got %v", err)
			}
			said := fmt.Sprint(err) + log.String()
			for _, secret := range []string{secret, "eyJ", "SUA"} {
				if strings.Contains(said, secret) {
					t.Errorf("it tells a secret: %s", said)
				}
			}
		})
	}
}
