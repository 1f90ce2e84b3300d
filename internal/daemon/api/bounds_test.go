package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/lockagent/lockagent/internal/daemon/quota"
	"github.com/lockagent/lockagent/proto/lockagent/v1/lockagentv1connect"
)

// counting counts, and is asked for nothing else.
type counting struct {
	Access
	*quota.Bureau
}

func (c counting) Hold(_ context.Context, of ...quota.Kind) (leave func(), err error) {
	c.Add(0, of...)
	return sync.OnceFunc(func() { c.Leave(0, of...) }), nil
}

// A Submit counts until it has its link, which counts as a stream. So a user may have as many links as streams.
func TestASubmitCountsUntilItHasItsLink(t *testing.T) {
	var counts []int
	quotas := quota.New(quota.Config{})
	b := &bounded{Config: &Config{Access: counting{Bureau: quotas}, Life: t.Context()}}
	count := func() { counts = append(counts, quotas.Total(quota.Requests)) }
	b.next = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		count()
		unhurried(r.Context())
		count()
	})
	submit := httptest.NewRequest(http.MethodPost, lockagentv1connect.LockServiceSubmitProcedure, nil)
	b.ServeHTTP(httptest.NewRecorder(), submit)
	count()
	if len(counts) != 3 || counts[0] != 1 || counts[1] != 0 || counts[2] != 0 {
		t.Errorf("it counts as %v, want 1, 0 and 0", counts)
	}
}
