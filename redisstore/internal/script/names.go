package script

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/redisstore/internal/hashslot"
)

// The names of our own keys begin with reserved. The keys that Redisson has beside its locks begin
// with redisson. No lock has such a name.
const (
	reserved = "lockagent_"
	redisson = "redisson_"
)

// CheckName returns a [*lockagent.NameError] if a lock cannot have the name: it is out of bounds, or
// may be the name of a key that belongs to another lock.
func CheckName(name lockagent.Name) error {
	if _, err := lockagent.ParseName(string(name)); err != nil {
		return err
	}
	for _, prefix := range []string{reserved, redisson} {
		if strings.HasPrefix(string(name), prefix) {
			return &lockagent.NameError{
				Name: string(name),
				Reason: fmt.Sprintf(
					"names that begin with %q are those of keys that belong to locks; choose another", prefix,
				),
			}
		}
	}
	return nil
}

// CheckSharedKeys returns a [*lockagent.NameError] if a lock beside which Redisson has keys cannot have the name.
// Redisson puts braces around a name that has none, and takes any other name as it is. So "a" and "{a}" would be two
// locks with one queue, one token key, or one set of permits. No other pair of names has the same keys.
func CheckSharedKeys(name lockagent.Name) error {
	inner, wrapped := strings.CutPrefix(string(name), "{")
	inner, closed := strings.CutSuffix(inner, "}")
	if !wrapped || !closed || strings.ContainsAny(inner, "{}") {
		return nil
	}
	return &lockagent.NameError{
		Name: string(name),
		Reason: fmt.Sprintf(
			"the lock %q would have the same keys beside it in Redis; use that name, or one with more than the "+
				"braces, such as %q",
			inner, name+":lock",
		),
	}
}

// Channel is the channel of a lock: a release that frees the lock publishes there. It is Redisson's
// channel. Redisson has one channel for the locks "{a}" and "a": a release of the one also wakes
// the waiters of the other, in vain.
func Channel(name lockagent.Name) string { return new(text).channel(name) }

// AgentsChannel is a channel without messages. An agent subscribes to it before it subscribes to
// [Channel]. So the number of outsiders is the difference of the subscribers.
func AgentsChannel(name lockagent.Name) string { return new(text).own("lockagent_agents", name) }

// AgentChannel is the channel of the messages to an agent.
func AgentChannel(agent lockagent.AgentID) string { return "lockagent_agent:" + string(agent) }

// IncarnationChannel has a message when a database, or a node of a Cluster, has a new incarnation.
const IncarnationChannel = "lockagent_incarnation"

// AgentChannelOf is the channel of the messages to an agent about one lock in a Cluster.
func AgentChannelOf(agent lockagent.AgentID, name lockagent.Name) string {
	return new(text).own(AgentChannel(agent), name)
}

// channel is [Channel].
func (t *text) channel(name lockagent.Name) string { return t.theirs("redisson_lock__channel", name) }

// theirs is the name of one of Redisson's keys or channels for a lock.
func (t *text) theirs(prefix string, name lockagent.Name) string {
	if hasTag(name) {
		return t.of(prefix, ":", string(name))
	}
	return t.of(prefix, ":{", string(name), "}")
}

// own is the name of one of our keys or channels for a lock, in the slot of the lock. If the name
// of the lock has a tag, there are two colons: "{a}" and "a" are two locks, with different keys.
func (t *text) own(prefix string, name lockagent.Name) string {
	if hasTag(name) {
		return t.of(prefix, "::", string(name))
	}
	return t.of(prefix, ":{", string(name), "}")
}

func hasTag(name lockagent.Name) bool { return strings.IndexByte(string(name), '{') >= 0 }

// tags has a hash tag for each slot: the least number whose text is in the slot.
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
