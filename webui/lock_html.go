package webui

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// html is the content of the screen of a lock.
func (l *oneLock) html() g.Node {
	return g.Group{
		h.Div(
			h.Class("bar"), h.H1(h.Class("lockname"), g.Text(l.Name)), space, l.badge(), l.waits(),
			g.If(l.Kind != "", chip(l.Kind)),
		),
		g.If(
			l.Ended != 0,
			h.P(h.Class("note"), h.Role("status"), g.Text(fmt.Sprintf("The hold with the token %d is over.", l.Ended))),
		),
		h.Dl(
			h.Class("facts"), l.holderFact(), l.storeFact(), fact("Waiting here", h.Class("figure"), g.Text(number(l.Waiting))),
		),
		l.holders(),
		l.queue(),
		h.Section(h.Aria("labelledby", "history"), l.History.heading(), l.past()),
		h.Details(h.Data("key", "json"), h.Summary(g.Text("Raw JSON")), h.Pre(g.Text(l.JSON)),
			h.P(h.A(h.Href("/lock.json?"+query("name", l.Name)), g.Text("As a document of its own")))),
		g.If(l.Held > 0 || l.Store.GetHeld(), h.Section(h.Aria("labelledby", "break"), h.Class("danger"),
			h.H2(h.ID("break"), g.Text("Break the lock")), l.breaking())),
	}
}

func fact(name string, nodes ...g.Node) g.Node {
	return h.Div(h.Dt(g.Text(name)), h.Dd(g.Group(nodes)))
}

// holderFact says who holds the lock if no client of this daemon does.
func (l *oneLock) holderFact() g.Node {
	if l.Holder != nil {
		return nil
	}
	if !l.Store.GetHeld() {
		return fact("Held by", g.Text("nobody"))
	}
	holder := l.Store.GetHolder()
	known := g.Group{g.Text("another host")}
	if l.Elsewhere != nil {
		known = g.Group{l.Elsewhere.who(), space, h.Span(h.Class("by"), g.Text("as the hub tells"))}
	}
	return fact("Held by", known, g.Text(": "), h.Code(h.Title(holder), g.Text(holder)))
}

func (l *oneLock) storeFact() g.Node {
	const name = "The store says"
	switch {
	case l.StoreErr != "":
		return fact(name, h.Span(h.Class("bad"), g.Text(l.StoreErr)))
	case !l.Store.GetHeld():
		return fact(name, g.Text("free"))
	case l.Left <= 0:
		return fact(name, g.Text("held"))
	}
	return fact(name, g.Text("held, "), figure("left", l.Left), g.Text(" of the lease left"))
}

// oldest says how many are shown, if there are more.
func oldest(shown, all int) g.Node {
	return g.If(all > shown, g.Group{
		space, h.Span(h.Class("count"), g.Text(fmt.Sprintf("the oldest %d of %s", shown, number(all)))),
	})
}

func (l *oneLock) holders() g.Node {
	if len(l.Holders) == 0 {
		return nil
	}
	return h.Section(h.Aria("labelledby", "holders"),
		h.H2(h.ID("holders"), g.Text(plural(l.Held, "Holder", "Holders")), oldest(len(l.Holders), l.Held)),
		table(h.Aria("labelledby", "holders"),
			g.Group{
				column("State"), column("Holder"), column("For", figures), column("Lease left"), column("Token"), column("Claim"),
			},
			g.Map(l.Holders, func(c claimRow) g.Node {
				return h.Tr(h.Data("key", "claim-"+c.ID),
					cell("State", c.State.badge()), cell("Holder", h.Class("wide"), c.who(), c.labels()),
					cell("For", figures, c.age()),
					cell("Left", c.left()), cell("Token", token(c.Token)), cell("Claim", c.name()))
			}),
		),
	)
}

func (l *oneLock) queue() g.Node {
	heading := h.H2(h.ID("queue"), g.Text("Queue"), oldest(len(l.Waiters), l.Waiting))
	if len(l.Waiters) == 0 {
		return h.Section(h.Aria("labelledby", "queue"), heading, paragraph("empty", g.Text("No program of this host waits.")))
	}
	place := h.Class("place")
	var rows g.Group
	for i, c := range l.Waiters {
		rows = append(rows, h.Tr(h.Data("key", "claim-"+c.ID),
			cell("Place", place, g.Text(strconv.Itoa(i+1))), cell("Waiter", h.Class("wide"), c.who(), c.labels()),
			cell("Waits for", figures, c.age()), cell("Claim", c.name())))
	}
	return h.Section(h.Aria("labelledby", "queue"), heading,
		table(
			h.Aria("labelledby", "queue"),
			g.Group{column("Place", place), column("Waiter"), column("Waits for", figures), column("Claim")}, rows,
		))
}

