package redisstore_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
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
