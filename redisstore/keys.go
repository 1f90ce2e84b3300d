package redisstore

import (
	"strings"

	"github.com/lockagent/lockagent"
)

// reserved begins the names of the keys that are our own. No lock has such a
// name.
const reserved = "lockagent_"

// incarnationKey has the name of the incarnation of a database.
const incarnationKey = reserved + "incarnation"

// queuesKey is there while locks have queues.
const queuesKey = reserved + "queues"

// tokenKey has the last token of a lock.
func (t *text) tokenKey(name lockagent.Name) string {
	t.b.WriteString(reserved + "token")
	return t.own(name)
}

// releasedKey has the last tenure that an agent released. The agent comes before
// the name, so that no other lock has the same key, whatever it is called.
func (t *text) releasedKey(name lockagent.Name, agent lockagent.AgentID) string {
	t.b.WriteString(reserved + "done:")
	t.b.WriteString(string(agent))
	return t.own(name)
}

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
