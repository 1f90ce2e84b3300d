package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
)

// A Redis that cannot save its data refuses every write, and answers PING with an error. The doctor says so, and a
// daemon whose waiter leaves goes on when Redis does.
func TestRedisThatCannotSave(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	redis, path, other := redistest.Start(t, redistest.WithConfig("save 3600 1", "dir "+dir)), socketPath(t), socketPath(t)
	d := serveProcess(t, path, nil, "--redis", redis.URL(), "--lease", "3s", "--drain-timeout", "1ms")
	serving(t, other, "--redis", redis.URL(), "--lease", "1h", "--drain-timeout", "1ms")
	claims(t, other, "orders/42")
	waiter := ourselves(t, "lock", "--socket", path, "orders/42", "true")
	if err := waiter.Start(); err != nil {
		t.Fatal(err)
	}
	channels := func() int { return len(redis.Do("PUBSUB", "CHANNELS", "*orders/42*").([]any)) }
	waittest.Until(t, "the waiter to be subscribed", func() bool { return channels() > 0 })

	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	ping := redis.Dial()
	waittest.Until(t, "Redis to notice that it cannot save", func() bool {
		_, _ = ping.Do("SET", "a", "1")
		_, _ = ping.Do("BGSAVE")
		_, err := ping.Do("PING")
		return err != nil && strings.HasPrefix(err.Error(), "MISCONF")
	})
	_ = waiter.Process.Kill()
	_ = waiter.Wait()
	waittest.Until(t, "the daemon to unsubscribe", func() bool { return channels() == 0 })
	r := diagnosed(
		t, apart(t, "doctor", "--format", "json", "--redis", redis.URL(), "--state-dir", path+".state", "--socket", path),
	)
	r.is(t, "redis scripts", "error", "MISCONF", "cannot write to its disk")
	r.is(t, "redis messages", "ok")

	redis.Do("CONFIG", "SET", "stop-writes-on-bgsave-error", "no")
	waittest.Until(t, "a lock to be granted", func() bool {
		return apart(t, "lock", "--socket", path, "-n", "orders/43", "true").code == cli.ExitOK
	})
	if strings.Contains(d.stderr.String(), "panic") {
		t.Error("the daemon has panicked")
	}
}
