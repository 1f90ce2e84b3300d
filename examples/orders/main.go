// Command orders is a service that charges each order once, on as many hosts as you like.
//
// Who asks for an order that is being charged gets a 409, and may ask again. Who asks
// while nobody can tell who holds the lock gets a 503. A host that was suspended while it
// held a lock, and then goes on as if nothing had happened, cannot do harm: the
// database refuses its token, because somebody has come with a newer one.
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
		err := lock.Do(r.Context(), func(ctx context.Context, g channelapi.Grant) error {
			return charge(ctx, db, id, g.Token())
		})
		if err != nil {
			http.Error(w, err.Error(), status(err))
		}
	})
	return mux
}

var errOldToken = errors.New("somebody has written with a newer token")

// charge writes with the token of the lock, unless somebody has written with a newer one.
func charge(ctx context.Context, db *sql.DB, id string, token channelapi.Token) error {
	result, err := db.ExecContext(ctx,
		`UPDATE orders SET charged = TRUE, token = ? WHERE id = ? AND token <= ?`, token, id, token)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, errOldToken)
	}
	return nil
}

func status(err error) int {
	switch {
	case errors.Is(err, channelapi.ErrStoreUnavailable): // which may be why time ran out
		return http.StatusServiceUnavailable
	case errors.Is(err, channelapi.ErrTimeout), errors.Is(err, errOldToken):
		return http.StatusConflict
	}
	return http.StatusInternalServerError
}
