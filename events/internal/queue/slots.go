package queue

import "github.com/lockagent/lockagent"

// blockLen is how many items are allocated together: few enough that an agent with little to
// tell stays small, many enough that allocating is rare.
const blockLen = 256

// keptBlocks is how many blocks are kept at least when nothing is queued any more.
const keptBlocks = 16

// slot names an item in [slots]; 0 names none.
type slot uint32

// slots is memory for items. Those that were given back last are taken first, so that a busy
// queue that is short works on little memory. An item stays where it is, and keeps what it has
// until its slot is taken again.
type slots struct {
	blocks []*[blockLen]Item
	free   []slot // those that were given back, the last one at the end
	Used   int
	fresh  slot // the greatest slot that was taken since all were free
}

func (m *slots) at(s slot) *Item { return &m.blocks[(s-1)/blockLen][(s-1)%blockLen] }

func (m *slots) take() slot {
	m.Used++
	if last := len(m.free) - 1; last >= 0 {
		s := m.free[last]
		m.free = m.free[:last]
		return s
	}
	if int(m.fresh) == len(m.blocks)*blockLen {
		m.blocks = append(m.blocks, new([blockLen]Item))
	}
	m.fresh++
	return m.fresh
}

// give takes back a slot.
func (m *slots) give(s slot) {
	if m.Used--; m.Used > 0 {
		m.free = append(m.free, s)
		return
	}
	// What was not needed since the last time is not kept.
	if kept := max(keptBlocks, (int(m.fresh)+blockLen-1)/blockLen); len(m.blocks) > kept {
		m.blocks = append([]*[blockLen]Item(nil), m.blocks[:kept]...)
		m.free = nil
	}
	m.free, m.fresh = m.free[:0], 0
}

// lasts has a slot for each lock. It remembers the answer to the last question, because most records are about the same
// lock as the record before.
type lasts struct {
	slots map[lockagent.Name]slot
	name  lockagent.Name // which was asked for last
	slot  slot           // that of name
}

// at returns the slot of a lock, or 0.
func (l *lasts) at(name lockagent.Name) slot {
	if name != l.name {
		l.name, l.slot = name, l.slots[name]
	}
	return l.slot
}

// set gives a lock another slot, or none if s is 0.
func (l *lasts) set(name lockagent.Name, s slot) {
	l.name, l.slot = name, s
	if s == 0 {
		delete(l.slots, name)
		return
	}
	l.slots[name] = s
}
