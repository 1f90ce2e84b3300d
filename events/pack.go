package events

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lockagent/lockagent"
)

const (
	// maxMessage is what a stream and a server must take: a batch, or a record whose texts are
	// all as long as they can be, and maxHeader bytes of subject and header.
	maxMessage = 128 << 10
	maxHeader  = 2 << 10

	// A batch has about so many bytes, and twice as many at most.
	maxBatchBytes = (maxMessage - maxHeader) / 2
)

// message is what is published: one record, or a batch of records of one lock. It has no text: to encode
// the records again each time they are sent takes less memory, and so less time, than to keep what was encoded.
type message struct {
	id          string
	subject     string
	traceParent string
	items       []*item // the records; they do not change any more
	follows     Place   // of an EventAgentStarted
	dropped     *Drops  // of an EventDropped

	last  uint64 // the greatest number of its records
	size  int    // about how many bytes it has
	facts int
	from  uint64 // no record that left the queue with it, or later, has a lower order

	floor uint64 // no copy of the message is in the stream at or below this position
	sent  int    // how often
}

// first is the least number of its records.
func (m *message) first() uint64 { return m.last - uint64(len(m.items)) + 1 }

// batch reports whether the message is a batch of CloudEvents, and not one.
func (m *message) batch() bool { return len(m.items) > 1 }

// grown is the size of the message with one record more.
func (m *message) grown(it *item) int {
	if n := len(m.items); n > 0 && m.items[n-1].tabular() && it.extends(&m.items[n-1].fact) {
		return m.size + it.rowSize()
	}
	return m.size + it.size()
}

// add adds a record, with which the message has the size. Its number is known later.
func (m *message) add(it *item, size int) {
	m.items = append(m.items, it)
	m.size = size
	m.facts += int(it.facts)
}

// packer gives records their numbers and makes messages of them. It has no goroutine.
type packer struct {
	agent   lockagent.AgentID
	epoch   uint64
	prefix  string // of subjects
	follows Place  // the last record of an earlier epoch
	last    uint64 // the last number that was given

	out   []*message
	from  uint64
	tails map[lockagent.Name]int // the last item of each lock
	heads []int                  // the first item of each lock
	next  []int                  // the item that follows an item, or 0
	text  []byte
	facts []*fact
}

func newPacker(agent lockagent.AgentID, epoch uint64, prefix string) packer {
	return packer{agent: agent, epoch: epoch, prefix: prefix, tails: make(map[lockagent.Name]int)}
}

// pack returns messages with all items, which left the queue at once. missing is what was
// dropped since the call before; from is a lower bound of the order of the items. The result
// is valid until the next call.
//
// The first message has one record. So two publishers that share an identity both begin with
// the same message id, and the stream takes one of them.
func (p *packer) pack(items []*item, missing Drops, from uint64, wall time.Time) []*message {
	p.out, p.from = p.out[:0], from
	if p.last == 0 && len(items) > 0 {
		p.alone(items[0])
		items = items[1:]
	}
	if n := missing.Sum(); n > 0 {
		// What was dropped was older than all grants and ends that are left.
		p.last += n
		told := missing
		it := new(item)
		it.fact = factOf(&lockagent.Event{Kind: lockagent.EventDropped, Time: wall})
		p.leave(&message{items: []*item{it}, size: it.size(), dropped: &told})
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

func standsAlone(it *item) bool {
	return Urgent(it.Kind) || it.common.Lock == ""
}

// group makes messages of items whose order matters only within each lock.
func (p *packer) group(items []*item) {
	clear(p.tails)
	p.heads = p.heads[:0]
	p.next = append(p.next[:0], make([]int, len(items))...)
	for i := range items {
		name := items[i].common.Lock
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
func (p *packer) chain(items []*item, head int) {
	m := &message{}
	for i, more := head, true; more; i, more = p.next[i], p.next[i] != 0 {
		size := m.grown(items[i])
		if n := len(m.items); n == MaxRecords || n > 0 && size > maxBatchBytes {
			p.leave(m)
			m = &message{}
			size = items[i].size()
		}
		m.add(items[i], size)
	}
	p.leave(m)
}

// alone makes a message of one item.
func (p *packer) alone(it *item) {
	m := &message{}
	m.add(it, it.size())
	if it.Kind == lockagent.EventAgentStarted {
		m.follows = p.follows
	}
	p.leave(m)
}

// leave adds a message that has all its records to those that leave, and gives the records their numbers.
func (p *packer) leave(m *message) {
	p.last += uint64(len(m.items))
	m.last, m.from = p.last, p.from
	m.id = messageID{p.agent, p.epoch, m.first(), m.last}.String()
	first := &m.items[0].fact
	p.text = AppendSubject(p.text[:0], p.prefix, p.agent, first.Kind, first.common.Lock)
	m.subject = string(p.text)
	if !m.batch() {
		m.traceParent = first.TraceParent
	}
	p.out = append(p.out, m)
}

// encode appends the text of a message. It is the same each time.
func (p *packer) encode(b []byte, m *message) []byte {
	if m.batch() {
		b = append(b, '[')
	}
	p.facts = p.facts[:0]
	for _, it := range m.items {
		p.facts = append(p.facts, &it.fact)
	}
	with := added{
		Epoch: p.epoch, Seq: m.first(), FollowsEpoch: m.follows.Epoch, FollowsSeq: m.follows.Seq,
		Dropped: (*[drops]uint32)(m.dropped),
	}
	var last before
	var e lockagent.Event
	for facts := p.facts; len(facts) > 0; {
		if len(facts) < len(m.items) {
			b = append(b, ',')
		}
		n := tableLen(facts)
		if n > 1 {
			b = appendTable(b, p.agent, facts[:n], with, &last)
		} else {
			n = 1
			facts[0].event(&e)
			e.Agent = p.agent
			b = appendRecord(b, &e, with, &last)
		}
		with.Seq += uint64(n)
		facts = facts[n:]
	}
	if m.batch() {
		b = append(b, ']')
	}
	return b
}

// bound cuts what is too long to be sent, and so too long to be kept. Only requests that were refused for their names, and
// texts for people, are ever that long.
func bound(e *lockagent.Event) {
	if r, p := &e.Reset, &e.Process; len(e.Store)+len(e.Lock)+len(e.LockKind)+len(e.Mode)+len(e.Owner)+
		len(e.Incarnation)+len(e.Permit)+len(e.Holder)+len(e.Operator)+len(e.Err)+len(e.TraceParent)+len(e.Link)+
		len(r.From)+len(r.To)+len(r.Reason)+len(r.Store)+len(p.Host)+len(p.Program)+len(p.Version)+len(p.User)+len(p.Command) <= maxText {
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

// cut returns a text that can be sent, or a copy of the beginning of one that is too long.
func cut(text string) string {
	if len(text) <= maxText {
		return text
	}
	end := maxText
	for end > maxText-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return strings.Clone(text[:end])
}
