package webui

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// markup is a node as text. The library escapes texts and attributes.
func markup(n g.Node) []byte {
	var b bytes.Buffer
	_ = n.Render(&b) // a buffer takes all
	return b.Bytes()
}

// space is the blank between two elements of one line.
var space = g.Text(" ")

// none stands where nothing is to be shown.
var none = h.Span(h.Class("none"), g.Text("–"))

// chip is a remark, behind a blank.
func chip(text string, attributes ...g.Node) g.Node {
	return g.Group{space, h.Span(h.Class("chip"), g.Group(attributes), g.Text(text))}
}

// ms is a duration as the script of the page reads it.
func ms(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// figure is a duration that the script of the page lets go on: an age, or what is left.
func figure(of string, d time.Duration, attributes ...g.Node) g.Node {
	return h.Span(h.Class("figure"), h.Data(of, ms(d)), g.Group(attributes), g.Text(span(d)))
}

// stamp is a time of the past.
func stamp(t time.Time) g.Node {
	return h.Time(h.Class("figure"), h.DateTime(machine(t)), g.Text(moment(t)))
}

// copier is a button that copies a text.
func copier(text, title string) g.Node {
	return h.Button(h.Type("button"), h.Class("copy"), h.Data("copy", text), h.Title(title), g.Text("copy"))
}

// token is a token to copy, or a dash.
func token(n uint64) g.Node {
	if n == 0 {
		return none
	}
	text := strconv.FormatUint(n, 10)
	return g.Group{h.Span(h.Title(text), g.Text(tail(n))), copier(text, "Copy the token")}
}

// holdLink leads from a token to the events of its hold.
func holdLink(name string, token uint64, attributes ...g.Node) g.Node {
	return h.A(
		g.Group(attributes), h.Href(holdURL(name, token)), h.Title(fmt.Sprintf("%d: the events of this hold", token)),
		g.Text(tail(token)),
	)
}

// lockLink leads from the name of a lock to its screen.
func lockLink(name string, attributes ...g.Node) g.Node {
	return h.A(h.Class("name"), h.Href(lockURL(name)), g.Group(attributes), g.Text(name))
}

// badge is a state in its colour.
func (s state) badge() g.Node { return h.Span(h.Class("badge "+s.Class()), g.Text(string(s))) }

// badge is the state of a lock, unless it says no more than that somebody waits.
func (r *lockRow) badge() g.Node {
	return g.If(r.Held > 0 || r.Waiting == 0, r.State.badge())
}

// waits says how many wait for a lock, and for how long.
func (r *lockRow) waits() g.Node {
	if r.Waiting == 0 {
		return nil
	}
	text := number(r.Waiting) + " " + plural(r.Waiting, "waits", "wait")
	if r.Longest == nil {
		return g.Group{space, h.Span(h.Class("chip waits"), g.Text(text))}
	}
	age := r.Longest.Age()
	return g.Group{space, h.Span(h.Class("chip waits"), h.Title("the longest since "+moment(r.Longest.Since)),
		g.Text(text+" · "), h.Span(h.Class("figure"), h.Data("age", ms(age)), g.Attr("data-brief"), g.Text(brief(age))),
	)}
}

// deed is what is done under a claim or, if nobody has said so, something else.
func deed(command, otherwise string) g.Node {
	if command == "" {
		return h.B(g.Text(otherwise))
	}
	return h.B(h.Class("name"), h.Title(command), g.Text(command))
}

// who says what is done under a claim, and who does it.
func (c *claimRow) who() g.Node {
	return h.Span(h.Class("who"),
		deed(c.Command, c.Headline()), space, h.Span(h.Class("by"), h.Title(c.By()), g.Text(c.By())),
		g.If(c.Shared, chip("shared")),
		g.If(c.Permits > 1, chip(fmt.Sprintf("%d permits", c.Permits))),
		g.If(c.Detached, chip("detached")),
	)
}

// labels are those of a claim, in the order of their keys.
func (c *claimRow) labels() g.Node {
	return g.Map(slices.Sorted(maps.Keys(c.Labels)), func(key string) g.Node { return chip(key + "=" + c.Labels[key]) })
}

// age says for how long a claim has held, or has waited.
func (c *claimRow) age() g.Node {
	return figure("age", c.Age(), h.Title("since "+moment(c.Since)))
}

// left says when a claim ends unless somebody does something for it.
func (c *claimRow) left() g.Node {
	switch {
	case !c.Expires.IsZero():
		return g.Group{
			h.Span(h.Title("unless it is renewed; "+moment(c.Expires)), g.Text("until "+until(c.Expires))),
			g.If(c.ForPID != 0, g.Text(fmt.Sprintf(", or %d ends", c.ForPID))),
		}
	case c.ForPID != 0:
		return g.Text(fmt.Sprintf("until %d ends", c.ForPID))
	case c.Left != 0:
		return h.Span(h.Class("left"),
			h.Meter(h.Min("0"), h.Max(ms(c.Lease)), g.Attr("low", "1000"), g.Attr("optimum", ms(c.Lease)), h.Value(ms(c.Left)),
				h.Data("left", ms(c.Left)), h.Aria("label", "lease left")),
			space, figure("left", c.Left),
		)
	}
	return none
}

// name is the identifier of a claim, to copy.
func (c *claimRow) name() g.Node {
	return g.Group{h.Code(h.Title(c.ID), g.Text(short(c.ID))), copier(c.ID, "Copy the claim")}
}

// tabs are links of which one is on.
func tabs(all []tab) g.Node {
	return g.Map(all, func(t tab) g.Node {
		return h.A(h.Href(t.URL), g.If(t.On, h.Aria("current", "true")), g.Text(t.Text))
	})
}

// form is where the filter of a list is typed.
func (f *filter) form(path string) g.Node {
	kept := func(name, value string) g.Node {
		return g.If(value != "", h.Input(h.Type("hidden"), h.Name(name), h.Value(value)))
	}
	return h.Form(h.Class("filter"), h.Method("get"), h.Action(path), h.Role("search"),
		kept("state", string(f.State)), kept("only", f.Only), g.If(f.Sort != orders[0].by, kept("sort", f.Sort)), space,
		h.Label(h.Class("sr"), h.For("match"), g.Text("Filter by name")), space,
		h.Input(
			h.ID("match"), h.Name("match"), h.Type("search"), h.Value(f.Match), h.Placeholder("part of a name, or orders/*"),
			h.AutoComplete("off"), unchecked, h.MaxLength("500"),
		), space,
		h.Button(h.Type("submit"), g.Text("Filter")),
	)
}

// unchecked keeps a browser from marking names as misspelt.
var unchecked = g.Attr("spellcheck", "false")

// table is a table that can be wider than the screen. The first node says what is in it: a caption, or a reference.
func table(about g.Node, columns, rows g.Group, attributes ...g.Node) g.Node {
	return h.Div(h.Class("table"), h.Table(g.Group(attributes), about, h.THead(h.Tr(columns)), h.TBody(rows)))
}

// column is the head of a column.
func column(text string, attributes ...g.Node) g.Node {
	return h.Th(h.Scope("col"), g.Group(attributes), g.Text(text))
}

// cell is a cell of a table. A narrow screen shows its label in place of the head of its column.
func cell(label string, nodes ...g.Node) g.Node {
	return h.Td(h.Data("label", label), g.Group(nodes))
}

// figures is the class of a column of numbers.
var figures = h.Class("n")

// paragraph is a text of a class.
func paragraph(class string, nodes ...g.Node) g.Node {
	return h.P(h.Class(class), g.Group(nodes))
}
