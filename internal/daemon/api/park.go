package api

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/lockagent/lockagent/internal/daemon/claims"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// parked has the streams of claims that have had nothing to tell for a while, and whose connections carry nothing else.
//
// The server of net/http has two goroutines with deep stacks for such a stream, and buffers. Together they are several
// times what the claim itself needs, and a claim may be held for days. A parked stream has left the server with its
// connection. It has one goroutine, which waits for the end of the connection, and another one while there is something
// to tell.
//
// A stream can be parked if its client speaks the Connect protocol over HTTP/1.1, and has said that it makes no other
// request on the connection. So nothing follows the stream that the server would have to read.
type parked struct {
	quiet time.Duration // after which a stream is parked

	mu     sync.Mutex // guards what follows
	open   map[*parkedStream]struct{}
	closed bool
	all    sync.WaitGroup // of the goroutines
}

// place is where a call can park its stream. It is in the context of the call.
type place struct {
	after  time.Duration
	out    *cutWriter
	stream *claims.Stream // that was parked, or nil
}

type placeKey struct{}

// placeOf returns the place for the stream of a call, or nil if it cannot be parked. A call that has a deadline ends
// with it.
func placeOf(ctx context.Context) *place {
	p, _ := ctx.Value(placeKey{}).(*place)
	if _, ends := ctx.Deadline(); ends {
		return nil
	}
	return p
}

// quiet returns a channel that has a value when the stream is to be parked. Call stop in the end. A stream whose answer
// has not begun is not parked: the server has not sent the header yet.
func (p *place) quiet(begun bool) (c <-chan time.Time, stop func()) {
	if p == nil || !begun {
		return nil, func() {}
	}
	t := time.NewTimer(p.after)
	return t.C, func() { t.Stop() }
}

// parked reports whether there is a stream.
func (p *place) parked() bool { return p != nil && p.stream != nil }

// park takes the stream. The call has to return: what it still writes is not sent.
func (p *place) park(s *claims.Stream) {
	p.stream, p.out.cut = s, true
}

const connectStream = "application/connect+"

// wrap parks the streams of a handler.
func (k *parked) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		codec, ok := strings.CutPrefix(r.Header.Get("Content-Type"), connectStream)
		if !ok || !r.Close || r.ProtoMajor != 1 || r.ProtoMinor < 1 {
			next.ServeHTTP(w, r)
			return
		}
		p := &place{after: k.quiet, out: &cutWriter{ResponseWriter: w}}
		next.ServeHTTP(p.out, r.WithContext(context.WithValue(r.Context(), placeKey{}, p)))
		if p.stream == nil {
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			p.stream.Close()
			return
		}
		k.add(&parkedStream{conn: conn, stream: p.stream, json: strings.HasPrefix(codec, "json")})
	})
}

// add adds a stream.
func (k *parked) add(s *parkedStream) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		_ = s.conn.Close()
		s.stream.Close()
		return
	}
	k.open[s] = struct{}{}
	k.all.Go(func() {
		s.watch()
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.open, s)
	})
	k.all.Go(func() {
		// The stream may have had something to tell since the call left it.
		news := func() {
			if s.begin() {
				k.all.Go(s.tell)
			}
		}
		s.stream.Notify(news)
		news()
	})
}

// hangUp ends the connections that have not ended when ctx does. It returns when all have ended.
func (k *parked) hangUp(ctx context.Context) {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	over := make(chan struct{})
	go func() {
		k.all.Wait()
		close(over)
	}()
	select {
	case <-over:
		return
	case <-ctx.Done():
	}
	k.mu.Lock()
	for s := range k.open {
		_ = s.conn.Close()
	}
	k.mu.Unlock()
	<-over
}

// parkedStream is a stream with its connection.
type parkedStream struct {
	conn   net.Conn
	stream *claims.Stream
	json   bool // and not binary

	mu      sync.Mutex // guards what follows
	telling bool       // a goroutine tells the client what there is
	again   bool       // there is more since it looked
}

// watch waits for the end of the connection, and ends the stream. The client has said that nothing follows: if it
// says more, that is the end as well, for a client could keep the daemon busy for ever with text that nobody needs.
func (s *parkedStream) watch() {
	_, _ = s.conn.Read(make([]byte, 1))
	_ = s.conn.Close()
	s.stream.Close()
}

// begin notes that there is something to tell, and reports whether a goroutine is to call tell. There is one at a time:
// if the client does not read, that one waits for as long as the claim goes on.
func (s *parkedStream) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.again = true
	begins := !s.telling
	s.telling = true
	return begins
}

// more reports whether there is more to tell since it was called last. If not, the goroutine that tells has to end.
func (s *parkedStream) more() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.telling, s.again = s.again, false
	return s.telling
}

// tell tells the client what there is. When it was the last, or cannot be told, it ends the connection, and nothing
// more is told.
func (s *parkedStream) tell() {
	for s.more() {
		if !s.tellAll() {
			_ = s.conn.Close()
			return
		}
	}
}

// tellAll reports whether there may be more to tell later.
func (s *parkedStream) tellAll() bool {
	for {
		e, err := s.stream.Take()
		if e == nil && err == nil {
			return true
		}
		if err == nil {
			err = s.send(alone(s.stream, e))
		} else { // it is over
			_ = s.write(endOfStream, []byte("{}"), "\r\n")
		}
		if err != nil {
			return false
		}
	}
}

// send writes a message.
func (s *parkedStream) send(e *lockagentv1.ClaimEvent) error {
	marshal := proto.Marshal
	if s.json {
		marshal = protojson.Marshal
	}
	payload, err := marshal(e)
	if err != nil {
		return err
	}
	return s.write(0, payload, "")
}

// endOfStream is the flag of the last message of the Connect protocol.
const endOfStream = 2

// write writes a message of the Connect protocol as a chunk of HTTP/1.1. After the last message comes the last chunk,
// and the end of the chunks.
func (s *parkedStream) write(flags byte, payload []byte, end string) error {
	framed := append(binary.BigEndian.AppendUint32([]byte{flags}, uint32(len(payload))), payload...)
	var text bytes.Buffer
	chunks := httputil.NewChunkedWriter(&text)
	_, _ = chunks.Write(framed) // into memory
	if end != "" {
		_ = chunks.Close() // likewise
	}
	_, _ = text.WriteString(end) // likewise
	_, err := s.conn.Write(text.Bytes())
	return err
}

// cutWriter writes an answer until it is cut.
type cutWriter struct {
	http.ResponseWriter
	cut bool
}

// Write implements [http.ResponseWriter].
func (c *cutWriter) Write(p []byte) (int, error) {
	if c.cut {
		return len(p), nil
	}
	return c.ResponseWriter.Write(p)
}

// Flush implements [http.Flusher].
func (c *cutWriter) Flush() {
	if !c.cut {
		_ = http.NewResponseController(c.ResponseWriter).Flush() // as its neighbours, who have no error to return
	}
}

// Unwrap is for [http.ResponseController].
func (c *cutWriter) Unwrap() http.ResponseWriter { return c.ResponseWriter }
