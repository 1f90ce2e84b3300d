package eventscmd

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent/events"
)

func TestProgress(t *testing.T) {
	const records, width = 40 * progressStep, 80
	for name, test := range map[string]struct {
		width int
		share float64
		want  string // the last line
	}{
		"terminal":      {width, 0.4999, "read 10,240 events, 2,560/s, at position 10,241, 49.9 %"},
		"unknown share": {width, -1, "read 10,240 events, 2,560/s, at position 10,241"},
		"narrow":        {20, 0.5, "read 10,240 events,"},
		"no terminal":   {0, 0.5, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				p := &progress{out: &out, width: test.width, share: func(uint64) float64 { return test.share }, began: time.Now()}
				stop, visited := errors.New("stop"), 0
				visit := p.watch(func(*events.Record, error) error {
					visited++
					if visited == records {
						return stop
					}
					return nil
				})
				var err error
				for i := range records {
					if i%progressStep == 0 {
						time.Sleep(progressEvery / 2) // so that it is shown every second time
					}
					err = visit(&events.Record{Position: uint64(i) + 2}, nil)
				}
				if visited != records || !errors.Is(err, stop) {
					t.Errorf("visited %d records, and the last one said %v", visited, err)
				}
				lines := strings.Split(out.String(), "\r\x1b[K")
				if got := lines[len(lines)-1]; got != test.want {
					t.Errorf("the line is %q, want %q", got, test.want)
				}
				// Each is shown at most every progressEvery, after progressAfter.
				if n := len(lines) - 1; test.width > 0 && n != 16 {
					t.Errorf("the line changed %d times, want 16", n)
				}
				p.clear()
				if test.width > 0 && !strings.HasSuffix(out.String(), "\r\x1b[K") {
					t.Error("the line stays")
				}
			})
		})
	}
}
