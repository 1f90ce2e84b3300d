package redisson

import (
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/lockagent/lockagent/internal/redistest"
)

// Ours are measured by what the objects of Redisson write here. No lease ends while a test runs, so only a message can
// end a wait. What the objects do, access_test.go shows.
func TestRedissonAlone(t *testing.T) {
	t.Parallel()
	w := single(t)
	redis, java := w.nodes[0], w.startJava(t, 30*time.Minute)
	for _, test := range []struct {
		title string
		run   func(*testing.T, *redistest.Server, *process)
	}{
		{"TheKeyOfAnUnlock", keyOfAnUnlock},
		{"Transcripts", playAll},
	} {
		step(t, test.title, func(t *testing.T) { test.run(t, redis, java) })
	}
}

// kindsAlone has threads of Java use all that Redisson has. The names begin with orders/, as in the access rules of the
// page.
func kindsAlone(t *testing.T, w *world, java *process) {
	for _, test := range []struct {
		title string
		run   func(*testing.T, *world, *process)
	}{
		{"Locks", locksAlone},
		{"Semaphore", semaphoreAlone},
		{"Permits", permitsAlone},
		{"Latch", latchAlone},
	} {
		step(t, test.title, func(t *testing.T) { test.run(t, w, java) })
	}
}

// keyOfAnUnlock looks at what Redisson keeps of an unlock until it has the answer. Without that it could not send it
// again.
func keyOfAnUnlock(t *testing.T, redis *redistest.Server, java *process) {
	lock := java.lock("plain", "orders", "a")
	lock.lock(t, forever)
	lock.lock(t, forever)
	monitor := redis.Dial()
	_, err := monitor.Do("MONITOR")
	must(t, err)
	for _, result := range []string{"0", "1"} { // still held, and free
		lock.unlock(t)
		id := awaitLine(t, monitor, `"set" "redisson_unlock_latch:\{orders\}:([0-9a-f]{32})" "`+result+`" "px" "([0-9]+)"`)
		ttl, err := strconv.Atoi(id[2])
		must(t, err)
		if ttl < 16_000 || ttl > 20_000 {
			t.Errorf("the key would last for %d ms", ttl)
		}
		if os.Getenv(profileVariable) == "" { // 3.52.0 deletes another key, by mistake
			awaitLine(t, monitor, `"DEL" "redisson_unlock_latch:\{orders\}:`+id[1]+`"`)
		}
	}
}

// awaitLine waits for a command that matches a pattern, and returns the parts of the pattern.
func awaitLine(t *testing.T, monitor *redistest.Conn, pattern string) []string {
	t.Helper()
	p := regexp.MustCompile(pattern)
	for {
		line, err := monitor.Receive()
		must(t, err)
		if parts := p.FindStringSubmatch(line.(string)); parts != nil {
			return parts
		}
	}
}
