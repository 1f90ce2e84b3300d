package sizing

import (
	"context"
	"sync"
	"testing"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/redistest"
)

// BenchmarkCrowd has the goroutines of one agent want one lock all the time.
func BenchmarkCrowd(b *testing.B) {
	server := redistest.Start(b)
	lock := openLocks(b, channelapi.Config{Store: openStore(b, server)}).Lock("hot")
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	b.ReportAllocs()
	charge(b, server, b.N, func() {
		var all sync.WaitGroup
		const goroutines = 64
		for g := range goroutines {
			all.Go(func() {
				for i := g; i < b.N; i += goroutines {
					cycle(ctx, b, lock)
				}
			})
		}
		all.Wait()
	})
}
