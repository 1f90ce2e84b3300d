package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"math"
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
func newService(
	t *testing.T, store channelapi.Store, rows driver.Connector,
) (post func() int, locks *channelapi.Locks, db *sql.DB) {
	t.Helper()
	locks, err := channelapi.New(channelapi.Config{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	db = sql.OpenDB(rows)
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
		post, locks, _ := newService(t, memstore.New(), &table{})
		holder, err := locks.Lock("orders/42", channelapi.Lease(time.Minute)).Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if code := post(); code != http.StatusConflict || time.Since(start) != 2*time.Second {
			t.Errorf("status %d after %v while it is held, want 409 after 2s", code, time.Since(start))
		}
		<-holder.Done()
		if code := post(); code != http.StatusOK {
			t.Errorf("status %d when the lease was over, want 200", code)
		}
		if code := post(); code != http.StatusConflict {
			t.Errorf("status %d when the order was charged, want 409", code)
		}
	})
}

// The order was written with a newer token, and is not charged.
func TestOldToken(t *testing.T) {
	post, _, db := newService(t, memstore.New(), &table{
		orders: map[string]order{"7": {token: 2}, "42": {token: math.MaxInt64}},
	})
	if code := post(); code != http.StatusConflict {
		t.Errorf("status %d with an old token, want 409", code)
	}
	if err := charge(t.Context(), db, "7", 1); !errors.Is(err, errRefused) {
		t.Errorf("a late write: %v, want %v", err, errRefused)
	}
	if err := charge(t.Context(), db, "7", 3); err != nil {
		t.Errorf("a write with the newest token: %v", err)
	}
}

// breaking is a table during whose work an operator breaks the lock.
type breaking struct {
	*table
	lock   func() *channelapi.Lock
	notice bool // the driver gives up when its context ends
}

func (b breaking) Connect(context.Context) (driver.Conn, error) { return b, nil }

func (b breaking) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	_, err := b.lock().Break(context.WithoutCancel(ctx), "")
	<-ctx.Done()
	if b.notice {
		return nil, errors.Join(err, context.Cause(ctx))
	}
	return b.table.ExecContext(ctx, query, args)
}

func TestLockIsBroken(t *testing.T) {
	for what, c := range map[string]struct {
		notice bool
		want   int
	}{
		"and the order is charged":      {false, http.StatusOK},
		"and the database has given up": {true, http.StatusServiceUnavailable},
	} {
		t.Run(what, func(t *testing.T) {
			var locks *channelapi.Locks
			rows := breaking{&table{}, func() *channelapi.Lock { return locks.Lock("orders/42") }, c.notice}
			post, l, _ := newService(t, memstore.New(), rows)
			locks = l
			if code := post(); code != c.want {
				t.Errorf("status %d, want %d", code, c.want)
			}
		})
	}
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
				post, _, _ := newService(t, store, &table{})
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
	post, _, db := newService(t, memstore.New(), &table{})
	_ = db.Close()
	if code := post(); code != http.StatusInternalServerError {
		t.Errorf("status %d without a database, want 500", code)
	}
}
