package queue

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/internal/wire"
)

const (
	// MaxMessage is what a stream and a server must take: a batch, or a record whose texts are
	// all as long as they can be, and maxHeader bytes of subject and header.
	MaxMessage = 128 << 10
	maxHeader  = 2 << 10

	// A batch has about so many bytes, and twice as many at most.
	maxBatchBytes = (MaxMessage - maxHeader) / 2
)

// Message is what is published: one record, or a batch of records of one lock. It has no text: to encode
// the records again each time they are sent takes less memory, and so less time, than to keep what was encoded.
type Message struct {
	ID          string
	Subject     string
	TraceParent string
	Items       []*Item       // the records; they do not change any more
	follows     events.Place  // of an EventAgentStarted
	dropped     *events.Drops // of an EventDropped

	Last  uint64 // the greatest number of its records
	Size  int    // about how many bytes it has
	Facts int
	From  uint64 // no record that left the queue with it, or later, has a lower order

	Floor uint64 // no copy of the message is in the stream at or below this position
	Sent  int    // how often
}

// First is the least number of its records.
func (m *Message) First() uint64 { return m.Last - uint64(len(m.Items)) + 1 }

// Batch reports whether the message is a batch of CloudEvents, and not one.
func (m *Message) Batch() bool { return len(m.Items) > 1 }

// grown is the size of the message with one record more.
func (m *Message) grown(it *Item) int {
	if n := len(m.Items); n > 0 && m.Items[n-1].Tabular() && it.Extends(&m.Items[n-1].Fact) {
		return m.Size + it.RowSize()
	}
	return m.Size + it.Size()
}

// add adds a record, with which the message has the size. Its number is known later.
func (m *Message) add(it *Item, size int) {
	m.Items = append(m.Items, it)
	m.Size = size
	m.Facts += int(it.facts)
}

// Packer gives records their numbers and makes messages of them. It has no goroutine.
type Packer struct {
	agent   lockagent.AgentID
	epoch   uint64
	prefix  string       // of subjects
	Follows events.Place // the last record of an earlier epoch
	Last    uint64       // the last number that was given

	out   []*Message
	from  uint64
	tails map[lockagent.Name]int // the last item of each lock
	heads []int                  // the first item of each lock
	next  []int                  // the item that follows an item, or 0
	text  []byte
	facts []*wire.Fact
}

func NewPacker(agent lockagent.AgentID, epoch uint64, prefix string) Packer {
	return Packer{agent: agent, epoch: epoch, prefix: prefix, tails: make(map[lockagent.Name]int)}
}

// Pack returns messages with all items, which left the queue at once. missing is what was
// dropped since the call before; from is a lower bound of the order of the items. The result
// is valid until the next call.
//
// The first message has one record. So two publishers that share an identity both begin with
// the same message id, and the stream takes one of them.
func (p *Packer) Pack(items []*Item, missing events.Drops, from uint64, wall time.Time) []*Message {
	p.out, p.from = p.out[:0], from
	if p.Last == 0 && len(items) > 0 {
		p.alone(items[0])
		items = items[1:]
	}
	if n := missing.Sum(); n > 0 {
		// What was dropped was older than all grants and ends that are left.
		p.Last += n
		told := missing
		it := new(Item)
		it.Fact = wire.FactOf(&lockagent.Event{Kind: lockagent.EventDropped, Time: wall})
		p.leave(&Message{Items: []*Item{it}, Size: it.Size(), dropped: &told})
	}
	for len(items) > 0 {
		n := 0
		for n < len(items) && !standsAlone(items[n]) {
			n++
		}
		p.group(items[:n])
		if n < len(items) {
			p.alone(items[n])
			n++
		}
		items = items[n:]
	}
	return p.out
}

func standsAlone(it *Item) bool {
	return events.Urgent(it.Kind) || it.Common.Lock == ""
}

// group makes messages of items whose order matters only within each lock.
func (p *Packer) group(items []*Item) {
	clear(p.tails)
	p.heads = p.heads[:0]
	p.next = append(p.next[:0], make([]int, len(items))...)
	for i := range items {
		name := items[i].Common.Lock
		if tail, ok := p.tails[name]; ok {
			p.next[tail] = i
		} else {
			p.heads = append(p.heads, i)
		}
		p.tails[name] = i
	}
	for _, head := range p.heads {
		p.chain(items, head)
	}
}

