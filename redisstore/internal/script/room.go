package script

import (
	"strings"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/redisstore/internal/hashslot"
)

// Room is the kind of server in which scripts run. It says which keys may travel together, and
// how messages travel.
type Room uint8

// The kinds of servers.
const (
	// Single is one server, which may have replicas. Agents subscribe at the server, which can
	// count its own subscribers.
	Single Room = iota
	// Sharded is a Cluster in which the messages of a lock stay with its slot.
	Sharded
	// Unqueued is a Cluster before Redis 7, in which messages go to all nodes, or a service that shares the keys out
	// among several servers behind one address. Nobody can count subscribers, so locks have no queues.
	Unqueued
)

// Cluster reports whether the keys of a script have to be in one slot. Then all locks of a call
// are in one slot.
func (r Room) Cluster() bool { return r != Single }

// Queues reports whether locks have queues.
func (r Room) Queues() bool { return r != Unqueued }

// String is the name of the kind in the arguments of scripts.
func (r Room) String() string { return [...]string{"single", "sharded", "unqueued"}[r] }

// shared is the name of a key that a lock shares with all locks of the database or, in a Cluster,
// of its slot.
func (r Room) shared(t *text, key string, with lockagent.Name) string {
	if !r.Cluster() {
		return key
	}
	return inSlot(t, key, with)
}

func inSlot(t *text, key string, with lockagent.Name) string {
	return t.of(key, ":{", tags()[hashslot.Of(string(with))], "}")
}

// Past is what a store remembers of one clock: of the clock of the database or, in a Cluster, of
// a slot. The zero Past remembers nothing.
type Past struct {
	// Incarnation is the name of the present incarnation, in a Cluster that of the node. It is empty if it is not known
	// yet, or if there is none: several servers are behind one address.
	Incarnation string
	// Home is that of the node in a Cluster.
	Home Home
	// Seen is the greatest time in a reply or a message.
	Seen lockagent.StoreTime
	// Given is the greatest token with which a tenure began. The clock has reached it, unless the
	// server has lost its data.
	Given lockagent.Token
}

// Note takes note of a time in a reply or a message, and of the token with which a tenure began,
// or 0.
func (p *Past) Note(at lockagent.StoreTime, began lockagent.Token) {
	p.Seen, p.Given = max(p.Seen, at), max(p.Given, began)
}

// In sets the present incarnation. A new incarnation may lack the latest writes, so the clock may
// not have reached Given: In forgets it. An empty name changes nothing.
func (p *Past) In(incarnation string) {
	if incarnation != "" && incarnation != p.Incarnation {
		p.Incarnation, p.Given = incarnation, 0
	}
}

// unknown is sent to a script if the incarnation is not known. No incarnation has this name.
const unknown = "?"

// incarnation is the name of the incarnation that a script is told.
func (r Room) incarnation(past *Past) string {
	switch {
	case !r.named(past):
		return "-"
	case past.Incarnation != "":
		return past.Incarnation
	case past.Home != "":
		return unknown + "@" + string(past.Home)
	}
	return unknown
}

// named reports whether servers have incarnations.
func (r Room) named(past *Past) bool { return !r.Cluster() || past.Home != "" }

// Home says where a server keeps the name of its incarnation, and the roll. It is empty unless the server is a node of
// a Cluster. Then it is the tag of a slot of the node.
type Home string

// HomeIn is the home in a slot.
func HomeIn(slot uint16) Home { return Home(tags()[slot]) }

// HomeOf is the home of the server that has an incarnation.
func HomeOf(incarnation string) Home {
	_, home, _ := strings.Cut(incarnation, "@")
	return Home(home)
}

// key is the name of a key there.
func (h Home) key(t *text, key string) string {
	if h == "" {
		return key
	}
	return t.of(key, ":{", string(h), "}")
}

// since is the time in a reply, or the greatest time seen before if that is later: the clock never
// goes back.
func (p *Past) since(at lockagent.StoreTime) lockagent.StoreTime { return max(at, p.Seen) }
