package script

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/redisstore/internal/hashslot"
)

// reserved begins the names of our own keys, and redisson those of the keys that Redisson has
// beside its locks. No lock has such a name.
const (
	reserved = "lockagent_"
	redisson = "redisson_"
)

// CheckName returns a [*lockagent.NameError] if a lock may not be called like that: the name is
// out of its bounds, or one of a key that belongs to other locks.
func CheckName(name lockagent.Name) error {
	if _, err := lockagent.ParseName(string(name)); err != nil {
		return err
	}
	for _, prefix := range []string{reserved, redisson} {
		if strings.HasPrefix(string(name), prefix) {
			return &lockagent.NameError{Name: string(name), Reason: fmt.Sprintf("names that begin with %q are those of keys that belong to locks; choose another", prefix)}
		}
	}
	return nil
}

// Channel is where the end of a hold is published. It is Redisson's, who has the same one for the
// locks "{a}" and "a": they are woken for each other, in vain.
func Channel(name lockagent.Name) string { return new(text).channel(name) }

// AgentsChannel is one on which nothing is published. An agent subscribes to it before it does to
// [Channel], so that the subscribers who are no agents can be counted.
func AgentsChannel(name lockagent.Name) string { return new(text).own("lockagent_agents", name) }

// AgentChannel is that of the messages to an agent.
func AgentChannel(agent lockagent.AgentID) string { return "lockagent_agent:" + string(agent) }

// IncarnationChannel has a message when a database, other than a Cluster, has a new incarnation.
const IncarnationChannel = "lockagent_incarnation"

// AgentChannelOf is that of the messages to an agent about one lock, where messages are sharded.
func AgentChannelOf(agent lockagent.AgentID, name lockagent.Name) string {
	return new(text).own(AgentChannel(agent), name)
}

// channel is [Channel].
func (t *text) channel(name lockagent.Name) string { return t.theirs("redisson_lock__channel", name) }

// theirs is the name of a key or channel of Redisson's for a lock.
func (t *text) theirs(prefix string, name lockagent.Name) string {
	if hasTag(name) {
		return t.of(prefix, ":", string(name))
	}
	return t.of(prefix, ":{", string(name), "}")
}

// own is the name of a key or channel of ours for a lock, in the slot of the lock. One with a
// tag of its own gets two colons, because the lock "{a}" is another one than "a".
func (t *text) own(prefix string, name lockagent.Name) string {
	if hasTag(name) {
		return t.of(prefix, "::", string(name))
	}
	return t.of(prefix, ":{", string(name), "}")
}

func hasTag(name lockagent.Name) bool { return strings.IndexByte(string(name), '{') >= 0 }

// tags has a hash tag for each slot: the least number that is in it.
var tags = sync.OnceValue(func() *[hashslot.Count]string {
	var tags [hashslot.Count]string
	for n, left := 0, hashslot.Count; left > 0; n++ {
		tag := strconv.Itoa(n)
		if s := hashslot.Of(tag); tags[s] == "" {
			tags[s] = tag
			left--
		}
	}
	return &tags
})
