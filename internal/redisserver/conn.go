package redisserver

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// Conn is one connection to a server. It speaks just enough of the protocol
// (RESP2) to run and watch a server, and shares no code with what is tested. It is for one
// goroutine at a time.
type Conn struct {
	conn net.Conn
	r    *bufio.Reader
}

// Error is an error reply.
type Error string

func (e Error) Error() string { return string(e) }

// Dial connects to a server, and says the password of its default user if there is
// one.
func Dial(addr, password string) (*Conn, error) {
	conn, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return nil, err
	}
	c := &Conn{conn: conn, r: bufio.NewReader(conn)}
	if password != "" {
		if _, err := c.Do("AUTH", password); err != nil {
			c.Close()
			return nil, err
		}
	}
	return c, nil
}

// Close closes the connection.
func (c *Conn) Close() { _ = c.conn.Close() }

// Do runs one command and returns its reply: a string, an int64, nil, or a []any
// of replies. An error reply is returned as an [Error].
func (c *Conn) Do(args ...string) (any, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	if _, err := io.WriteString(c.conn, b.String()); err != nil {
		return nil, err
	}
	return c.Receive()
}

// Receive waits for one more reply: a message of a subscription, or a line of
// MONITOR.
func (c *Conn) Receive() (any, error) {
	_ = c.conn.SetReadDeadline(time.Now().Add(patience))
	return c.read()
}

func (c *Conn) read() (any, error) {
	line, err := c.r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" {
		return nil, fmt.Errorf("redisserver: empty reply")
	}
	kind, rest := line[0], line[1:]
	switch kind {
	case '+':
		return rest, nil
	case '-':
		return nil, Error(rest)
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("redisserver: reply %q: %w", line, err)
	}
	switch {
	case kind == ':':
		return n, nil
	case n < 0:
		return nil, nil
	case kind == '$':
		b := make([]byte, n+2)
		if _, err := io.ReadFull(c.r, b); err != nil {
			return nil, err
		}
		return string(b[:n]), nil
	case kind == '*':
		replies := make([]any, n)
		for i := range replies {
			replies[i], err = c.read()
			if inner := Error(""); errors.As(err, &inner) {
				replies[i] = inner
			} else if err != nil {
				return nil, err
			}
		}
		return replies, nil
	}
	return nil, fmt.Errorf("redisserver: reply %q", line)
}
