//go:build linux

package servecmd

import (
	"bytes"
	"io"
	"log/slog"
	"sync/atomic"
	"time"
)

// logQueue is a writer for the log of a daemon, which never waits: somebody who does not read the log keeps nobody from
// an answer.
type logQueue struct {
	lines  chan []byte
	lost   atomic.Uint64 // lines since the last one that was written
	ending chan struct{} // closed by close
	ended  chan struct{} // closed when all is written
}

var _ io.Writer = (*logQueue)(nil)

const (
	logRoom    = 1024        // lines that nobody has read
	logEndTime = time.Second // for the rest, at the end
)

// newLogQueue begins to write what comes. complain tells of lines that were left out.
func newLogQueue(out io.Writer, complain *slog.Logger) *logQueue {
	q := &logQueue{
		lines: make(chan []byte, logRoom), ending: make(chan struct{}), ended: make(chan struct{}),
	}
	go q.run(out, complain)
	return q
}

// Write implements [io.Writer].
func (q *logQueue) Write(line []byte) (int, error) {
	select {
	case q.lines <- bytes.Clone(line):
	default:
		q.lost.Add(1)
	}
	return len(line), nil
}

func (q *logQueue) run(out io.Writer, complain *slog.Logger) {
	defer close(q.ended)
	write := func(line []byte) {
		_, _ = out.Write(line) // there is no other place to say so
		if n := q.lost.Swap(0); n > 0 {
			complain.Warn("lines of the log were left out, because nobody read it in time", "lines", n)
		}
	}
	for {
		select {
		case line := <-q.lines:
			write(line)
			continue
		case <-q.ending:
		}
		for {
			select {
			case line := <-q.lines:
				write(line)
			default:
				return
			}
		}
	}
}

// close writes the rest, if somebody reads it. What is written later is lost.
func (q *logQueue) close() {
	close(q.ending)
	select {
	case <-q.ended:
	case <-time.After(logEndTime):
	}
}
