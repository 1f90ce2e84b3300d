package audit

// heap finds the one that has the least time. The zero heap is empty.
type heap[T any] struct{ spots []*spot[T] }

// spot is the place of something in a heap. The zero spot is in none.
type spot[T any] struct {
	of    T
	at    int64
	index int // from 1
}

// set puts x in its place, whether it was in the heap or not.
func (h *heap[T]) set(i *spot[T], x T, at int64) {
	switch {
	case i.index == 0:
		i.of = x
		h.spots = append(h.spots, i)
		i.index = len(h.spots)
	case i.at == at:
		return
	}
	i.at = at
	h.up(i.index)
	h.down(i.index)
}

// remove takes a spot out, if it is in the heap.
func (h *heap[T]) remove(i *spot[T]) {
	n, last := i.index, len(h.spots)
	if n == 0 {
		return
	}
	h.swap(n, last)
	clear(h.spots[last-1:])
	h.spots = h.spots[:last-1]
	*i = spot[T]{}
	if n < last {
		h.up(n)
		h.down(n)
	}
}

// least returns the spot with the least time, or nil.
func (h *heap[T]) least() *spot[T] {
	if len(h.spots) == 0 {
		return nil
	}
	return h.spots[0]
}

// before calls visit with all whose time is before a limit, in no order.
func (h *heap[T]) before(limit int64, visit func(T)) { h.below(1, limit, visit) }

func (h *heap[T]) below(n int, limit int64, visit func(T)) {
	if n > len(h.spots) || h.at(n) >= limit {
		return
	}
	visit(h.spots[n-1].of)
	h.below(2*n, limit, visit)
	h.below(2*n+1, limit, visit)
}

func (h *heap[T]) at(n int) int64 { return h.spots[n-1].at }

func (h *heap[T]) up(n int) {
	for n > 1 && h.at(n) < h.at(n/2) {
		h.swap(n, n/2)
		n /= 2
	}
}

func (h *heap[T]) down(n int) {
	for {
		least := n
		for child := 2 * n; child <= 2*n+1 && child <= len(h.spots); child++ {
			if h.at(child) < h.at(least) {
				least = child
			}
		}
		if least == n {
			return
		}
		h.swap(n, least)
		n = least
	}
}

func (h *heap[T]) swap(n, m int) {
	h.spots[n-1], h.spots[m-1] = h.spots[m-1], h.spots[n-1]
	h.spots[n-1].index, h.spots[m-1].index = n, m
}
