package servecmd

import (
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent/redisstore"
)

// The settings of grace periods are those of the store.
func TestSettingsOfGracePeriods(t *testing.T) {
	for flags, want := range map[string]redisstore.Config{
		"":                       {Grace: redisstore.GraceOn, GraceFirst: redisstore.DefaultGraceFirst},
		"--redis-grace=false":    {Grace: redisstore.GraceOff, GraceFirst: redisstore.DefaultGraceFirst},
		"--redis-grace-first 0s": {Grace: redisstore.GraceOn, GraceFirst: redisstore.NoGraceFirst},
		"--redis-grace-first 1h": {Grace: redisstore.GraceOn, GraceFirst: time.Hour},
	} {
		cmd := NewServe()
		cmd.SetContext(t.Context())
		all := append(strings.Fields(flags), "--state-dir", t.TempDir(), "--redis", "redis://127.0.0.1:1")
		if err := cmd.ParseFlags(all); err != nil {
			t.Fatal(err)
		}
		settings, err := loadSettings(cmd)
		if err != nil {
			t.Fatal(err)
		}
		got, err := redisConfig(&settings.Settings.Redis)
		if err != nil || got.Grace != want.Grace || got.GraceFirst != want.GraceFirst {
			t.Errorf("%s: %v, %v, want %v, %v: %v", flags, got.Grace, got.GraceFirst, want.Grace, want.GraceFirst, err)
		}
	}
}
