package events

import (
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent"
)

// From says where in a stream to begin. The zero From is the beginning.
type From struct {
	policy   jetstream.DeliverPolicy
	position uint64
	time     time.Time
}

// FromPosition begins with the record at a [Record.Position], or the first after
// it that there still is.
func FromPosition(n uint64) From {
	return From{policy: jetstream.DeliverByStartSequencePolicy, position: max(n, 1)}
}

// FromTime begins with the first record that arrived at the stream at t or later,
// by the clock of the server.
func FromTime(t time.Time) From {
	return From{policy: jetstream.DeliverByStartTimePolicy, time: t}
}

// FromNow begins with the first record that arrives after the call to
// [Reader.Tail].
func FromNow() From { return From{policy: jetstream.DeliverNewPolicy} }

// Filter selects records. The zero Filter selects all; the fields that are set
// must all fit.
//
// An [Audit] needs the records of all locks and kinds, or it takes those that
// were filtered out for missing.
type Filter struct {
	Lock  lockagent.Name
	Agent lockagent.AgentID
	Kinds []lockagent.EventKind // any of them
}

func (f Filter) check() error {
	if f.Agent != "" && !validAgent(f.Agent) {
		return &lockagent.OptionError{Option: "filter", Reason: fmt.Sprintf("%q is no agent", f.Agent)}
	}
	for _, k := range f.Kinds {
		if !validKind(k) {
			return &lockagent.OptionError{Option: "filter", Reason: fmt.Sprintf("%d is no kind of event", k)}
		}
	}
	return nil
}

// subjects are the subjects of what f selects, or nil for all. Only a collision of
// SHA-256 could let two names share one.
func (f Filter) subjects() []string {
	if f.Lock == "" && f.Agent == "" && len(f.Kinds) == 0 {
		return nil
	}
	agent, name, kinds := "*", ">", []string{"*"}
	if f.Agent != "" {
		agent = string(f.Agent)
	}
	if f.Lock != "" {
		name = string(appendName(nil, string(f.Lock)))
	}
	if len(f.Kinds) > 0 {
		kinds = nil
		for _, k := range f.Kinds {
			kinds = append(kinds, k.String())
		}
		slices.Sort(kinds)
		kinds = slices.Compact(kinds)
	}
	subjects := make([]string, len(kinds))
	for i, kind := range kinds {
		subjects[i] = subjectRoot + agent + "." + kind + "." + name
	}
	return subjects
}
