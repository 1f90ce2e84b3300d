package redisstore_test

import (
	"context"
	"crypto/tls"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/inperson"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/redisstore"
	"github.com/lockagent/lockagent/storetest"
)

// safe is where a program keeps the password that it has at present.
type safe struct {
	password atomic.Pointer[string]
	broken   atomic.Pointer[error]
}

func (s *safe) put(password string) { s.password.Store(&password) }

func (s *safe) open(context.Context) (user, password string, err error) {
	if err := s.broken.Load(); err != nil {
		return "", "", *err
	}
	return "app", *s.password.Load(), nil
}

// change gives the user another password at the servers, which cut all connections.
func change(password string, servers ...*redistest.Server) {
	for _, server := range servers {
		server.Do("ACL", "SETUSER", "app", "resetpass", ">"+password)
		server.Do("CLIENT", "KILL", "TYPE", "normal")
		server.Do("CLIENT", "KILL", "TYPE", "pubsub")
	}
}

// The store asks for the password at each connection. As long as that is wrong, no call ends with a definite error.
func TestCredentialsThatChange(t *testing.T) {
	t.Parallel()
	user := redistest.WithUser("app", "first", "~* &* +@all")
	t.Run("OneServer", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t, user)
		credentialsChange(t, redisstore.Config{}, "redis://user:wrong@"+server.Addr(), server)
	})
	t.Run("Cluster", func(t *testing.T) {
		t.Parallel()
		cluster := redistest.StartCluster(t, 3, user)
		credentialsChange(t, redisstore.Config{}, cluster.URL(), cluster.Nodes...)
	})
	t.Run("Sentinels", func(t *testing.T) {
		t.Parallel()
		sentinel := redistest.StartSentinel(t, user)
		credentialsChange(t, patient, sentinel.URL(), sentinel.A)
	})
}

func credentialsChange(t *testing.T, config redisstore.Config, url string, servers ...*redistest.Server) {
	var of safe
	of.put("wrong")
	config.Credentials = of.open
	refused(t, config, url, lockagent.ErrNotPermitted, "WRONGPASS")
	of.put("first")
	store := openConfig(t, config, url)
	sub := storetest.Subscribe(t, store, "orders")
	wakes(t, sub, store, "orders")

	change("second", servers...)
	fails := func(text string, cause error) {
		t.Helper()
		_, err := storetest.Acquire(t, store, wish("orders", agentA, 100))
		if !errors.Is(err, lockagent.ErrStoreUnavailable) || lockagent.Definite(err) {
			t.Errorf("Acquire: %v; want an error that is not definite", err)
		}
		if err != nil && !strings.Contains(err.Error(), text) || cause != nil && !errors.Is(err, cause) {
			t.Errorf("Acquire: %v; want it to say %q", err, text)
		}
	}
	fails("WRONGPASS", nil)
	away := errors.New("the safe is locked")
	of.broken.Store(&away)
	fails("safe is locked", away)
	of.broken.Store(nil)

	of.put("second")
	wakes(t, sub, store, "orders")
}

// badWays are what a function of the application may do in place of an answer. Who hangs goes on when the channel is
// closed.
var badWays = map[string]func(goOn <-chan struct{}){
	"panics":             func(<-chan struct{}) { panic("boom") },
	"ends its goroutine": func(<-chan struct{}) { runtime.Goexit() },
	"hangs":              func(goOn <-chan struct{}) { <-goOn },
}

// application has a function that works at first, and misbehaves from some moment on.
type application struct {
	bad    atomic.Pointer[func(<-chan struct{})]
	goOn   chan struct{}
	called chan struct{} // capacity 1: whether it was called since it is bad
}

func newApplication(t *testing.T) *application {
	a := &application{goOn: make(chan struct{}), called: make(chan struct{}, 1)}
	t.Cleanup(func() { close(a.goOn) })
	return a
}

func (a *application) callback() {
	if bad := a.bad.Load(); bad != nil {
		select {
		case a.called <- struct{}{}:
		default:
		}
		(*bad)(a.goOn)
	}
}

// spoils cuts all connections of a store whose application misbehaves from now on.
func (a *application) spoils(server *redistest.Server, bad func(<-chan struct{})) {
	a.bad.Store(&bad)
	server.Do("CLIENT", "KILL", "TYPE", "normal")
	server.Do("CLIENT", "KILL", "TYPE", "pubsub")
}

// outlives checks that calls fail while the application misbehaves, and succeed when it works again.
func (a *application) outlives(t *testing.T, store *redisstore.Store, server *redistest.Server, culprit string) {
	t.Helper()
	contexts := map[string]func(context.Context) context.Context{
		"a lone caller": inperson.Context, "a lane": inperson.Not,
	}
	number := uint64(0)
	try := func(of func(context.Context) context.Context) error {
		number++
		answer := make(chan error, 1)
		done := func(_ lockagent.AcquireReply, err error) { answer <- err }
		go store.Acquire(of(t.Context()), wish("orders", agentA, number), done)
		return await(t, answer)
	}
	for name, bad := range badWays {
		for who, of := range contexts {
			a.spoils(server, bad)
			waittest.Until(t, "a call to need a connection", func() bool {
				err := try(of)
				if err != nil && (!errors.Is(err, lockagent.ErrStoreUnavailable) || lockagent.Definite(err)) {
					t.Errorf("it %s: %s heard %v", name, who, err)
				}
				return err != nil && strings.Contains(err.Error(), culprit)
			})
			a.bad.Store(nil)
			waittest.Until(t, "the connection to be made", func() bool { return try(of) == nil })
		}
	}
}

// A function of the application that does not answer ends the attempt to connect, and nothing else.
func TestCredentialsThatDoNotAnswer(t *testing.T) {
	t.Parallel()
	server, a := redistest.Start(t), newApplication(t)
	config := redisstore.Config{
		CallTimeout: 2 * time.Second,
		Credentials: func(context.Context) (user, password string, err error) {
			a.callback()
			return "", "", nil
		},
	}
	a.outlives(t, openConfig(t, config, server.URL()), server, "Config.Credentials")
}

// So it is with the functions of a tls.Config.
func TestTLSFunctionsThatDoNotAnswer(t *testing.T) {
	t.Parallel()
	server, a := redistest.Start(t, redistest.WithTLS()), newApplication(t)
	config := redisstore.Config{CallTimeout: 2 * time.Second, TLS: server.TLSConfig()}
	config.TLS.VerifyConnection = func(tls.ConnectionState) error {
		a.callback()
		return nil
	}
	a.outlives(t, openConfig(t, config, server.TLSURL()), server, "Config.TLS")
}

// Close waits for no function of the application.
func TestCloseBesideCredentialsThatHang(t *testing.T) {
	t.Parallel()
	server, a := redistest.Start(t), newApplication(t)
	config := redisstore.Config{
		DialTimeout: time.Hour, CallTimeout: time.Hour,
		Credentials: func(context.Context) (user, password string, err error) {
			a.callback()
			return "", "", nil
		},
	}
	store := openConfig(t, config, server.URL())
	acquire(t, store, wish("warm", agentA, 1))
	a.spoils(server, badWays["hangs"])
	answer := make(chan error, 1)
	store.Acquire(t.Context(), wish("orders", agentA, 1), func(_ lockagent.AcquireReply, err error) { answer <- err })
	await(t, a.called)
	closed := make(chan error, 1)
	go func() { closed <- store.Close() }()
	if err := await(t, closed); err != nil {
		t.Error(err)
	}
	if err := await(t, answer); !errors.Is(err, lockagent.ErrClosed) {
		t.Errorf("a call under way ended with %v", err)
	}
}