// heading says which part of the history is shown.
func (is *historyOf) heading() g.Node {
	if len(is.Rows) == 0 {
		return h.H2(h.ID("history"), g.Text("History"))
	}
	text := "through this daemon"
	if is.Since != 0 {
		text += ", of the last " + span(is.Since)
	}
	if is.More {
		text += fmt.Sprintf(", the last %d holds", len(is.Rows))
	}
	return h.H2(h.ID("history"), g.Text("History "), h.Span(h.Class("count"), g.Text(text)))
}

// past is the history of the lock, or says why there is none.
func (l *oneLock) past() g.Node {
	is := &l.History
	switch {
	case !l.Watches:
		return paragraph("empty", g.Text("You have no right to watch this lock."))
	case is.Err != nil:
		return paragraph("empty", g.Text("The event log cannot be read: "+is.Err.Error()))
	case len(is.Rows) > 0:
		return table(h.Aria("labelledby", "history"),
			g.Group{
				column("From"), column("Until"), column("Held", figures), column("Waited", figures), column("Owner"),
				column("Came"), column("Ended"),
				column("Token", figures),
			},
			g.Map(is.Rows, func(row pastHold) g.Node { return row.html(l.Name) }))
	}
	text := "The event log has no hold of this lock"
	if is.Since != 0 {
		text += " in the last " + span(is.Since)
	}
	return paragraph("empty", g.Text(text+" that you may see."))
}

// html is the row of a hold of a lock.
func (p *pastHold) html(lock string) g.Node {
	orDash := func(d time.Duration) g.Node {
		if d == 0 {
			return none
		}
		return g.Text(exact(d))
	}
	ended, class := none, "text"
	if !p.Until.IsZero() {
		ended = stamp(p.Until)
	}
	if p.Bad {
		class += " bad"
	}
	return h.Tr(h.Data("key", fmt.Sprintf("past-%d-%s", p.Token, p.Agent)),
		cell("From", stamp(p.From)),
		cell("Until", ended),
		cell("Held", figures, orDash(p.Held)),
		cell("Waited", figures, orDash(p.Waited)),
		cell("Owner", h.Class("wide"), h.Title("agent "+p.Agent), h.Span(h.Class("who"),
			deed(p.Command, p.Owner), g.If(p.Command != "", g.Group{space, h.Span(h.Class("by"), g.Text(p.Owner))}))),
		cell("Came", g.Text(p.How)),
		cell("Ended", h.Class(class), g.Text(cmp.Or(p.Ended, "goes on"))),
		cell("Token", figures, holdLink(lock, p.Token)),
	)
}

// breaking is the form that breaks the lock, or says why there is none.
func (l *oneLock) breaking() g.Node {
	b := &l.Break
	switch {
	case b.Off:
		return h.P(
			g.Text("Locks cannot be broken on this page. Its configuration would have to say "),
			h.Code(g.Text("web: {allow_break: true}")), g.Text(". An operator can use "), h.Code(g.Text("lockagent break")),
			g.Text("."),
		)
	case b.No:
		return h.P(g.Text("You have no right to operate this lock."))
	}
	kept := func(name, value string) g.Node { return h.Input(h.Type("hidden"), h.Name(name), h.Value(value)) }
	token := strconv.FormatUint(b.Token, 10)
	return g.Group{
		h.P(g.Text("This ends the hold of "), h.B(g.Text(b.Whose)), g.Text(", and somebody else may get the lock at once."),
			g.If(b.Others != 0, g.Text(" The other holders keep theirs.")),
			g.Text(
				" The program learns of it, and may still be at work: only a resource that checks tokens is safe from that.",
			)),
		h.Form(h.Method("post"), h.Action("/lock/break"), h.Class("break"), h.Data("key", "break-"+token),
			kept("name", l.Name), kept("kind", b.Kind), kept("token", token), space,
			h.Label(h.Span(g.Text("Type "), h.Code(g.Text(l.Name)), g.Text(" to confirm")), space,
				h.Input(h.Name("confirm"), h.Required(), h.AutoComplete("off"), unchecked, h.Data("confirm", l.Name))), space,
			h.Label(
				g.Text("Why "),
				h.Input(h.Name("reason"), h.MaxLength("200"), h.Placeholder("for the event log"), h.AutoComplete("off")),
			), space,
			h.Button(h.Type("submit"), h.Class("act"), g.Text("Break the lock")),
		),
	}
}
