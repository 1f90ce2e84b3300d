package transport

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"
)

// Node is one server, and the connections to it.
type Node struct {
	addr   string
	config *Config
	login  login
	life   context.Context // done when the node is given up
	end    context.CancelFunc
	dialer *dialer
	direct [tracks]exchange // of the tracks of the node's lane
	lone   exchange         // of a lone caller

	builder rueidis.Builder // of their commands

	asking    chan struct{} // capacity 1: has an element while questions is looked at or made
	questions *session      // nil before the first question
}

// login is how to get in.
type login struct {
	user, password string
	database       int

	// ask, if not nil, is asked at each connection for the user and the password.
	ask func(ctx context.Context) (user, password string, err error)
}

// credentials are the user and the password of the next connection.
func (n *Node) credentials(ctx context.Context) (user, password string, err error) {
	l := &n.login
	if l.ask == nil {
		return l.user, l.password, nil
	}
	ctx, cancel := n.dialer.bound(ctx)
	defer cancel()
	told, err := consult(ctx, n.dialer, "Config.Credentials", func() (told [2]string, err error) {
		told[0], told[1], err = l.ask(ctx)
		return told, err
	})
	if err != nil {
		return "", "", fmt.Errorf("nobody tells the password: %w", err)
	}
	return told[0], told[1], nil
}

// newNode makes a node without connecting to it.
func (s *Servers) newNode(addr string, how login, changed func()) *Node {
	n := &Node{addr: addr, config: &s.config, login: how, asking: make(chan struct{}, 1)}
	n.life, n.end = context.WithCancel(s.life)
	n.dialer = newDialer(n.life, n.config, changed)
	for i := range n.direct {
		l := newLine(n)
		n.direct[i], n.builder = l.exchange, l.client.B()
	}
	n.lone = newLine(n).exchange
	return n
}

// close cuts all connections of the node, which serves nobody any more.
func (n *Node) close() {
	n.end()
	n.asking <- struct{}{}
	defer func() { <-n.asking }()
	if n.questions != nil {
		n.questions.close()
	}
}

// Connected is when the connection for questions was made. It is zero if there was none yet.
func (n *Node) Connected() time.Time {
	n.asking <- struct{}{}
	defer func() { <-n.asking }()
	if n.questions == nil {
		return time.Time{}
	}
	return n.questions.wire.made
}

// Addr is the node's address: host:port, or the path of a socket.
func (n *Node) Addr() string { return n.addr }
