package redisstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/redisstore"
)

func TestOpenWithGrace(t *testing.T) {
	t.Parallel()
	for field, wrong := range map[string][]redisstore.Config{
		"Config.Grace:": {{Grace: redisstore.GraceOff + 1}},
		"Config.GraceFirst:": {
			{GraceFirst: -time.Nanosecond - 1},
			{GraceFirst: lockagent.MaxLease + 1},
		},
	} {
		for _, config := range wrong {
			_, err := config.Open(context.Background(), "redis://127.0.0.1:1")
			if !errors.Is(err, lockagent.ErrBadOption) || !strings.Contains(err.Error(), field) {
				t.Errorf("Open with %+v: %v", config, err)
			}
		}
	}
	server := redistest.Start(t)
	for _, right := range []redisstore.Config{
		{Grace: redisstore.GraceOn, GraceFirst: lockagent.MaxLease},
		{Grace: redisstore.GraceOff, GraceFirst: redisstore.NoGraceFirst},
	} {
		openConfig(t, right, server.URL())
	}
}
