package transport

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// wire is a connection that has greeted the server, and speaks RESP3.
type wire struct {
	*conn
	decoder

	greeting Greeting
}

// connect makes a connection to the node.
func (n *Node) connect(ctx context.Context) (*wire, error) {
	ctx, cancel := context.WithTimeout(ctx, n.config.Dial)
	defer cancel()
	c, err := n.dialer.dial(ctx, n.addr, false)
	if err != nil {
		return nil, err
	}
	w := &wire{conn: c, decoder: decoder{r: bufio.NewReaderSize(c, readBuffer)}}
	undo := context.AfterFunc(ctx, func() { _ = c.Conn.Close() })
	if err = n.sayHello(ctx, w); err == nil && !undo() {
		err = ctx.Err()
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return w, nil
}

// readBuffer holds the replies to a batch of calls.
const readBuffer = 1 << 15

// meet calls [Config.Meet] for a connection of a line. The client library greets the server once more.
func (n *Node) meet(ctx context.Context, c *conn, user, password string) error {
	if n.config.Meet == nil {
		return nil
	}
	ends := time.Now().Add(n.config.Silence)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(ends) {
		ends = deadline
	}
	_ = c.SetDeadline(ends)
	w := &wire{conn: c, decoder: decoder{r: bufio.NewReaderSize(c, readBuffer)}}
	if err := n.greets(w, user, password); err != nil {
		return err
	}
	err := n.config.Meet(n, func(script *Script, keys, args []string) Reply {
		command := append([]string{"EVAL", script.Source, strconv.Itoa(len(keys))}, keys...)
		if _, err := w.Write(appendCommand(nil, append(command, args...)...)); err != nil {
			return Reply{err: err}
		}
		reply, err := w.reply()
		if err != nil {
			return Reply{err: err}
		}
		return reply
	})
	if err == nil && w.r.Buffered() > 0 {
		return errUnasked
	}
	_ = c.SetDeadline(time.Time{})
	return err
}

// sayHello says who the program is, and has the server say what it is.
func (n *Node) sayHello(ctx context.Context, w *wire) error {
	user, password, err := n.credentials(ctx)
	if err != nil {
		return err
	}
	return n.greets(w, user, password)
}

// greets is sayHello with the user and the password.
func (n *Node) greets(w *wire, user, password string) (err error) {
	hello := []string{"HELLO", "3"}
	switch {
	case user != "":
		hello = append(hello, "AUTH", user, password)
	case password != "":
		hello = append(hello, "AUTH", "default", password)
	}
	if n.config.ClientName != "" {
		hello = append(hello, "SETNAME", n.config.ClientName)
	}
	replies := make([]Reply, 1, 2)
	out := appendCommand(nil, hello...)
	if n.login.database != 0 {
		out = appendCommand(out, "SELECT", strconv.Itoa(n.login.database))
		replies = replies[:2]
	}
	if _, err := w.Write(out); err != nil {
		return err
	}
	for i := range replies {
		if replies[i], err = w.reply(); err != nil {
			if i == 0 && n.config.TLS == nil && n.config.Network == "tcp" &&
				(isCut(err) || errors.Is(err, errGarbage)) {
				err = fmt.Errorf("the server ended the connection at the first command: "+
					"if its port has TLS, write rediss:// in place of redis://: %w", err)
			}
			return err
		}
	}
	about, err := replies[0].Texts()
	if err != nil {
		return err
	}
	w.greeting = Greeting{Version: about["version"], Mode: about["mode"]}
	return replies[len(replies)-1].Err()
}
