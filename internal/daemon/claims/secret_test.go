package claims

import (
	"fmt"
	"sync"
	"testing"

	"github.com/lockagent/lockagent/memstore"
)

// The lock may be granted, and another request with the secret may find the claim, before the first one knows what
// delivers the grant.
func TestASecondStreamIsThereBeforeTheGrant(t *testing.T) {
	in(t, func(t *testing.T, b *Book, _ *memstore.Store) {
		req := Request{Client: ann, Name: "door", Secret: "secret of sixteen"}
		c := ask(t, b, req).claim
		counts(t, b, 1, 0)
		b.mu.Lock()
		grants := c.grants
		c.grants = nil // as it is then
		b.mu.Unlock()
		again := ask(t, b, req)
		if e, err := again.Take(); e != nil || err != nil {
			t.Fatalf("got %T %+v, %v, want nothing", e, e, err)
		}
		<-again.wake // it was woken as it was made
		c.willGet(grants)
		read[Granted](t, again)
		again.Close()
		free(t, b, "door")
	})
}

// Requests with one secret come at the same moment. They have one claim.
func TestRequestsWithOneSecretAtOnce(t *testing.T) {
	in(t, func(t *testing.T, b *Book, _ *memstore.Store) {
		for i := range 1000 {
			secret := fmt.Sprintf("secret-secret-secret-%d", i)
			var streams [6]*Stream
			var all sync.WaitGroup
			for k := range streams {
				all.Go(func() {
					streams[k] = ask(t, b, Request{Client: ann, Name: "door", Secret: secret})
					_, _ = streams[k].Take()
				})
			}
			all.Wait()
			for _, s := range streams {
				if s.claim != streams[0].claim {
					t.Fatalf("round %d: one secret has two claims", i)
				}
				s.Close()
			}
			if err := streams[0].claim.await(background); err != nil {
				t.Fatal(err)
			}
		}
		free(t, b, "door")
	})
}
