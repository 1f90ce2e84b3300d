package events

import (
	"sync"
	"time"
	"unicode/utf8"

	"github.com/lockagent/lockagent"
)

const (
	// A batch has at most so many records, and its message so many bytes.
	maxBatch      = 256
	maxBatchBytes = 64 << 10

	// maxMessage is what a stream and a server must take: a batch, or a record whose texts are
	// all as long as they can be.
	maxMessage = 2 * maxBatchBytes

	// maxText bounds each text of an event. Names and owners that are valid are shorter.
	maxText = 1024
)

// message is what is published: one record, or a batch of records of one lock.
type message struct {
	id          string
	subject     string
	traceParent string
	batch       bool
	body        []byte

	last    uint64 // the greatest number of its records
	records int
	facts   int
	from    uint64 // no record that left the queue with it, or later, has a lower order

	floor uint64 // no copy of the message is in the stream at or below this position
	sent  int    // how often
}

// first is the least number of its records.
func (m *message) first() uint64 { return m.last - uint64(m.records) + 1 }

// bodies has the memory of messages that are settled.
var bodies = sync.Pool{New: func() any { return new([]byte) }}

func newBody() []byte { return (*bodies.Get().(*[]byte))[:0] }

func (m *message) free() {
	body := m.body
	m.body = nil
	bodies.Put(&body)
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
	if n := missing.sum(); n > 0 {
		// What was dropped was older than all grants and ends that are left.
		p.last += n
		p.single(&lockagent.Event{Kind: lockagent.EventDropped, Time: wall}, 0, &missing)
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
	body := append(newBody(), '[')
	m := &message{}
	var last before
	var e lockagent.Event
	for i, more := head, true; more; i, more = p.next[i], p.next[i] != 0 {
		start := len(body)
		items[i].event(&e)
		body = p.append(body, &e, nil, &last)
		if m.records == maxBatch || m.records > 0 && len(body) >= maxBatchBytes {
			rest := append(append(newBody(), '['), body[start:]...)
			p.finish(m, body[:start])
			body, m, last = rest, &message{}, before{}
		}
		if m.records == 0 {
			p.address(m, &e)
		}
		body = append(body, ',')
		m.records++
		m.facts += items[i].facts
		m.last = p.last
	}
	p.finish(m, body)
}

// finish completes a message whose body is '[' and the records with a comma behind each.
func (p *packer) finish(m *message, body []byte) {
	if m.records > 1 {
		m.batch, m.traceParent = true, ""
		body[len(body)-1] = ']'
	} else {
		body = append(body[:0], body[1:len(body)-1]...)
	}
	p.leave(m, body)
}

// alone makes a message of one item.
func (p *packer) alone(it *item) {
	var e lockagent.Event
	it.event(&e)
	p.single(&e, it.facts, nil)
}

func (p *packer) single(e *lockagent.Event, facts int, dropped *Drops) {
	m := &message{records: 1, facts: facts}
	body := p.append(newBody(), e, dropped, new(before))
	m.last = p.last
	p.address(m, e)
	p.leave(m, body)
}

// append gives e the next number and appends the record.
func (p *packer) append(b []byte, e *lockagent.Event, dropped *Drops, last *before) []byte {
	p.last++
	e.Agent = p.agent
	bound(e)
	with := added{epoch: p.epoch, seq: p.last, dropped: dropped}
	if e.Kind == lockagent.EventAgentStarted {
		with.follows = p.follows
	}
	return appendRecord(b, e, with, last)
}

// address says where a message goes, whose first record is e.
func (p *packer) address(m *message, e *lockagent.Event) {
	p.text = AppendSubject(p.text[:0], p.prefix, p.agent, e.Kind, e.Lock)
	m.subject, m.traceParent = string(p.text), e.TraceParent
}

// leave adds a message that is complete to those that leave.
func (p *packer) leave(m *message, body []byte) {
	m.body, m.from = body, p.from
	m.id = messageID{p.agent, p.epoch, m.first(), m.last}.String()
	p.out = append(p.out, m)
}

// bound cuts what is too long to be sent. Only requests that were refused for their names, and
// texts for people, are ever that long.
func bound(e *lockagent.Event) {
	if r, p := &e.Reset, &e.Process; len(e.Store)+len(e.Lock)+len(e.LockKind)+len(e.Mode)+len(e.Owner)+
		len(e.Incarnation)+len(e.Holder)+len(e.Operator)+len(e.Err)+len(e.TraceParent)+len(e.Link)+
		len(r.From)+len(r.To)+len(r.Reason)+len(r.Store)+len(p.Host)+len(p.Program)+len(p.Version) <= maxText {
		return // nearly all are so short
	}
	for _, text := range []*string{
		&e.Store, (*string)(&e.Lock), (*string)(&e.LockKind), (*string)(&e.Mode), (*string)(&e.Owner),
		&e.Incarnation, &e.Holder, &e.Operator, &e.Err, &e.TraceParent, &e.Link,
		&e.Reset.From, &e.Reset.To, &e.Reset.Reason, &e.Reset.Store,
		&e.Process.Host, &e.Process.Program, &e.Process.Version,
	} {
		if len(*text) <= maxText {
			continue
		}
		end := maxText
		for end > maxText-utf8.UTFMax && !utf8.RuneStart((*text)[end]) {
			end--
		}
		*text = (*text)[:end]
	}
}
