package redisstore

import (
	"strconv"
	"strings"
	"sync"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/redisstore/internal/transport"
)

// reserved begins the names of the keys that are our own. No lock has such a
// name.
const reserved = "lockagent_"

// incarnationKey has the name of the incarnation of a database.
const incarnationKey = reserved + "incarnation"

// queuesKey is there while locks have queues.
const queuesKey = reserved + "queues"

// tokenKey has the last token of a lock, if the clock alone does not tell.
func (t *text) tokenKey(name lockagent.Name) string {
	t.b.WriteString(reserved + "token")
	return t.own(name)
}

// clockKey has the greatest time that a token was made of, in the database or, in a
// Cluster, in a slot.
func (t *text) clockKey(in home) string {
	t.b.WriteString(reserved + "clock")
	return t.at(in)
}

// releasedKeys have what an agent released in even and in odd minutes.
func (t *text) releasedKeys(agent lockagent.AgentID, in home) (even, odd string) {
	t.b.WriteString(reserved + "even:")
	t.b.WriteString(string(agent))
	even = t.at(in)
	t.b.WriteString(reserved + "odd:")
	t.b.WriteString(string(agent))
	return even, t.at(in)
}

// home is where the keys are that no lock has for itself: in its slot in a Cluster,
// and else anywhere.
type home struct {
	cluster bool
	slot    uint16
}

// at ends a key of a home.
func (t *text) at(in home) string {
	if in.cluster {
		t.b.WriteString(":{")
		t.b.WriteString(tags()[in.slot])
		t.b.WriteByte('}')
	}
	return t.cut()
}

// tags has a hash tag for each slot: the least number that is in it.
var tags = sync.OnceValue(func() *[transport.Slots]string {
	var tags [transport.Slots]string
	for n, left := 0, transport.Slots; left > 0; n++ {
		tag := strconv.Itoa(n)
		if s := transport.Slot(tag); tags[s] == "" {
			tags[s] = tag
			left--
		}
	}
	return &tags
})

// rehearsalKey has nothing: commands are tried out on it.
func (t *text) rehearsalKey(name lockagent.Name) string {
	t.b.WriteString(reserved + "rehearsal")
	return t.own(name)
}

// own ends a key in the hash slot of a lock. A name with a hash tag of its own
// gets two colons, because the lock "{a}" is another one than "a".
func (t *text) own(name lockagent.Name) string {
	if hasTag(name) {
		t.b.WriteByte(':')
	}
	t.b.WriteByte(':')
	return t.wrap(name)
}

// channel is where the end of a hold is published. It is Redisson's, who has the
// same one for the locks "{a}" and "a": they are woken for each other, in vain.
func (t *text) channel(name lockagent.Name) string {
	t.b.WriteString("redisson_lock__channel:")
	return t.wrap(name)
}

// wrap ends a key with the name of a lock, in braces unless it has some.
func (t *text) wrap(name lockagent.Name) string {
	if hasTag(name) {
		t.b.WriteString(string(name))
		return t.cut()
	}
	t.b.WriteByte('{')
	t.b.WriteString(string(name))
	t.b.WriteByte('}')
	return t.cut()
}

func hasTag(name lockagent.Name) bool { return strings.IndexByte(string(name), '{') >= 0 }

// channel is [text.channel] of a text of its own.
func channel(name lockagent.Name) string { return new(text).channel(name) }
