package claims

// list has the claims on a lock that wait for it, or those that hold it, the oldest first. The mutex of the book guards
// it.
type list struct {
	first, last *claim
	len         int
}

func (l *list) add(c *claim) {
	c.among, c.prev, c.next = l, l.last, nil
	if l.last == nil {
		l.first = c
	} else {
		l.last.next = c
	}
	l.last = c
	l.len++
}

// remove takes a claim out of the list that it is in.
func (c *claim) remove() {
	l := c.among
	if c.prev == nil {
		l.first = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		l.last = c.prev
	} else {
		c.next.prev = c.prev
	}
	c.among, c.prev, c.next = nil, nil, nil
	l.len--
}