// chain makes messages of the records of one lock, of which head is the first.
func (p *Packer) chain(items []*Item, head int) {
	m := &Message{}
	for i, more := head, true; more; i, more = p.next[i], p.next[i] != 0 {
		size := m.grown(items[i])
		if n := len(m.Items); n == wire.MaxRecords || n > 0 && size > maxBatchBytes {
			p.leave(m)
			m = &Message{}
			size = items[i].Size()
		}
		m.add(items[i], size)
	}
	p.leave(m)
}

// alone makes a message of one item.
func (p *Packer) alone(it *Item) {
	m := &Message{}
	m.add(it, it.Size())
	if it.Kind == lockagent.EventAgentStarted {
		m.follows = p.Follows
	}
	p.leave(m)
}

// leave adds a message that has all its records to those that leave, and gives the records their numbers.
func (p *Packer) leave(m *Message) {
	p.Last += uint64(len(m.Items))
	m.Last, m.From = p.Last, p.from
	m.ID = MessageID{p.agent, p.epoch, m.First(), m.Last}.String()
	first := &m.Items[0].Fact
	p.text = events.AppendSubject(p.text[:0], p.prefix, p.agent, first.Kind, first.Common.Lock)
	m.Subject = string(p.text)
	if !m.Batch() {
		m.TraceParent = first.TraceParent
	}
	p.out = append(p.out, m)
}

// Encode appends the text of a message. It is the same each time.
func (p *Packer) Encode(b []byte, m *Message) []byte {
	if m.Batch() {
		b = append(b, '[')
	}
	p.facts = p.facts[:0]
	for _, it := range m.Items {
		p.facts = append(p.facts, &it.Fact)
	}
	with := wire.Added{
		Epoch: p.epoch, Seq: m.First(), FollowsEpoch: m.follows.Epoch, FollowsSeq: m.follows.Seq,
		Dropped: (*[wire.Drops]uint32)(m.dropped),
	}
	var last wire.Before
	var e lockagent.Event
	for facts := p.facts; len(facts) > 0; {
		if len(facts) < len(m.Items) {
			b = append(b, ',')
		}
		n := wire.TableLen(facts)
		if n > 1 {
			b = wire.AppendTable(b, p.agent, facts[:n], with, &last)
		} else {
			n = 1
			facts[0].Event(&e)
			e.Agent = p.agent
			b = wire.AppendRecord(b, &e, with, &last)
		}
		with.Seq += uint64(n)
		facts = facts[n:]
	}
	if m.Batch() {
		b = append(b, ']')
	}
	return b
}

// Bound cuts what is too long to be sent, and so too long to be kept. Only requests that were refused for their names,
// and texts for people, are ever that long.
func Bound(e *lockagent.Event) {
	if e.Grace != nil {
		boundGrace(e)
	}
	if r, p := &e.Reset, &e.Process; len(e.Store)+len(e.Lock)+len(e.LockKind)+len(e.Mode)+len(e.Owner)+
		len(e.Incarnation)+len(e.Permit)+len(e.Holder)+len(e.Operator)+len(e.Err)+len(e.TraceParent)+len(e.Link)+
		len(r.From)+len(r.To)+len(r.Reason)+len(r.Store)+len(p.Host)+len(p.Program)+len(p.Version)+len(p.User)+
		len(p.Command) <= wire.MaxText {
		return // nearly all are so short
	}
	for _, text := range []*string{
		&e.Store, (*string)(&e.Lock), (*string)(&e.LockKind), (*string)(&e.Mode), (*string)(&e.Owner),
		&e.Incarnation, (*string)(&e.Permit), &e.Holder, &e.Operator, &e.Err, &e.TraceParent, &e.Link,
		&e.Reset.From, &e.Reset.To, &e.Reset.Reason, &e.Reset.Store,
	} {
		*text = cut(*text)
	}
	e.Process = e.Process.Who().Process()
}

// maxRoll is how many agents of a grace period are named.
const maxRoll = 512

// boundGrace cuts what is too long of a grace period. What is no name of an agent is counted only.
func boundGrace(e *lockagent.Event) {
	g := *e.Grace
	g.Incarnation, g.Reason, g.Roll = cut(g.Incarnation), cut(g.Reason), nil
	for _, agent := range e.Grace.Roll {
		if _, err := lockagent.ParseAgentID(string(agent)); err == nil && len(g.Roll) < maxRoll {
			g.Roll = append(g.Roll, agent)
		} else {
			g.More++
		}
	}
	e.Grace = &g
}

// cut returns a text that can be sent, or a copy of the beginning of one that is too long.
func cut(text string) string {
	if len(text) <= wire.MaxText {
		return text
	}
	end := wire.MaxText
	for end > wire.MaxText-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return strings.Clone(text[:end])
}
