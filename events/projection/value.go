package projection

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/fold"
)

// Version is that of the values. Fields are only added to it.
const Version = 1

// MaxHolders is how many holders a [Value] has at most.
const MaxHolders = 256

// StatusKey is the key of the [Status]. No lock has it.
const StatusKey = "=projection"

// Key is the key of a lock: its name as subjects of the event log have it (see [events.AppendName]). "orders/42" is
// "orders.42", so that whoever watches "orders.>" watches all locks below orders/.
func Key(name lockagent.Name) string { return string(events.AppendName(nil, name)) }

// Value is what the bucket has of a lock that is held.
type Value struct {
	Version int            `json:"version"`
	Lock    lockagent.Name `json:"lock"`

	// Holders are in the order of their tokens. An exclusive lock has one, unless stores are different.
	Holders []Holder `json:"holders"`

	// Count is how many holders there are. It is more than Holders has if these are more than [MaxHolders].
	Count int `json:"count"`
}

// Holder is a hold that goes on, as far as the log tells.
type Holder struct {
	Owner lockagent.Owner `json:"owner,omitempty"`
	// Who is the process that asked for the hold, if that is another one than the agent's.
	Who      fold.Who           `json:"who,omitzero"`
	Token    lockagent.Token    `json:"token,omitempty"`
	Since    time.Time          `json:"since"` // by the clock of the agent
	Mode     lockagent.Mode     `json:"mode,omitempty"`
	Permits  int                `json:"permits,omitempty"` // of a semaphore, where 0 is 1
	Agent    lockagent.AgentID  `json:"agent"`
	Process  fold.Process       `json:"process,omitzero"` // of the agent
	Store    string             `json:"store,omitempty"`
	LockKind lockagent.LockKind `json:"lock_kind,omitempty"`

	// Uncertain is since when the renewals of its lease fail.
	Uncertain time.Time `json:"uncertain,omitzero"`

	// Gone says that the log of its agent has ended while it held the lock.
	Gone bool `json:"gone,omitempty"`

	// Silent is when its agent has said something last, if that is too long ago for an agent that runs.
	Silent time.Time `json:"silent_since,omitzero"`

	// LeaseEnd is when the lease is over, on the clock of the store, if the holder is gone or silent.
	LeaseEnd time.Time `json:"lease_end,omitzero"`
}

// Status is what the bucket has of the projection itself.
type Status struct {
	Version  int       `json:"version"`
	Stream   string    `json:"stream"`   // whose events the bucket has
	Position uint64    `json:"position"` // up to which it has them
	Time     time.Time `json:"time"`     // by the clock of the projector
}

// silence is how long an agent that runs says nothing at most: it says every ten seconds that it is alive.
const silence = 30 * time.Second

// holderOf returns a hold as the bucket has it. seen is when its agent has said something last.
func holderOf(h *fold.Hold, seen, now time.Time) Holder {
	v := Holder{
		Owner: h.Owner, Token: h.Token, Since: h.From, Mode: h.Mode, Permits: h.Permits, Agent: h.Agent, Process: h.Process,
		Store: h.Store, LockKind: h.Kind,
		Uncertain: h.Uncertain, Gone: h.Gone,
	}
	if !h.Who.Is(h.Process) {
		v.Who = h.Who
	}
	if isSilent(seen, now) {
		v.Silent = seen
	}
	if end := h.LeaseEnd(); end != 0 && (v.Gone || !v.Silent.IsZero()) {
		v.LeaseEnd = time.UnixMicro(int64(end)).UTC()
	}
	return v
}

func isSilent(seen, now time.Time) bool { return !seen.IsZero() && now.Sub(seen) > silence }

// valueOf returns the value of a lock, or nil if nobody holds it.
func valueOf(name lockagent.Name, holders []Holder) ([]byte, error) {
	if len(holders) == 0 {
		return nil, nil
	}
	slices.SortFunc(holders, func(a, b Holder) int {
		return cmp.Or(cmp.Compare(a.Store, b.Store), cmp.Compare(a.Token, b.Token), cmp.Compare(a.Agent, b.Agent))
	})
	v := Value{Version: Version, Lock: name, Holders: holders, Count: len(holders)}
	v.Holders = v.Holders[:min(v.Count, MaxHolders)]
	return json.Marshal(v)
}

func statusOf(stream string, position uint64, now time.Time) ([]byte, error) {
	return json.Marshal(Status{Version, stream, position, now.UTC()})
}

// ours reports whether a projector may have written a key and its value.
func ours(key string, value []byte) bool {
	if key == StatusKey {
		return true
	}
	var v Value
	return json.Unmarshal(value, &v) == nil && v.Version >= Version && v.Lock != "" && Key(v.Lock) == key
}
