package webui

import (
	"fmt"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// html is the content of the first screen.
func (o *overview) html() g.Node {
	return g.Group{
		h.H1(h.Class("sr"), g.Text("Overview")),
		g.If(
			o.Wrong(),
			h.Section(h.Aria("labelledby", "parts"), h.H2(h.ID("parts"), g.Text("The daemon lacks something")), parts(o.Parts)),
		),
		h.Section(h.Class("cards"), h.Aria("label", "Numbers"), o.cards()),
		h.Div(h.Class("columns"),
			h.Section(h.Aria("labelledby", "longest"), h.H2(h.ID("longest"), g.Text("Longest waits")), o.waits()),
			h.Section(h.Aria("labelledby", "losses"), h.H2(h.ID("losses"), g.Text("Lost in the last hour")), o.losses()),
		),
		g.If(!o.Wrong(), h.Section(h.Aria("label", "What the daemon needs"), h.Class("well"), parts(o.Parts))),
	}
}

// parts are what the daemon needs.
func parts(all []Part) g.Node {
	return h.Ul(h.Class("parts"), g.Map(all, func(is Part) g.Node {
		return h.Li(h.Class("part "+string(is.State)), h.Data("key", "part-"+is.Name),
			h.Span(h.Class("dot"), h.Aria("hidden", "true")), h.B(g.Text(is.Name)), space,
			h.Span(h.Class("where"), g.Text(is.Where)), space,
			h.Span(h.Class("say"), g.Text(is.Say)),
		)
	}))
}

// card is a number that leads to what was counted.
type card struct {
	label, url string
	id         string // of the number, or empty
	tone       string // of a number that is not good; else empty
	number     string
	sub        string // what the number says
	line       *spark
}

func (c card) html() g.Node {
	class := "card"
	if c.tone != "" {
		class += " " + c.tone
	}
	return h.A(h.Class(class), h.Href(c.url),
		h.Span(h.Class("label"), g.Text(c.label)),
		h.Span(h.Class("big"), g.If(c.id != "", h.ID(c.id)), g.Text(c.number)),
		h.Span(h.Class("sub"), g.Text(c.sub)),
		c.line.html(),
	)
}

// html is a line with what it shows, or nothing.
func (s *spark) html() g.Node {
	if s == nil {
		return nil
	}
	return g.Group{
		h.SVG(
			h.Class("spark"), g.Attr("viewBox", "0 0 60 20"), g.Attr("preserveAspectRatio", "none"), h.Aria("hidden", "true"),
			g.El("path", g.Attr("d", s.Path)),
		),
		h.Span(h.Class("sub"), g.Text(s.Label)),
	}
}

func (o *overview) cards() g.Node {
	toneOf := func(n int, tone string) string {
		if n == 0 {
			return ""
		}
		return tone
	}
	lost, since := atLeast(o.LostAll, o.LostFull), "in the last hour"
	if o.LostErr != nil {
		lost, since = "–", "the event log is silent"
	}
	return g.Group{
		card{
			label: "Held", url: "/locks?state=held", id: "held", number: atLeast(o.Held, o.Full),
			sub: fmt.Sprintf("on %s %s", atLeast(o.Locks, o.Full), plural(o.Locks, "lock", "locks")), line: o.HeldTrend,
		}.html(), space,
		card{
			label: "Waiting", url: "/locks?state=waiting", id: "waiting", tone: toneOf(o.Waiting, "warn"),
			number: atLeast(o.Waiting, o.Full),
			sub:    fmt.Sprintf("in line for %s %s", number(o.Queues), plural(o.Queues, "lock", "locks")), line: o.WaitsTrend,
		}.html(), space,
		card{
			label: "Uncertain", url: "/locks?state=uncertain", id: "uncertain", tone: toneOf(o.Uncertain, "warn"),
			number: number(o.Uncertain), sub: "a renewal has failed",
		}.html(), space,
		g.If(o.Resumed > 0, card{
			label: "Resumed", url: "/locks?state=resumed", number: number(o.Resumed), sub: "wait for their clients",
		}.html()), space,
		card{
			label: "Lost", url: "/events?only=" + urgent, id: "lost", tone: toneOf(o.LostAll, "bad"), number: lost,
			sub: since, line: o.LostTrend,
		}.html(),
	}
}

// waits are the locks whose waiters have waited longest.
func (o *overview) waits() g.Node {
	if len(o.Longest) == 0 {
		return paragraph("empty", g.Text("Nobody waits."))
	}
	return table(h.Aria("labelledby", "longest"),
		g.Group{column("Lock"), column("Contention"), column("Held by")},
		g.Map(o.Longest, func(row lockRow) g.Node {
			holder := h.Span(h.Class("none"), g.Text("another host"))
			if row.Holder != nil {
				holder = row.Holder.who()
			}
			return h.Tr(h.Data("key", "wait-"+row.Name),
				cell("Lock", lockLink(row.Name)), cell("Contention", row.waits()), cell("Held by", h.Class("wide"), holder))
		}),
	)
}

// losses are the holds that were lost, as far as the event log can be read.
func (o *overview) losses() g.Node {
	switch {
	case o.LostErr != nil:
		return paragraph("empty", g.Text("The event log cannot be read: "+o.LostErr.Error()))
	case len(o.Lost) == 0:
		return paragraph("empty", g.Text("Nothing was lost."))
	}
	return table(h.Aria("labelledby", "losses"),
		g.Group{column("At"), column("Lock"), column("Held", figures), column("Why")},
		g.Map(o.Lost, func(l loss) g.Node {
			return h.Tr(h.Data("key", fmt.Sprintf("loss-%s-%d", l.Lock, l.Token)),
				cell(
					"At", h.A(h.Class("plain"), h.Href(holdURL(l.Lock, l.Token)), h.Title("the events of this hold"), stamp(l.At)),
				),
				cell("Lock", lockLink(l.Lock)),
				cell("Held", figures, g.Text(exact(l.Held))),
				cell("Why", h.Class("text"), g.Text(l.Why)),
			)
		}),
	)
}
