package main

import (
	"database/sql"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newService returns what makes a request to charge order 42, beside the locks and the database
// that serve it.
func newService(t *testing.T, store channelapi.Store) (post func() int, locks *channelapi.Locks, db *sql.DB) {
	t.Helper()
	locks, err := channelapi.New(channelapi.Config{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	db = sql.OpenDB(&table{})
	t.Cleanup(func() {
		_ = locks.Close()
		_ = db.Close()
	})
	service := handler(locks, db)
	return func() int {
		w := httptest.NewRecorder()
		service.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/orders/42/charge", nil))
		return w.Code
	}, locks, db
}

func TestOrders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		post, locks, db := newService(t, memstore.New())
		if code := post(); code != http.StatusOK {
			t.Errorf("status %d, want 200", code)
		}

		old, err := locks.Lock("orders/42", channelapi.Lease(time.Minute)).Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if code := post(); code != http.StatusConflict || time.Since(start) != 2*time.Second {
			t.Errorf("status %d after %v while it is held, want 409 after 2s", code, time.Since(start))
		}

		<-old.Done() // but its holder does not look
		if code := post(); code != http.StatusOK {
			t.Errorf("status %d when the lease was over, want 200", code)
		}
		if err := charge(t.Context(), db, "42", old.Token()); !errors.Is(err, errOldToken) {
			t.Errorf("a late write: %v, want %v", err, errOldToken)
		}
	})
}

// Nobody can tell who holds the lock, and nobody waits for longer than for a lock that is held.
func TestOrdersWithoutTheStore(t *testing.T) {
	for name, fault := range map[string]func(*memstore.Store) (end func()){
		"Down": func(s *memstore.Store) func() {
			s.SetOutage(errors.New("connection refused"))
			return func() { s.SetOutage(nil) }
		},
		"Slow": (*memstore.Store).Hang,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				post, _, _ := newService(t, store)
				end := fault(store)
				start := time.Now()
				if code := post(); code != http.StatusServiceUnavailable || time.Since(start) > 2*time.Second {
					t.Errorf("status %d after %v, want 503 within 2s", code, time.Since(start))
				}
				end()
				if code := post(); code != http.StatusOK {
					t.Errorf("status %d when the store is back, want 200", code)
				}
			})
		})
	}
}

func TestDatabaseFails(t *testing.T) {
	post, _, db := newService(t, memstore.New())
	_ = db.Close()
	if code := post(); code != http.StatusInternalServerError {
		t.Errorf("status %d without a database, want 500", code)
	}
}
