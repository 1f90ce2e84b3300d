package transport

import (
	"bufio"
	"strconv"
)

// guard reads the connection of a line, and lets the client library see nothing but whole replies. The library trusts
// what it reads: a length that is none, or one of a terabyte, would end the process. And it reads ahead: a reply too
// many would count as that to the next command. A guard gives the library one reply at a time, so what is too much
// stays here.
type guard struct {
	*conn
	from  *bufio.Reader
	reply []byte // what the library has not read yet
	whole []byte // the memory of reply
	room  int    // of the reply that is read, in bytes
}

func newGuard(c *conn) *guard { return &guard{conn: c, from: bufio.NewReaderSize(c, readBuffer)} }

// idle reports whether nothing has come that nobody has asked for.
func (g *guard) idle() bool { return len(g.reply) == 0 && g.from.Buffered() == 0 }

// Write writes commands. None is under way before the first of them.
func (g *guard) Write(b []byte) (int, error) {
	if g.asked.Load() == 0 && !g.idle() {
		return 0, errUnsent // for what came unasked would be taken for a reply
	}
	return g.conn.Write(b)
}

func (g *guard) Read(b []byte) (int, error) {
	if len(g.reply) == 0 {
		g.whole, g.room = g.whole[:0], maxReply
		if cap(g.whole) > readBuffer {
			g.whole = nil
		}
		if err := g.value(maxNested); err != nil {
			return 0, err
		}
		g.reply = g.whole
	}
	n := copy(b, g.reply)
	g.reply = g.reply[n:]
	return n, nil
}

// value adds the next value.
func (g *guard) value(nested int) error {
	line, err := g.from.ReadSlice('\n')
	if err != nil {
		return err
	}
	if g.room -= eachReply + len(line); len(line) < 3 || line[len(line)-2] != '\r' || g.room < 0 || nested == 0 {
		return errGarbage
	}
	g.whole = append(g.whole, line...)
	switch kind := line[0]; kind {
	case '+', '-', ':', ',', '(':
		return nil
	case '#', '_': // the library does not look for the end of the line
		if want := map[byte]int{'#': len("#t\r\n"), '_': len("_\r\n")}[kind]; len(line) != want {
			return errGarbage
		}
		return nil
	case '$', '!', '=', '*', '~', '>', '%':
		n, err := strconv.Atoi(string(line[1 : len(line)-2]))
		null := n == -1 && (kind == '$' || kind == '*')
		if err != nil || n < 0 && !null || n > g.room {
			return errGarbage
		}
		if kind == '$' || kind == '!' || kind == '=' {
			return g.blob(n)
		}
		if kind == '%' {
			n *= 2
		}
		for ; n > 0 && err == nil; n-- {
			err = g.value(nested - 1)
		}
		return err
	}
	return errGarbage
}

// blob adds a text of n bytes, and the end of its line. It takes memory as the bytes come.
func (g *guard) blob(n int) error {
	if n < 0 {
		return nil
	}
	g.room -= n
	for left := n + 2; left > 0; {
		b, err := g.from.Peek(min(left, readBuffer))
		if err != nil {
			return err
		}
		g.whole = append(g.whole, b...)
		left -= len(b)
		_, _ = g.from.Discard(len(b))
	}
	return nil
}
