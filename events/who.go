package events

import (
	"encoding/json"
	"hash/maphash"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/lockagent/lockagent"
)

// Who is a [lockagent.Who] as reports write it: as a [Process] without a version.
type Who struct{ lockagent.Who }

// MarshalJSON implements [json.Marshaler].
func (w Who) MarshalJSON() ([]byte, error) { return json.Marshal(Process(w.Process())) }

// UnmarshalJSON implements [json.Unmarshaler].
func (w *Who) UnmarshalJSON(b []byte) error {
	var p Process
	err := json.Unmarshal(b, &p)
	w.Who = lockagent.Process(p).Who()
	return err
}

// WhoText is who has a lock or waits for it, for people. It is the process that asked for the lock, as
// [lockagent.Who.String] writes it. If this process is not known, or is that of the agent, it is the owner: what is said
// of the agent tells its process.
func WhoText(who Who, owner lockagent.Owner, agent lockagent.AgentID, of Process) string {
	if who.IsZero() || who.Is(of) {
		return OwnerText(owner, agent)
	}
	return who.String()
}

// Is reports whether w is the process of an agent.
func (w Who) Is(of Process) bool {
	p := w.Process()
	return p.PID == of.PID && p.Host == of.Host
}

// appendWho appends who asked for the lock. Most records have that as the one before.
func appendWho(b []byte, w lockagent.Who, last *before) []byte {
	if w.IsZero() {
		return b
	}
	start := len(b)
	if last.of == w {
		b = append(b, b[last.who.from:last.who.to]...)
	} else {
		p := w.Process()
		b = appendProcess(b, `,"who":`, &p)
	}
	last.of, last.who = w, stretch{start, len(b)}
	return b
}

// whoSize is about how many bytes a Who has in a record, as [fact.size].
func whoSize(w lockagent.Who) int {
	if w.IsZero() {
		return 0
	}
	p := w.Process()
	return 50 + 3*(len(p.Host)+len(p.Program)+len(p.Version)+len(p.User)+len(p.Command))
}

const (
	whoSlots = 256  // a power of 2
	whoBytes = 1024 // of a text that is remembered: nearly all are shorter
)

// people remembers what the texts of some Whos say, because most come again and again. Each slot has the last text that
// fell into it.
type people struct {
	seed  maphash.Seed
	slots [whoSlots]struct {
		text string
		says lockagent.Who
	}
}

func newPeople() *people { return &people{seed: maphash.MakeSeed()} }

// who reads who asked for the lock.
func (d *decoder) who(v jsontext.Value, r *Record) error {
	slot := &d.people.slots[maphash.Bytes(d.people.seed, v)%whoSlots]
	if slot.text != "" && slot.text == string(v) {
		r.Who = slot.says
		return nil
	}
	unknown := d.unknown
	d.unknown = false
	d.asks = lockagent.Process{}
	err := d.members(v, processNames, r, (*decoder).ofWho)
	r.Who = d.asks.Who()
	if err == nil && !d.unknown && len(v) <= whoBytes {
		slot.text, slot.says = string(v), r.Who
	}
	d.unknown = d.unknown || unknown
	return err
}

func (d *decoder) ofWho(i int, v jsontext.Value, _ *Record) error {
	return d.processField(i, v, &d.asks)
}

// who adds what w says, which is not zero, to a sum.
func (s *summer) who(w lockagent.Who) {
	p := w.Process()
	s.pair(uint64(p.PID), 1)
	for _, text := range [...]string{p.Host, p.Program, p.Version, p.User, p.Command} {
		s.text(text)
	}
}
