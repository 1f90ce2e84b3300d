package faultproxy

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// link is one connection of a client, and the one to the server behind it.
type link struct {
	client *net.TCPConn
	loss   atomic.Pointer[loss] // of the replies from now on, if set
	ended  context.Context      // done when the link is cut
	end    context.CancelFunc

	mu     sync.Mutex // protects server, which is set once while a cut may come
	server *net.TCPConn
}

// loss is a reply that is to be lost.
type loss struct {
	to   []byte
	done chan struct{} // closed when it has happened
}

func newLink(client *net.TCPConn) *link {
	l := &link{client: client}
	l.ended, l.end = context.WithCancel(context.Background())
	return l
}

// dial connects the server's side. It reports false if the server cannot be
// reached or the link was cut in the meantime.
func (l *link) dial(target string) bool {
	conn, err := new(net.Dialer).DialContext(l.ended, "tcp", target)
	if err != nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended.Err() != nil {
		_ = conn.Close()
		return false
	}
	l.server = conn.(*net.TCPConn)
	return true
}

// cut closes both sides. Cut again, it does nothing.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end()
	_ = l.client.Close()
	if l.server != nil {
		_ = l.server.Close()
	}
}

const pieceSize = 64 << 10

// forwardRequests forwards the client's bytes to the server, until one of them ends, or a reply is to
// be lost. Then it closes the direction to the server, so the server closes its side when it has
// processed everything.
func (p *Proxy) forwardRequests(l *link) {
	buf := make([]byte, pieceSize)
	for more := true; more; {
		n, err := l.client.Read(buf)
		if !p.requests.hold(l.ended) {
			return
		}
		last := err != nil
		if found := p.takeLoss(buf[:n]); found != nil {
			l.loss.Store(found) // before the server has the request
			last = true
		}
		more = l.pass(&p.requests, l.server, buf[:n], last)
	}
}

// forwardReplies takes what the server sends to the client, until either ends.
func (p *Proxy) forwardReplies(l *link) {
	buf := make([]byte, pieceSize)
	for more := true; more; {
		n, err := l.server.Read(buf)
		if lost := l.loss.Load(); lost != nil {
			_, _ = io.Copy(io.Discard, l.server)
			l.cut()
			close(lost.done)
			return
		}
		if !p.replies.hold(l.ended) {
			return
		}
		more = l.pass(&p.replies, l.client, buf[:n], err != nil)
	}
}

// pass sends to what the lane admits of a piece, and, behind the last, the end
// of the connection. It reports whether more may follow.
func (l *link) pass(by *lane, to *net.TCPConn, piece []byte, last bool) bool {
	n, swallow, cut := by.admit(len(piece))
	if n > 0 {
		if _, err := to.Write(piece[:n]); err != nil {
			cut = true
		}
	}
	if cut {
		l.cut()
		return false
	}
	if last && !swallow {
		_ = to.CloseWrite()
	}
	return !last
}
