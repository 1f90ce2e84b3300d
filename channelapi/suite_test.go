package channelapi_test

import (
	"testing"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/channeltest"
	"github.com/lockagent/lockagent/memstore"
)

func TestSuite(t *testing.T) {
	channeltest.Run(t, func(*testing.T) channeltest.Opener {
		store := memstore.New()
		return func(t *testing.T) *channelapi.Locks { return openOver(t, store) }
	})
}
