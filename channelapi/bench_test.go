package channelapi_test

import (
	"context"
	"testing"

	"github.com/lockagent/lockagent/channelapi"
)

// The lock rests between two uses: no call goes to the store.
func BenchmarkAtRest(b *testing.B) {
	b.Run("AcquireRelease", func(b *testing.B) {
		l := open(b).Lock(name)
		ctx := b.Context()
		b.ReportAllocs()
		for b.Loop() {
			g, err := l.Acquire(ctx)
			if err != nil {
				b.Fatal(err)
			}
			if err := g.Release(ctx); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Do", func(b *testing.B) {
		l := open(b).Lock(name)
		ctx := b.Context()
		b.ReportAllocs()
		for b.Loop() {
			if err := l.Do(ctx, func(context.Context, channelapi.Grant) error { return nil }); err != nil {
				b.Fatal(err)
			}
		}
	})
}
