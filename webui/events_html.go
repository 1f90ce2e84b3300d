package webui

import (
	"fmt"
	"strconv"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// html is the content of the screen of events.
func (l *eventList) html() g.Node {
	return g.Group{
		h.Div(h.Class("bar"), h.H1(g.Text("Events")), l.form("/events"),
			h.Nav(h.Class("tabs"), h.Aria("label", "Kinds"), tabs(l.Tabs())),
			h.Button(h.Type("button"), h.ID("pause"), h.Aria("pressed", "false"), hidden, g.Text("Pause")),
		),
		l.hold(),
		l.fault(),
		l.legend(),
		h.Div(h.Class("table"), h.Table(
			h.Caption(h.Class("sr"), g.Text("Events, the newest first")),
			h.THead(
				h.Tr(column("At"), column("Event"), column("Lock"), column("Token", figures), column("What"), column("Agent")),
			),
			h.TBody(h.ID("events"), h.Data("position", strconv.FormatUint(l.Position, 10)), eventRows(l.Rows)),
		)),
		h.P(
			h.Class("empty"), h.ID("quiet"), g.If(len(l.Rows) > 0, hidden), g.Text("No event that you may see has come yet."),
		),
	}
}

// hold says so if only the events of one hold are shown.
func (l *eventList) hold() g.Node {
	if l.Token == 0 {
		return nil
	}
	return paragraph("totals", g.Text(fmt.Sprintf("The events of the hold with the token %d. ", l.Token)),
		h.A(h.Href("/events?"+query("match", l.Match)), g.Text("Show all events of "+l.Match)))
}

func (l *eventList) fault() g.Node {
	if l.Err == nil {
		return nil
	}
	return paragraph("note bad", g.Text("The event log cannot be read to its end: "+l.Err.Error()))
}

func (l *eventList) legend() g.Node {
	return h.Details(h.Class("legend"), h.Data("key", "legend"), h.Summary(g.Text("What the events mean")),
		h.Dl(g.Map(l.Meanings(), func(kind [2]string) g.Node { return fact(kind[0], g.Text(kind[1])) })))
}

// eventRows are rows of the table of events.
func eventRows(rows []eventRow) g.Node {
	return g.Map(rows, func(row eventRow) g.Node {
		return h.Tr(
			cell("At", h.A(h.Class("plain"), h.Href(row.Record), h.Title("the record as JSON"), stamp(row.At))),
			cell("Event", h.Span(h.Class("kind "+row.Tone), h.Title(meanings[row.Kind]), g.Text(row.Kind))),
			cell("Lock", g.If(row.Lock != "", lockLink(row.Lock))),
			cell("Token", figures, g.If(row.Token != 0, holdLink(row.Lock, row.Token, h.Class("plain")))),
			cell("What", h.Class("text"), g.Text(row.Detail)),
			cell("Agent", h.Code(g.Text(row.Agent))),
		)
	})
}
