package events

import (
	"hash/maphash"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/lockagent/lockagent"
)

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
