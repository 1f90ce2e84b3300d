// Command orders is a service that charges each order once, on as many hosts as you like.
//
// The answer is 200 if this request charged the order, and 409 if the order is charged
// already. While another request charges it, the answer is 409, too, and the caller may ask
// again. The answer is 503 while nobody can tell who holds the lock.
//
// A host that was suspended while it held a lock, and then goes on as if nothing had
// happened, cannot do harm: the database refuses its token if somebody has written with a
// newer one. If the database accepts the token, the order is charged, even if the lock
// was lost meanwhile.
package main

import (
	"context"
	"database/sql"
	"errors"
	"log"
	"net/http"
	"time"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/memstore"
)

func main() {
	store := memstore.New() // for one host; redisstore.Open for many
	defer store.Close()
	locks, err := channelapi.New(channelapi.Config{Store: store, Label: "orders"})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	db := sql.OpenDB(&table{}) // in memory; any database will do
	defer db.Close()
	log.Print("try: curl -i -X POST localhost:8080/orders/42/charge")
	log.Print(http.ListenAndServe("localhost:8080", handler(locks, db)))
}

func handler(locks *channelapi.Locks, db *sql.DB) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders/{id}/charge", func(w http.ResponseWriter, r *http.Request) {
		id := r.PathValue("id")
		lock := locks.Lock("orders/"+id, channelapi.Wait(2*time.Second))
		charged := false
		err := lock.Do(r.Context(), func(ctx context.Context, g channelapi.Grant) error {
			err := charge(ctx, db, id, g.Token())
			charged = err == nil
			return err
		})
		if !charged {
			http.Error(w, err.Error(), status(err))
		}
	})
	return mux
}

var errRefused = errors.New("the order is charged already, or somebody has written with a newer token")

// charge charges the order once, and writes with the token of the lock.
func charge(ctx context.Context, db *sql.DB, id string, token channelapi.Token) error {
	result, err := db.ExecContext(ctx,
		`UPDATE orders SET charged = TRUE, token = ? WHERE id = ? AND token <= ? AND NOT charged`, token, id, token)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, errRefused)
	}
	return nil
}

func status(err error) int {
	switch {
	case errors.Is(err, channelapi.ErrStoreUnavailable), // which may be why time ran out
		errors.Is(err, channelapi.ErrLost): // before the charge, or while the database was at it
		return http.StatusServiceUnavailable
	case errors.Is(err, channelapi.ErrTimeout), errors.Is(err, errRefused):
		return http.StatusConflict
	}
	return http.StatusInternalServerError
}
