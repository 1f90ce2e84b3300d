package redisstore

import (
	"strconv"
	"strings"
	"sync"

	"github.com/lockagent/lockagent"
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
var tags = sync.OnceValue(func() *[slots]string {
	var tags [slots]string
	for n, left := 0, slots; left > 0; n++ {
		tag := strconv.Itoa(n)
		if s := slot(tag); tags[s] == "" {
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

// slots is how many hash slots a Cluster has.
const slots = 16384

// slot is the hash slot of a key: the CRC16 of what stands between its first '{'
// and the next '}', or of the whole key if there is nothing.
func slot(key string) uint16 {
	if _, tail, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(tail, "}"); ok && tag != "" {
			key = tag
		}
	}
	var crc uint16
	for i := range len(key) {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^key[i]]
	}
	return crc % slots
}

// crcTable is that of CRC-16/XMODEM, whose polynomial is 0x1021.
var crcTable = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		table[i] = crc
	}
	return table
}()
