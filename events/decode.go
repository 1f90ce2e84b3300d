package events

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/lockagent/lockagent"
)

// envelope and payload mirror what Append writes.
type envelope struct {
	SpecVersion     string   `json:"specversion"`
	ID              string   `json:"id"`
	Source          string   `json:"source"`
	Type            string   `json:"type"`
	Subject         string   `json:"subject"`
	Time            string   `json:"time"`
	DataContentType string   `json:"datacontenttype"`
	Sequence        string   `json:"sequence"`
	TraceParent     string   `json:"traceparent"`
	Data            *payload `json:"data"`
}

type payload struct {
	Lock        lockagent.Name      `json:"lock"`
	Owner       lockagent.Owner     `json:"owner"`
	Request     uint64              `json:"request"`
	Tenure      uint64              `json:"tenure"`
	Token       lockagent.Token     `json:"token"`
	How         string              `json:"how"`
	Count       int                 `json:"count"`
	Waiters     int                 `json:"waiters"`
	Waited      int64               `json:"waited_us"`
	Held        int64               `json:"held_us"`
	Lease       int64               `json:"lease_us"`
	Remaining   int64               `json:"remaining_us"`
	StoreTime   lockagent.StoreTime `json:"store_time_us"`
	Until       lockagent.StoreTime `json:"until_us"`
	Incarnation string              `json:"incarnation"`
	Reason      string              `json:"reason"`
	Err         string              `json:"error"`
	Reset       struct {
		From   string              `json:"from"`
		To     string              `json:"to"`
		Reason string              `json:"reason"`
		After  lockagent.StoreTime `json:"after_us"`
		Before lockagent.StoreTime `json:"before_us"`
		Store  string              `json:"store"`
	} `json:"reset"`
}

var kindOf = func() map[string]lockagent.EventKind {
	kinds := make(map[string]lockagent.EventKind)
	for k, text := range typeOf {
		kinds[text] = k
	}
	return kinds
}()

// Decode is the inverse of [Append]. It ignores attributes and fields that it
// does not know, which a later version may add, and returns an error for
// everything else that Append does not write.
func Decode(text []byte) (Record, error) {
	var env envelope
	if err := json.Unmarshal(text, &env); err != nil {
		return Record{}, fmt.Errorf("events: decode: %w", err)
	}
	r, err := env.record()
	if err == nil {
		err = env.Data.fill(&r.Event)
	}
	if err == nil && env.Subject != "" && env.Subject != string(r.Lock) {
		err = fmt.Errorf("subject %q is not the lock %q", env.Subject, r.Lock)
	}
	if err != nil {
		return Record{}, fmt.Errorf("events: decode: %w", err)
	}
	return r, nil
}

// record returns the record without its data.
func (env *envelope) record() (Record, error) {
	r := Record{Event: lockagent.Event{TraceParent: env.TraceParent}}
	if env.SpecVersion != specVersion {
		return r, fmt.Errorf("specversion is %q, not %q", env.SpecVersion, specVersion)
	}
	if env.Data == nil {
		return r, errors.New("it has no data")
	}
	if env.DataContentType != "" && env.DataContentType != dataType {
		return r, fmt.Errorf("datacontenttype is %q, not %q", env.DataContentType, dataType)
	}
	var ok bool
	if r.Kind, ok = kindOf[env.Type]; !ok {
		return r, fmt.Errorf("unknown type %q", env.Type)
	}
	agent, ok := strings.CutPrefix(env.Source, sourceRoot)
	r.Agent = lockagent.AgentID(agent)
	if !ok || !validAgent(r.Agent) {
		return r, fmt.Errorf("source %q is not %s<agent>", env.Source, sourceRoot)
	}
	if r.Epoch, r.Seq, ok = parseSequence(env.Sequence); !ok {
		return r, fmt.Errorf("bad sequence %q", env.Sequence)
	}
	if id := appendID(nil, r.Agent, r.Epoch, r.Seq); string(id) != env.ID {
		return r, fmt.Errorf("id is %q, but source and sequence say %q", env.ID, id)
	}
	if env.Time != "" {
		t, err := time.Parse(time.RFC3339Nano, env.Time)
		if err != nil {
			return r, err
		}
		r.Time = t.UTC().Truncate(time.Microsecond)
		if y := r.Time.Year(); y < 0 || y > 9999 {
			return r, fmt.Errorf("time %q is out of range", env.Time)
		}
	}
	return r, nil
}

// parseSequence is the inverse of appendSequence.
func parseSequence(text string) (epoch, seq uint64, ok bool) {
	before, after, _ := strings.Cut(text, "-")
	epoch, err1 := strconv.ParseUint(before, 10, 64)
	seq, err2 := strconv.ParseUint(after, 10, 64)
	ok = err1 == nil && err2 == nil && epoch >= 1 && epoch <= maxEpoch && seq >= 1 && seq <= maxSeq &&
		string(appendSequence(nil, epoch, seq)) == text
	return epoch, seq, ok
}

var errDuration = errors.New("a duration is out of range")

func (p *payload) fill(e *lockagent.Event) error {
	e.Lock, e.Owner, e.Request, e.Tenure, e.Token = p.Lock, p.Owner, p.Request, p.Tenure, p.Token
	e.Count, e.Waiters = p.Count, p.Waiters
	e.StoreTime, e.Until, e.Incarnation, e.Err = p.StoreTime, p.Until, p.Incarnation, p.Err
	e.Reset = lockagent.Reset(p.Reset)
	switch p.How {
	case "":
	case lockagent.ByStore.String():
		e.How = lockagent.ByStore
	case lockagent.ByHandOff.String():
		e.How = lockagent.ByHandOff
	default:
		return fmt.Errorf("unknown how %q", p.How)
	}
	var ok bool
	if e.Reason, ok = lockagent.ParseLossReason(p.Reason); !ok {
		return fmt.Errorf("unknown reason %q", p.Reason)
	}
	for _, d := range []struct {
		to *time.Duration
		us int64
	}{{&e.Waited, p.Waited}, {&e.Held, p.Held}, {&e.Lease, p.Lease}, {&e.Remaining, p.Remaining}} {
		const most = math.MaxInt64 / int64(time.Microsecond)
		if d.us > most || d.us < -most {
			return errDuration
		}
		*d.to = time.Duration(d.us) * time.Microsecond
	}
	return nil
}
