package events

import "github.com/lockagent/lockagent"

// blockLen is how many items are allocated together: few enough that an agent
// with little to tell stays small, many enough that allocating is rare.
const blockLen = 256

// item is an event that waits for its acknowledgement.
type item struct {
	event lockagent.Event
	seq   uint64
	floor uint64 // no copy of the event is in the stream at or below this position
	acked bool
}

// queue holds the events that are not known to be in the stream, oldest first.
// It takes memory for what it holds, in blocks, and gives it back.
//
// An item is named by its index, which counts all items that were ever pushed:
//
//	head            next              tail
//	 | sent           | to be sent      | to be pushed
//
// Items between head and next may be acknowledged in any order; head moves over
// those that are.
type queue struct {
	head, next, tail uint64
	limit            uint64
	blocks           []*[blockLen]item // a ring; nil where nothing is held
	spare            *[blockLen]item   // the last block that was let go, zeroed
}

func newQueue(limit int) queue {
	// One block more than what limit fills: head and tail seldom start a block.
	return queue{limit: uint64(limit), blocks: make([]*[blockLen]item, limit/blockLen+2)}
}

// push adds an event, or reports false if the queue is full.
func (q *queue) push(e lockagent.Event, seq uint64) bool {
	if q.tail-q.head >= q.limit {
		return false
	}
	block := q.block(q.tail)
	if *block == nil {
		if q.spare == nil {
			q.spare = new([blockLen]item)
		}
		*block, q.spare = q.spare, nil
	}
	(*block)[q.tail%blockLen] = item{event: e, seq: seq}
	q.tail++
	return true
}

// take returns the next item to send and its index, or nil if there is none or
// the window, counted from the oldest item, is used up.
func (q *queue) take(window uint64) (*item, uint64) {
	for q.next < q.tail && q.at(q.next).acked {
		q.next++
	}
	if q.next == q.tail || q.next-q.head >= window {
		return nil, 0
	}
	q.next++
	return q.at(q.next - 1), q.next - 1
}

// ack settles item i and reports whether it was held and not settled before.
func (q *queue) ack(i uint64) bool {
	if i < q.head || i >= q.tail || q.at(i).acked {
		return false
	}
	q.at(i).acked = true
	for q.head < q.tail && q.at(q.head).acked {
		*q.at(q.head) = item{} // let go of its strings
		q.head++
		if q.head%blockLen == 0 {
			block := q.block(q.head - 1)
			q.spare, *block = *block, nil
		}
	}
	q.next = max(q.next, q.head)
	return true
}

// rewind has every item sent again that is not acknowledged.
func (q *queue) rewind() { q.next = q.head }

// at returns the item with index i, which must be held.
func (q *queue) at(i uint64) *item { return &(*q.block(i))[i%blockLen] }

func (q *queue) block(i uint64) **[blockLen]item {
	return &q.blocks[i/blockLen%uint64(len(q.blocks))]
}

func (q *queue) empty() bool { return q.head == q.tail }
