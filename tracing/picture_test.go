package tracing

import (
	"context"
	"flag"
	"fmt"
	"html"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/redisstore"
)

var update = flag.Bool("update", false, "draw docs/trace.svg anew")

const pictureFile = "../docs/trace.svg"

// TestPicture draws docs/trace.svg of a real trace, if it is told to, and checks that
// the picture shows what happens: the same spans, with the same parents and links.
func TestPicture(t *testing.T) {
	drawn := draw(handOvers(t))
	if *update {
		if err := os.WriteFile(pictureFile, []byte(drawn), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	file, err := os.ReadFile(pictureFile)
	if err != nil {
		t.Fatal(err)
	}
	got, want := structure(string(file)), structure(drawn)
	if !slices.Equal(got, want) {
		t.Errorf("the picture shows\n  %s\nbut a trace has\n  %s\nDraw it anew: go test ./tracing -run TestPicture -update",
			strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
	for _, must := range []string{`bob: hold`, `pass to alice: EVALSHA release`, `handoff to bob: release`} {
		if !strings.Contains(strings.Join(want, "\n"), must) {
			t.Errorf("there is no %q:\n  %s", must, strings.Join(want, "\n  "))
		}
	}
}

// structure is what a picture shows, without times. How often a waiter asks the store
// again is up to chance.
func structure(picture string) []string {
	var all []string
	for _, of := range regexp.MustCompile(`data-span="([^"]*)"`).FindAllStringSubmatch(picture, -1) {
		all = append(all, html.UnescapeString(of[1]))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// handOvers has alice hold a lock in one agent while bob and carol wait for it in
// another one. The store passes it to bob, who hands it off to carol.
func handOvers(t *testing.T) []tracetest.SpanStub {
	r := newRig(t)
	server := redistest.Start(t)
	w := waiting{queued: make(chan lockagent.Owner, 8), placed: make(chan lockagent.Name, 8)}
	first, second := r.agent(t, server.URL(), w), r.agent(t, server.URL(), w)

	unseen := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1},
	}))
	for i, locks := range []*channelapi.Locks{first, second} { // the first call of all takes long
		if _, err := locks.Lock(fmt.Sprint("warm/", i)).Acquire(unseen); err != nil {
			t.Fatal(err)
		}
	}

	work := func() { // so that there is something to see
		for range 60 {
			server.Do("INCR", "the total of the orders")
		}
	}
	type turn struct {
		ctx   context.Context
		span  trace.Span
		lock  *channelapi.SessionLock
		grant <-chan lockagent.Grant
	}
	asks := func(locks *channelapi.Locks, who string) turn {
		var of turn
		of.ctx, of.span = r.sdk.Tracer("application").Start(context.Background(), who)
		session, err := locks.Session(who)
		if err != nil {
			t.Fatal(err)
		}
		of.lock = session.Lock("orders/42")
		of.grant = of.lock.AcquireAsync(of.ctx)
		return of
	}
	works := func(of turn) {
		g := <-of.grant
		if g.Err() != nil {
			t.Fatal(g.Err())
		}
		work()
		if err := of.lock.Release(of.ctx); err != nil {
			t.Fatal(err)
		}
		of.span.End()
	}
	alice := asks(first, "alice")
	if g := <-alice.grant; g.Err() != nil {
		t.Fatal(g.Err())
	}
	bob := asks(second, "bob")
	<-w.queued
	<-w.placed
	work()
	carol := asks(second, "carol")
	<-w.queued
	work()
	if err := alice.lock.Release(alice.ctx); err != nil {
		t.Fatal(err)
	}
	alice.span.End()
	works(bob)
	works(carol)
	return r.spans.GetSpans()
}

// waiting tells who waits, in the agent and in the store.
type waiting struct {
	lockagent.Store
	queued chan lockagent.Owner
	placed chan lockagent.Name
}

// Unwrap is for [lockagent.Layer].
func (w waiting) Unwrap() lockagent.Store { return w.Store }

// Record implements [lockagent.Recorder].
func (w waiting) Record(_ context.Context, e lockagent.Event) {
	if e.Kind == lockagent.EventQueued {
		w.queued <- e.Owner
	}
}

// Acquire implements [lockagent.Store].
func (w waiting) Acquire(ctx context.Context, req lockagent.AcquireRequest, done func(lockagent.AcquireReply, error)) {
	w.Store.Acquire(ctx, req, func(reply lockagent.AcquireReply, err error) {
		if reply.Queued {
			w.placed <- req.Name
		}
		done(reply, err)
	})
}

func (r *rig) agent(t *testing.T, url string, w waiting) *channelapi.Locks {
	store, err := redisstore.Config{DialTimeout: time.Minute, GraceFirst: redisstore.NoGraceFirst}.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	w.Store = store
	locks, err := channelapi.New(channelapi.Config{
		Store: Store(w, r.Config), Recorder: Recorder(w, r.Config), HandOffTime: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = locks.Close()
		_ = store.Close()
	})
	return locks
}

// picture is what draw draws. The callers are the roots of the traces.
type picture struct {
	strings.Builder
	spans []tracetest.SpanStub
	from  time.Time
	scale float64 // pixels a second
	rows  map[trace.SpanID]int
}

// Sizes in pixels.
const (
	labels    = 190
	rowHeight = 24
	barHeight = 14
	width     = 900
	margin    = 80 // on the right, for the names of links
)

var colours = map[string]string{"acquire": "#d29922", "hold": "#2da44e", "release": "#8250df"}

func draw(spans []tracetest.SpanStub) string {
	slices.SortStableFunc(spans, func(a, b tracetest.SpanStub) int { return a.StartTime.Compare(b.StartTime) })
	p := &picture{spans: spans, from: spans[0].StartTime, rows: make(map[trace.SpanID]int)}
	var to time.Time
	for _, s := range spans {
		if s.EndTime.After(to) {
			to = s.EndTime
		}
	}
	p.scale = (width - labels - margin) / to.Sub(p.from).Seconds()
	fmt.Fprintf(p, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d"
	font-family="sans-serif" font-size="12" fill="#57606a">
<defs><marker id="to" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
	<path d="M0 0 8 4 0 8z" fill="#cf222e"/></marker></defs>
<rect width="100%%" height="100%%" fill="#fff"/>
`, width, (len(spans)+1)*rowHeight)
	for _, s := range spans {
		if !s.Parent.IsValid() {
			p.tree(s, 0)
		}
	}
	for _, s := range spans {
		p.links(s)
	}
	fmt.Fprintf(
		p, "<text x=\"%d\" y=\"%d\">0 ms</text>\n<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%.1f ms</text>\n</svg>\n",
		labels, (len(spans)+1)*rowHeight-8, width-margin, (len(spans)+1)*rowHeight-8, to.Sub(p.from).Seconds()*1000,
	)
	return p.String()
}

// tree draws a span and those below it.
func (p *picture) tree(s tracetest.SpanStub, depth int) {
	row := len(p.rows)
	p.rows[s.SpanContext.SpanID()] = row
	x, end := p.x(s.StartTime), p.x(s.EndTime)
	middle := row*rowHeight + rowHeight/2
	fmt.Fprintf(p, "<g data-span=\"%s\">\n", html.EscapeString(p.describe(s)))
	fmt.Fprintf(p, "<text x=\"%d\" y=\"%d\">%s</text>\n", 10+14*depth, middle+4, s.Name)
	fmt.Fprintf(
		p, "<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" rx=\"2\" fill=\"%s\"><title>%s</title></rect>\n", x,
		middle-barHeight/2, max(2, end-x), barHeight, colour(s), p.title(s),
	)
	for _, e := range s.Events {
		fmt.Fprintf(
			p, "<circle cx=\"%.1f\" cy=\"%d\" r=\"3\" fill=\"#fff\" stroke=\"#57606a\"><title>%s</title></circle>\n",
			p.x(e.Time), middle, e.Name,
		)
	}
	p.WriteString("</g>\n")
	for _, child := range p.spans {
		if child.Parent.SpanID() == s.SpanContext.SpanID() {
			p.tree(child, depth+1)
		}
	}
}

func colour(s tracetest.SpanStub) string {
	switch known := colours[s.Name]; {
	case known != "":
		return known
	case s.SpanKind == trace.SpanKindClient:
		return "#0969da"
	}
	return "#8c959f"
}

func (p *picture) x(at time.Time) float64 { return labels + at.Sub(p.from).Seconds()*p.scale }

// links draws an arrow to what a span is linked to.
func (p *picture) links(s tracetest.SpanStub) {
	for _, link := range s.Links {
		to := p.find(link.SpanContext.SpanID())
		x1, y1 := p.x(s.StartTime), p.rows[s.SpanContext.SpanID()]*rowHeight+rowHeight/2
		x2, y2 := p.x(to.EndTime), p.rows[to.SpanContext.SpanID()]*rowHeight+rowHeight/2
		fmt.Fprintf(
			p,
			"<path d=\"M%.1f %d C%.1f %d %.1f %d %.1f %d\" fill=\"none\" stroke=\"#cf222e\" stroke-dasharray=\"4 3\" "+
				"marker-end=\"url(#to)\"/>\n",
			x1, y1, x1-30, y1, x2+50, y2, x2+3, y2,
		)
		fmt.Fprintf(
			p, "<text x=\"%.1f\" y=\"%d\" fill=\"#cf222e\">%s</text>\n", x2+14, y2+rowHeight-4,
			link.Attributes[0].Value.String(),
		)
	}
}

func (p *picture) find(id trace.SpanID) tracetest.SpanStub {
	for _, s := range p.spans {
		if s.SpanContext.SpanID() == id {
			return s
		}
	}
	return tracetest.SpanStub{Name: "nothing"}
}

// called is the name of a span with that of the caller before it.
func (p *picture) called(s tracetest.SpanStub) string {
	root := s
	for root.Parent.IsValid() {
		root = p.find(root.Parent.SpanID())
	}
	return root.Name + ": " + s.Name
}

func (p *picture) describe(s tracetest.SpanStub) string {
	text := p.called(s)
	if s.Parent.IsValid() {
		text += " in " + p.find(s.Parent.SpanID()).Name
	}
	for _, link := range s.Links {
		text += ", " + link.Attributes[0].Value.String() + " to " + p.called(p.find(link.SpanContext.SpanID()))
	}
	return text
}

// title is what a browser shows of a span that the mouse is over.
func (p *picture) title(s tracetest.SpanStub) string {
	text := fmt.Sprintf("%s, %.2f ms", s.Name, s.EndTime.Sub(s.StartTime).Seconds()*1000)
	for _, kv := range s.Attributes {
		switch kv.Key {
		case "lockagent.lock.name", "lockagent.owner", "lockagent.outcome", "lockagent.how", "db.stored_procedure.name",
			"db.system.name":
			text += fmt.Sprintf("\n%s = %s", kv.Key, kv.Value.String())
		}
	}
	return html.EscapeString(text)
}
