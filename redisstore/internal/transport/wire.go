package transport

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strconv"
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

// sayHello says who the program is, and has the server say what it is.
func (n *Node) sayHello(ctx context.Context, w *wire) error {
	hello := []string{"HELLO", "3"}
	user, password, err := n.credentials(ctx)
	switch {
	case err != nil:
		return err
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
