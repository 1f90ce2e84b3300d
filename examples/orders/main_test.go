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

func TestOrders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks, err := channelapi.New(channelapi.Config{Store: memstore.New()})
		if err != nil {
			t.Fatal(err)
		}
		defer locks.Close()
		db := sql.OpenDB(&table{})
		defer db.Close()
		service := handler(locks, db)
		post := func() int {
			w := httptest.NewRecorder()
			service.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/orders/42/charge", nil))
			return w.Code
		}

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

func TestStatus(t *testing.T) {
	for want, err := range map[int]error{
		http.StatusConflict:            &channelapi.WaitError{Name: "orders/42", TimedOut: true, Holder: "host-7", Err: channelapi.ErrTimeout},
		http.StatusServiceUnavailable:  &channelapi.WaitError{Name: "orders/42", TimedOut: true, Silent: time.Second, Err: channelapi.ErrTimeout},
		http.StatusInternalServerError: &channelapi.LostError{Name: "orders/42", Reason: channelapi.LostDenied},
	} {
		if code := status(err); code != want {
			t.Errorf("status %d for %v, want %d", code, err, want)
		}
	}
}
