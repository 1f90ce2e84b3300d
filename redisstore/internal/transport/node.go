package transport

import (
	"context"
	"time"

	"github.com/redis/rueidis"
)

// Node is one server, and the connections to it.
type Node struct {
	addr   string
	life   context.Context // done when the node is given up
	end    context.CancelFunc
	dialer *dialer
	client rueidis.Client         // for questions and subscriptions
	direct [tracks]rueidis.Client // for the tracks of the node's lane
}

// newNode makes a node without connecting to it.
func (s *Servers) newNode(addr string, option rueidis.ClientOption, changed func()) *Node {
	n := &Node{addr: addr}
	n.life, n.end = context.WithCancel(s.life)
	n.dialer = newDialer(n.life, s.config.Network, s.config.Silence, changed)
	option.InitAddress = []string{addr}
	option.ForceSingleClient = true // makes a client even while the dialer refuses; the client dials when it is used
	option.DialCtxFn = n.dialer.dial
	n.client, _ = rueidis.NewClient(option)
	option.DialCtxFn = n.dialer.dialDirect
	option.AlwaysPipelining = false
	option.ReadBufferEachConn, option.WriteBufferEachConn = 1<<16, 1<<16
	option.Dialer.KeepAlive = -1 // the probes of the client would meet an exchange
	for i := range n.direct {
		n.direct[i], _ = rueidis.NewClient(option)
	}
	n.dialer.ready.Store(true)
	return n
}

// close cuts all connections of the node, which serves nobody any more.
func (n *Node) close() {
	n.end()
	n.client.Close()
	for _, c := range n.direct {
		c.Close()
	}
}

// Addr is the node's address: host:port, or the path of a socket.
func (n *Node) Addr() string { return n.addr }

// Client is for questions to the node. It has a connection that is none of the lane's. It
// notices at once if that connection is lost, even while nobody asks.
func (n *Node) Client() rueidis.Client { return n.client }

// options are the common options of all clients.
func (c Config) options() rueidis.ClientOption {
	option := rueidis.ClientOption{
		Username:      c.User,
		Password:      c.Password,
		SelectDB:      c.Database,
		ClientName:    c.ClientName,
		ClientSetInfo: rueidis.DisableClientSetInfo, // not every user may
		TLSConfig:     c.TLS,
		// How long a server may take to greet, and to answer an exchange of a lane.
		ConnWriteTimeout: c.Silence,
		// Whoever asked decides whether to ask again.
		DisableRetry: true,
		DisableCache: true,
		// Has a goroutine read all the time. It notices at once if the connection is lost.
		AlwaysPipelining: true,
		// One connection with small buffers is enough for questions to a node.
		PipelineMultiplex:   -1,
		RingScaleEachConn:   8,
		ReadBufferEachConn:  1 << 14,
		WriteBufferEachConn: 1 << 14,
	}
	option.Dialer.Timeout = c.Dial
	option.Dialer.KeepAlive = keepAlive
	return option
}

// keepAlive is how long a connection is silent before TCP probes it.
const keepAlive = 10 * time.Second
