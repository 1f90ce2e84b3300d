//go:build linux

package servecmd

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// stuck is an output that nobody reads until it is closed.
type stuck struct {
	reads chan struct{}
	text  bytes.Buffer
}

func (s *stuck) Write(text []byte) (int, error) {
	<-s.reads
	return s.text.Write(text)
}

func TestALogThatNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &stuck{reads: make(chan struct{})}
		q := newLogQueue(out, slog.New(slog.NewTextHandler(out, nil)))
		for i := range logRoom + 10 {
			fmt.Fprintf(q, "line %d\n", i)
			synctest.Wait()
		}
		close(out.reads)
		q.close()
		text := out.text.String()
		if !strings.HasPrefix(text, "line 0\n") || !strings.Contains(text, fmt.Sprintf("\nline %d\n", logRoom)) ||
			strings.Contains(text, fmt.Sprintf("\nline %d\n", logRoom+1)) ||
			!strings.Contains(text, "left out, because nobody read it in time\" lines=9\n") {
			t.Errorf("it wrote %s", text)
		}

		out = &stuck{reads: make(chan struct{})}
		q = newLogQueue(out, slog.New(slog.DiscardHandler))
		fmt.Fprintln(q, "a line")
		began := time.Now()
		q.close()
		if took := time.Since(began); took != logEndTime {
			t.Errorf("the end took %v", took)
		}
		close(out.reads)
		synctest.Wait()
	})
}
