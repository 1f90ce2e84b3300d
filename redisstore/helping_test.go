package redisstore_test

import (
	"runtime"
	"testing"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
)

// A renewal that ends its goroutine keeps no other from its answer.
func TestNeighboursOfARenewalThatEndsItsGoroutine(t *testing.T) {
	store := open(t, redistest.Start(t).URL())
	answers := make(chan error, 2)
	for _, name := range []lockagent.Name{"first", "second"} {
		req := wish(name, agentA, 1)
		acquire(t, store, req)
		renewal := lockagent.RenewRequest{Name: name, Tenure: req.Tenure, Lease: req.Lease}
		store.Renew(t.Context(), renewal, func(_ lockagent.RenewReply, err error) {
			answers <- err
			runtime.Goexit()
		})
	}
	for range 2 {
		if err := await(t, answers); err != nil {
			t.Error(err)
		}
	}
}
