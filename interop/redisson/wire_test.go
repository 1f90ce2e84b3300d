package redisson

import (
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent/internal/redistest"
)

// wireOf says what keys Redis has of a name. Whoever shares the name with Redisson must leave the same keys. Each has a
// line: its type, how long it lasts if it expires, and its content. Times are in minutes, so the lines do not depend on
// how fast the test runs.
//
// Two sorts of keys are left out. Redisson removes the key of an unlock some time after its answer. And it does not
// look at our own keys.
func wireOf(t *testing.T, redis *redistest.Server, name string, nick *nicknames) []string {
	t.Helper()
	var lines []string
	for _, reply := range redis.Do("KEYS", "*").([]any) {
		key := reply.(string)
		if !isOf(key, name) || strings.HasPrefix(key, "redisson_unlock_latch:") || strings.HasPrefix(key, "lockagent_") {
			continue
		}
		kind := redis.Do("TYPE", key).(string)
		line := nick.replace(key) + " " + kind
		if ms := redis.Do("PTTL", key).(int64); ms >= 0 {
			line += " for " + minutes(ms)
		}
		lines = append(lines, line+": "+strings.Join(content(t, redis, kind, key, nick), " "))
	}
	slices.Sort(lines)
	return lines
}

// isOf says whether a key or a channel belongs to a name.
func isOf(key, name string) bool {
	tagged := name
	if !strings.Contains(name, "{") {
		tagged = "{" + name + "}"
	}
	return key == name || strings.Contains(key, tagged)
}

// content is what a key has: words for the fields of a hash and the members of a list or a set.
func content(t *testing.T, redis *redistest.Server, kind, key string, nick *nicknames) []string {
	t.Helper()
	texts := func(command ...string) (words []string) {
		for _, reply := range redis.Do(command...).([]any) {
			words = append(words, reply.(string))
		}
		return words
	}
	var words []string
	switch kind {
	case "string":
		return []string{nick.replace(redis.Do("GET", key).(string))}
	case "list":
		for _, member := range texts("LRANGE", key, "0", "-1") {
			words = append(words, nick.replace(member))
		}
	case "hash":
		for pair := range slices.Chunk(texts("HGETALL", key), 2) {
			words = append(words, nick.replace(pair[0])+"="+pair[1])
		}
		slices.Sort(words)
	case "zset":
		for pair := range slices.Chunk(texts("ZRANGE", key, "0", "-1", "WITHSCORES"), 2) {
			words = append(words, nick.replace(member(pair[0]))+"="+moment(t, pair[1]))
		}
		slices.Sort(words) // the scores are for all to see
	default:
		t.Fatalf("%s is a %s", key, kind)
	}
	return words
}

// member tells the bytes of a permit's id from their digits.
func member(text string) string {
	if len(text) == 16 {
		return "bytes:" + hex.EncodeToString([]byte(text))
	}
	return text
}

// moment is the time that a score has in ms, from now on, or the score itself if that is not a time.
func moment(t *testing.T, score string) string {
	t.Helper()
	ms, err := strconv.ParseInt(score, 10, 64)
	must(t, err)
	if left := ms - time.Now().UnixMilli(); left < (1000 * 24 * time.Hour).Milliseconds() {
		return "in " + minutes(left)
	}
	return score
}

func minutes(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	return fmt.Sprintf("%dm", d.Round(time.Minute)/time.Minute)
}

// nicknames stand for what is another text in every run. The owner of a lock has the name of its worker. Permits are
// p1, p2 and so on, as they come.
type nicknames struct {
	worker string            // whose command runs
	of     map[string]string // by what they stand for
	ids    []string          // of permits
}

var (
	ownerIn  = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:[0-9]+`)
	permitIn = regexp.MustCompile(`[0-9a-f]{32}`)
)

// replace puts nicknames into a text. Whoever has none is the worker.
func (n *nicknames) replace(text string) string {
	text = ownerIn.ReplaceAllStringFunc(text, func(owner string) string {
		if n.of[owner] == "" {
			n.of[owner] = n.worker
		}
		return n.of[owner]
	})
	return permitIn.ReplaceAllStringFunc(text, func(id string) string {
		i := slices.Index(n.ids, id)
		if i < 0 {
			i = len(n.ids)
			n.ids = append(n.ids, id)
		}
		return fmt.Sprintf("p%d", i+1)
	})
}
