package webui

import (
	"fmt"
	"strconv"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// html is the content of a screen of locks.
func (l *lockList) html() g.Node {
	title := "Locks"
	if l.Fleet != nil {
		title = "Fleet"
	}
	return g.Group{
		h.Div(h.Class("bar"), h.H1(g.Text(title)), l.form(l.Path),
			h.Nav(h.Class("tabs"), h.Aria("label", "State"), tabs(l.Tabs())),
			h.Nav(h.Class("tabs"), h.Aria("label", "Order"), h.Span(h.Class("by"), g.Text("by")), tabs(l.Orders())),
		),
		l.Fleet.html(),
		l.body(),
		l.pages(),
	}
}

// html says what is known of the hub. Without a fleet it says nothing.
func (f *fleetOf) html() g.Node {
	switch {
	case f == nil:
		return nil
	case f.Off:
		return paragraph("empty",
			g.Text("This daemon knows the locks of its own host only: it copies its events to no hub. With "),
			h.Code(g.Text("lockagent serve --nats URL")),
			g.Text(" ("), h.Code(g.Text("nats.url")),
			g.Text(" in its configuration) on each host the hub has the events of all hosts, "+
				"and this page shows who holds and who waits on all of them."))
	case f.Err != nil:
		return g.Group{f.totals(), paragraph("note bad", g.Text("The log of the hub cannot be read: "+f.Err.Error()))}
	}
	return f.totals()
}

func (f *fleetOf) totals() g.Node {
	if f.At.IsZero() {
		return paragraph("totals", g.Text("Nothing of the hub is known yet."))
	}
	return paragraph("totals",
		g.Text("All hosts, as the hub had told by "), h.Time(h.DateTime(machine(f.At)), g.Text(moment(f.At))), g.Text(", "),
		figure("age", f.Age()), g.Text(" ago"),
		g.If(f.Late, g.Text("; the log of the hub has more, which is being read")),
		g.Text(
			fmt.Sprintf(
				". %s %s with locks. Waits of more than an hour are not known.", number(f.Hosts), plural(f.Hosts, "host", "hosts"),
			),
		),
	)
}

// body is the table of the locks, or says why there is none.
func (l *lockList) body() g.Node {
	of, nobody := "this host", "No program of this host"
	if l.Fleet != nil {
		of, nobody = "all hosts", "No program of any host"
	}
	switch {
	case len(l.Rows) > 0:
		crumbs := l.Crumbs()
		return g.Group{
			l.totals(),
			g.If(len(crumbs) > 0, h.Nav(h.Class("tabs crumbs"), h.Aria("label", "Prefix"), tabs(crumbs))),
			table(h.Caption(h.Class("sr"), g.Text("Locks that programs of "+of+" hold or wait for")),
				g.Group{
					column("State"), column("Lock"), column("Holder"), column("Held for", figures), column("Lease left"),
					column("Token", figures),
				},
				g.Map(l.Rows, l.row), h.Class("locks")),
		}
	case l.Fleet != nil && l.Fleet.Off:
		return nil
	case l.Match != "" || l.State != "":
		return paragraph(
			"empty", g.Text("No lock that you may look at fits. "), h.A(h.Href(l.Path), g.Text("Show all locks")),
		)
	}
	return paragraph("empty", g.Text(nobody+" holds a lock that you may look at, or waits for one."))
}

// totals says how many locks fit, and which of them are shown.
func (l *lockList) totals() g.Node {
	return paragraph("totals",
		h.B(g.Text(fmt.Sprintf("%s %s", atLeast(l.Total, l.Full), plural(l.Total, "lock", "locks")))), g.Text(", "),
		h.B(g.If(l.Queues > 0, h.Class("warn")), g.Text(number(l.Queues)+" contended")),
		g.Text(
			fmt.Sprintf(
				"; %s %s, %s %s", number(l.Held), plural(l.Held, "claim holds", "claims hold"), number(l.Waiting),
				plural(l.Waiting, "waits", "wait"),
			),
		),
		g.If(
			l.Back != "" || l.Next != "",
			g.Text(fmt.Sprintf("; rows %s to %s of %s", number(l.First), number(l.Last), number(l.Most))),
		),
	)
}

func (l *lockList) row(row lockRow) g.Node {
	if row.Locks > 0 {
		return l.prefixRow(&row)
	}
	key := "lock-" + row.Kind + "-" + row.Name
	if row.Store != "" {
		key += "-" + row.Store
	}
	return h.Tr(h.Data("key", key),
		cell("State", row.badge(), row.waits()),
		cell("Lock", lockLink(row.Name, h.Title(row.Name)),
			g.If(row.Kind != "", chip(row.Kind)),
			g.If(row.Store != "", chip("store "+short(row.Store), h.Title("another store has a lock of this name, too")))),
		l.holderCells(&row),
	)
}

// prefixRow stands for all locks below a prefix.
func (l *lockList) prefixRow(row *lockRow) g.Node {
	held := number(row.Held) + " held"
	if row.State != stateHeld {
		held += ", " + string(row.State)
	}
	return h.Tr(h.Data("key", "below-"+row.Name),
		cell("State", g.If(row.Held > 0, h.Span(h.Class("badge "+row.State.Class()), g.Text(held))), row.waits()),
		cell(
			"Locks", h.ColSpan("5"), h.A(h.Class("name"), h.Href(l.Below(row.Name)), g.Text(row.Name)),
			chip(number(row.Locks)+" locks"),
		),
	)
}

// holderCells are the cells about the oldest holder of a lock.
func (l *lockList) holderCells(row *lockRow) g.Node {
	c := row.Holder
	if c == nil {
		return g.Group{
			h.Td(h.Class("no"), none), h.Td(h.Class("n no"), none), h.Td(h.Class("no"), none), h.Td(h.Class("n no"), none),
		}
	}
	age, hold := c.age(), none
	switch {
	case c.Token != 0 && l.Fleet != nil:
		hold = h.Span(h.Title(strconv.FormatUint(c.Token, 10)), g.Text(tail(c.Token)))
	case c.Token != 0:
		hold = holdLink(row.Name, c.Token, h.Class("plain"))
	}
	if l.Fleet == nil { // the history and the events of this page are those of the host
		age = h.A(h.Class("plain"), h.Href(lockURL(row.Name)+"#history"), age)
	}
	return g.Group{
		cell("Holder", h.Class("wide"), c.who(), g.If(row.Others() != 0, chip("and "+number(row.Others())+" more"))),
		cell("Held for", figures, age),
		cell("Left", c.left()),
		cell("Token", figures, hold),
	}
}

// pages lead to other pages of the list.
func (l *lockList) pages() g.Node {
	if l.Next == "" && l.Back == "" {
		return nil
	}
	return h.Nav(h.Class("pages"), h.Aria("label", "More locks"),
		g.If(l.Back != "", h.A(h.Href(l.Back), g.Text("First page"))),
		g.If(l.Full, h.Span(g.Text("10 000 locks were looked through."))),
		g.If(l.Next != "", h.A(h.Href(l.Next), h.Rel("next"), g.Text("Next page"))),
	)
}
