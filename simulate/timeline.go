package main

import (
	"cmp"
	"errors"
	"fmt"
	"html"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/lockagent/lockagent/simulate/plan"
)

// Sizes in the timeline, in pixels.
const (
	second    = 120
	rowHeight = 16
	leftEdge  = 90
	topEdge   = 20
)

var lockColours = []string{"#3b6fb6", "#4f9d69", "#b8863b", "#8a5aa8"}

// timeline is a picture of a run: a row for each client, a bar for each hold, and a band for each fault.
type timeline struct {
	outcome *outcome
	clients []int // each has a row
	out     strings.Builder
}

// drawInto writes the timeline of a run into a file.
func drawInto(file string, o *outcome) error {
	to, err := os.Create(file)
	if err != nil {
		return err
	}
	err = draw(to, o)
	return errors.Join(err, to.Close())
}

// draw writes the timeline of a run as SVG.
func draw(w io.Writer, o *outcome) error {
	t := &timeline{outcome: o}
	end := o.plan.Work
	for _, h := range o.holds {
		t.clients = append(t.clients, h.Client)
		end = max(end, h.Ended)
	}
	slices.SortFunc(t.clients, func(a, b int) int { return cmp.Or(plan.AgentOf(a)-plan.AgentOf(b), a-b) })
	t.clients = slices.Compact(t.clients)
	for _, f := range o.plan.Faults {
		t.fault(f)
	}
	for row, client := range t.clients {
		t.text(4, t.top(row)+12, fmt.Sprintf("client %d", client))
	}
	for _, h := range o.holds {
		t.hold(h)
	}
	for _, b := range o.breaches {
		fmt.Fprintf(&t.out, `<line x1="%[1]d" x2="%[1]d" y1="%d" y2="%d" stroke="#d00"><title>%s</title></line>`+"\n",
			t.left(b.At), topEdge, t.top(len(t.clients)), html.EscapeString(b.Text))
	}
	for i, l := range o.plan.Locks {
		y := t.top(len(t.clients)) + 8
		fmt.Fprintf(&t.out, `<rect x="%d" y="%d" width="10" height="10" fill="%s"/>`+"\n", leftEdge+120*i, y, lockColours[i])
		t.text(leftEdge+120*i+14, y+9, l.Name)
	}
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" `+
		`font-family="sans-serif" font-size="10">`+"\n"+`<rect width="100%%" height="100%%" fill="#fff"/>`+"\n%s</svg>\n",
		t.left(end)+20, t.top(len(t.clients))+30, &t.out)
	return err
}

func (t *timeline) left(at time.Duration) int { return leftEdge + int(at.Seconds()*second) }

func (t *timeline) top(row int) int { return topEdge + rowHeight*row }

func (t *timeline) text(x, y int, text string) {
	fmt.Fprintf(&t.out, `<text x="%d" y="%d">%s</text>`+"\n", x, y, html.EscapeString(text))
}

// fault draws a band: over the rows of the agent, if the fault is about one.
func (t *timeline) fault(f plan.Fault) {
	first, last := 0, len(t.clients)
	if f.OfAgent() {
		first = slices.IndexFunc(t.clients, func(client int) bool { return plan.AgentOf(client) == f.Agent })
		last = first
		for last >= 0 && last < len(t.clients) && plan.AgentOf(t.clients[last]) == f.Agent {
			last++
		}
	}
	if first < 0 {
		return // no client of the agent had a hold
	}
	fmt.Fprintf(
		&t.out, `<rect x="%d" y="%d" width="%d" height="%d" fill="#d66" opacity="0.25"><title>%v</title></rect>`+"\n",
		t.left(f.At), t.top(first), max(2, t.left(f.End())-t.left(f.At)), t.top(last)-t.top(first), f,
	)
	t.text(t.left(f.At), topEdge-6, string(f.Kind))
}

// hold draws a line while the client waits, and a bar while it holds the lock. The bar of a reader is thinner.
func (t *timeline) hold(h plan.Hold) {
	row := slices.Index(t.clients, h.Client)
	lock := slices.IndexFunc(t.outcome.plan.Locks, func(l plan.Lock) bool { return l.Name == h.Lock })
	y, height := t.top(row)+3, rowHeight-6
	if h.Shared {
		y, height = y+3, height-6
	}
	fmt.Fprintf(&t.out, `<line x1="%d" x2="%d" y1="%[3]d" y2="%[3]d" stroke="%s" stroke-dasharray="1 2"/>`+"\n",
		t.left(h.Asked), t.left(h.Granted), t.top(row)+rowHeight/2, lockColours[lock])
	fmt.Fprintf(
		&t.out, `<rect x="%d" y="%d" width="%d" height="%d" fill="%s"><title>%s: token %d, from %v to %v</title></rect>`+"\n",
		t.left(h.Granted), y, max(1, t.left(h.Ending)-t.left(h.Granted)), height, lockColours[lock],
		html.EscapeString(h.Lock), h.Token, h.Granted, h.Ending,
	)
}
