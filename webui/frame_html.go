package webui

import (
	"slices"
	"strconv"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// html is a whole page.
func (f *frame) html() g.Node {
	return h.Doctype(h.HTML(h.Lang("en"), f.head(),
		h.Body(g.If(f.Stream != "", h.Data("stream", f.Stream)),
			h.A(h.Class("skip"), h.Href("#main"), g.Text("Skip to the content")),
			f.header(),
			h.P(h.ID("stale"), h.Class("stale"), h.Role("alert"), hidden),
			h.NoScript(paragraph("hint",
				g.Text("This is the state of "+clock(f.At)+". Without scripts the page stays as it is: "),
				h.A(h.Href(""), g.Text("load it again")),
				g.Text(" to see what is new."))),
			h.Main(h.ID("main"), h.TabIndex("-1"), f.Body),
			f.footer(),
		),
	))
}

// hidden keeps an element from being shown.
var hidden = g.Attr("hidden")

func (f *frame) head() g.Node {
	title := f.Title
	if f.Host != "" {
		title += " · " + f.Host
	}
	return h.Head(
		h.Meta(h.Charset("utf-8")),
		h.Meta(h.Name("viewport"), h.Content("width=device-width, initial-scale=1")),
		h.Meta(h.Name("color-scheme"), h.Content("light dark")),
		h.TitleEl(g.Text(title+" · lockagent")),
		h.Link(h.Rel("icon"), h.Href("/static/icon.svg"), h.Type("image/svg+xml")),
		h.Link(h.Rel("stylesheet"), h.Href("/static/page.css")),
		h.Script(h.Type("module"), h.Src("/static/page.js")),
	)
}

func (f *frame) header() g.Node {
	return h.Header(
		h.A(
			h.Class("brand"), h.Href("/"), h.Img(h.Src("/static/icon.svg"), h.Width("22"), h.Height("22"), h.Alt("")),
			g.Text(" lockagent"),
		), space,
		g.If(f.Host != "", h.Span(h.Class("host"), g.Text(f.Host))),
		h.Nav(h.Aria("label", "Pages"),
			f.link("/", "Overview", "overview"), space,
			f.link("/locks", "Locks", "locks", "lock"), space,
			f.link("/fleet", "Fleet", "fleet"), space,
			f.link("/events", "Events", "events"),
		),
		h.P(h.ID("pulse"), h.Class("pulse"), h.Role("status"), h.Data("mood", "still"),
			g.Text("Snapshot of "), h.Time(h.DateTime(machine(f.At)), g.Text(clock(f.At)))),
	)
}

// link leads to a page, and says so if the page is one of those screens.
func (f *frame) link(path, text string, screens ...string) g.Node {
	return h.A(h.Href(path), g.If(slices.Contains(screens, f.Screen), h.Aria("current", "page")), g.Text(text))
}

func (f *frame) footer() g.Node {
	key := func(name string) g.Node { return h.Kbd(g.Text(name)) }
	return h.Footer(
		g.If(f.User != "", h.Span(g.Text("You are "), h.B(g.Text(f.User)), g.Text(". The page shows what you may look at."))),
		space,
		h.Span(
			h.Class("keys"), key("/"), g.Text(" filter "), key("j"), space, key("k"), g.Text(" move "), key("p"),
			g.Text(" pause"),
		),
	)
}

// html is the content of a page that says what is wrong.
func (e *Problem) html() g.Node {
	return h.Div(h.Class("problem"),
		paragraph("status", g.Text(strconv.Itoa(e.Status))), h.H1(g.Text(e.Title)), h.P(g.Text(e.Text)),
		h.P(h.A(h.Href("/"), g.Text("To the overview"))),
	)
}
