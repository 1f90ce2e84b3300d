package script

import (
	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/redisstore/internal/hashslot"
)

// Room is the kind of server that scripts run in. It says which keys may travel together, and
// how messages travel.
type Room uint8

// The kinds of servers.
const (
	// Single is one server, which may have replicas. Its own subscribers can be counted, and
	// agents subscribe there.
	Single Room = iota
	// Sharded is a Cluster in which the messages of a lock stay with its slot.
	Sharded
	// Classic is a Cluster in which messages go to all nodes. Subscribers cannot be counted, so
	// locks have no queues.
	Classic
)

// Cluster reports whether the keys of a script have to be in one slot. Then all locks of a call
// are in one.
func (r Room) Cluster() bool { return r == Sharded || r == Classic }

// Queues reports whether locks have queues.
func (r Room) Queues() bool { return r != Classic }

// String is what scripts call the kind.
func (r Room) String() string { return [...]string{"single", "sharded", "classic"}[r] }

// Publish is the command that publishes: PUBLISH or SPUBLISH.
func (r Room) Publish() string {
	if r == Sharded {
		return "SPUBLISH"
	}
	return "PUBLISH"
}

// shared is a key that a lock shares with others: all of the database, or of its slot.
func (r Room) shared(t *text, key string, with lockagent.Name) string {
	if !r.Cluster() {
		return key
	}
	return inSlot(t, key, with)
}

func inSlot(t *text, key string, with lockagent.Name) string {
	return t.of(key, ":{", tags()[hashslot.Of(string(with))], "}")
}

// Past is what a store remembers of one clock, which is that of the database or, in a Cluster, of
// a slot. The zero Past remembers nothing.
type Past struct {
	// Incarnation is the present one. There is none in a Cluster.
	Incarnation string
	// Seen is the greatest time in a reply or a message.
	Seen lockagent.StoreTime
	// Given is the greatest token with which a tenure began: the clock has it as well, unless it
	// has forgotten all.
	Given lockagent.Token
}

// Note takes note of a time that a reply or a message tells, and of the token with which a tenure
// began, or 0.
func (p *Past) Note(at lockagent.StoreTime, began lockagent.Token) {
	p.Seen, p.Given = max(p.Seen, at), max(p.Given, began)
}

// In says which incarnation is the present one. Another one than before may lack what was
// written last, so the tokens that were given before are forgotten. Empty says nothing.
func (p *Past) In(incarnation string) {
	if incarnation != "" && incarnation != p.Incarnation {
		p.Incarnation, p.Given = incarnation, 0
	}
}

// unknown is what is sent for an incarnation that is not known. None is called like that.
const unknown = "?"

// incarnation is what a script is told of the one that is known.
func (r Room) incarnation(past *Past) string {
	switch {
	case r.Cluster():
		return "-"
	case past.Incarnation == "":
		return unknown
	}
	return past.Incarnation
}

// since is a time that a reply tells, on a clock that never goes back.
func (p *Past) since(at lockagent.StoreTime) lockagent.StoreTime { return max(at, p.Seen) }
