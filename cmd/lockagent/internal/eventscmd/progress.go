package eventscmd

import (
	"fmt"
	"io"
	"time"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/readable"
	"github.com/lockagent/lockagent/events"
)

const (
	// progressEvery is how often at most the line changes.
	progressEvery = 200 * time.Millisecond
	// progressAfter is how long a read takes for which there is a line.
	progressAfter = time.Second
	// progressStep is how many records are read between two looks at the clock.
	progressStep = 256
)

// progress shows how far a long read is, in one line of a terminal that changes.
type progress struct {
	out   io.Writer
	width int // of the terminal; 0 if out is none: nothing is shown

	// share is how much of the log has been read at a position, 0 to 1, or negative if that
	// is not known.
	share func(position uint64) float64

	began   time.Time
	changed time.Time
	records uint64
	drawn   bool
}

func newProgress(out io.Writer, share func(position uint64) float64) *progress {
	return &progress{out: out, width: cli.TerminalWidth(out), share: share, began: time.Now()}
}

// watch returns a visit that shows how far it is.
func (p *progress) watch(visit events.Visit) events.Visit {
	if p.width == 0 {
		return visit
	}
	return func(r *events.Record, err error) error {
		p.records++
		if p.records%progressStep == 0 {
			p.show(r.Position, time.Now())
		}
		return visit(r, err)
	}
}

// show changes the line, if it is time to. What cannot be shown does not matter.
func (p *progress) show(position uint64, now time.Time) {
	if now.Sub(p.began) < progressAfter || now.Sub(p.changed) < progressEvery {
		return
	}
	p.changed = now
	text := fmt.Sprintf("read %s events, %s/s, at position %s", readable.Number(p.records),
		readable.Number(int64(float64(p.records)/now.Sub(p.began).Seconds())), readable.Number(position))
	if share := p.share(position); share >= 0 {
		text += ", " + readable.Percent(min(share, 1))
	}
	_, _ = io.WriteString(p.out, "\r\x1b[K"+text[:min(len(text), p.width-1)])
	p.drawn = true
}

// clear takes the line away.
func (p *progress) clear() {
	if p.drawn {
		_, _ = io.WriteString(p.out, "\r\x1b[K") // as for show
		p.drawn = false
	}
}
