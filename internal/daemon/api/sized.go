package api

import (
	"encoding/binary"
	"io"
	"net/http"
	"strings"
)

// sized looks for a message of a request that is too large. Package connect refuses it, and tells nobody but the
// client.
type sized struct {
	io.ReadCloser
	most     int64  // bytes in a message
	tooLarge func() // is called once at most

	framed bool   // each message has a header
	header []byte // what has come of the next one
	left   int64  // bytes of the message that have not come
	seen   int64  // bytes of a message without a header
	told   bool
}

// headerLen is the length of the header of a message: a byte with flags, and the length of the message in four.
const headerLen = 5

// sizedBody is the body of a request.
func sizedBody(r *http.Request, most int, tooLarge func()) io.ReadCloser {
	kind := r.Header.Get("Content-Type")
	framed := strings.HasPrefix(kind, connectStream) || strings.HasPrefix(kind, "application/grpc")
	return &sized{ReadCloser: r.Body, most: int64(most), tooLarge: tooLarge, framed: framed}
}

// Read implements [io.Reader].
func (s *sized) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if !s.framed {
		s.seen += int64(n)
		s.judge(s.seen)
		return n, err
	}
	for came := p[:n]; len(came) > 0; {
		of := min(int64(len(came)), s.left)
		if s.left == 0 {
			of = int64(min(len(came), headerLen-len(s.header)))
			s.header = append(s.header, came[:of]...)
		} else {
			s.left -= of
		}
		came = came[of:]
		if len(s.header) == headerLen {
			s.left, s.header = int64(binary.BigEndian.Uint32(s.header[1:])), s.header[:0]
			s.judge(s.left)
		}
	}
	return n, err
}

func (s *sized) judge(size int64) {
	if size > s.most && !s.told {
		s.told = true
		s.tooLarge()
	}
}
