package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/lockagent/lockagent/internal/daemon/claims"
	"github.com/lockagent/lockagent/proto/lockagent/v1/lockagentv1connect"
)

// unlimited has no limits, and is asked for nothing else.
type unlimited struct{ Access }

func (unlimited) Limits() claims.Limits { return claims.Limits{} }

// A Submit counts until it has its link, which counts as a stream. So a user may have as many links as streams.
func TestASubmitCountsUntilItHasItsLink(t *testing.T) {
	var counts []int
	b := &bounded{
		Config:   &Config{Client: func(context.Context) (claims.Client, bool) { return claims.Client{}, true }, Access: unlimited{}, Life: t.Context()},
		underWay: underWay{count: make(map[ofUser]int)},
	}
	count := func() { counts = append(counts, b.underWay.count[ofUser{0, requests}]) }
	b.next = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		count()
		unhurried(r.Context())
		count()
	})
	b.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, lockagentv1connect.LockServiceSubmitProcedure, nil))
	count()
	if len(counts) != 3 || counts[0] != 1 || counts[1] != 0 || counts[2] != 0 {
		t.Errorf("it counts as %v, want 1, 0 and 0", counts)
	}
}
