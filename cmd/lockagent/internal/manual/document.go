package manual

import (
	"fmt"
	"strings"
)

// Document is a page of the manual that is about no verb.
type Document struct {
	Name    string
	Section int
	Short   string // what it is about, as a part of a sentence
	Parts   []Part
}

// Part is a part of a document. What is empty is left out.
type Part struct {
	Title string
	Text  string // paragraphs, with empty lines between them
	Items []Item
	Code  string // lines that stay as they are
	Parts []Part // which have no parts themselves
}

// Item is an entry of a list.
type Item struct{ Term, Text string }

// Reference is how other pages name the document.
func (d *Document) Reference() string { return fmt.Sprintf("%s(%d)", d.Name, d.Section) }

// File is where the document is in a directory of manuals.
func (d *Document) File() string { return fmt.Sprintf("man%d/%s.%d", d.Section, d.Name, d.Section) }

// sections are what the manual calls its sections.
var sections = map[int]string{5: "File Formats", 7: "Miscellaneous"}

// Page is the page of the document. also names other pages.
func (d *Document) Page(version string, also ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s %d \"\" %q %q\n", strings.ToUpper(escape(d.Name)), d.Section, version, sections[d.Section])
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", escape(d.Name), escape(d.Short))
	for _, p := range d.Parts {
		b.WriteString(p.Roff())
	}
	b.WriteString(seeAlso(also))
	return b.String()
}

// Roff is the part as a section of a page.
func (p *Part) Roff() string {
	var b strings.Builder
	p.roff(&b, ".SH")
	for _, below := range p.Parts {
		below.roff(&b, ".SS")
	}
	return b.String()
}

func (p *Part) roff(b *strings.Builder, request string) {
	fmt.Fprintf(b, "%s %s\n", request, escape(p.Title))
	for i, text := range paragraphs(p.Text) {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		fmt.Fprintln(b, line(text))
	}
	for _, item := range p.Items {
		fmt.Fprintf(b, ".TP\n.B %s\n%s\n", escape(item.Term), line(item.Text))
	}
	if p.Code != "" {
		fmt.Fprintf(b, ".PP\n.nf\n%s\n.fi\n", escapeLines(p.Code))
	}
}

// Help is the document for a terminal.
func (d *Document) Help() string {
	var b strings.Builder
	for i, p := range d.Parts {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "%s\n", p.Title)
		p.help(&b)
		for _, below := range p.Parts {
			fmt.Fprintf(&b, "\n%s\n", below.Title)
			below.help(&b)
		}
	}
	return b.String()
}

func (p *Part) help(b *strings.Builder) {
	if p.Text != "" {
		fmt.Fprintf(b, "\n%s\n", indent(p.Text))
	}
	for _, item := range p.Items {
		fmt.Fprintf(b, "\n  %s\n    %s\n", item.Term, item.Text)
	}
	if p.Code != "" {
		fmt.Fprintf(b, "\n%s\n", indent(indent(p.Code)))
	}
}

// indent begins each line with two blanks, unless it is empty.
func indent(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if l != "" {
			lines[i] = "  " + l
		}
	}
	return strings.Join(lines, "\n")
}

// Markdown is the document without its name, for a file that has a head.
func (d *Document) Markdown() string {
	var b strings.Builder
	for _, p := range d.Parts {
		p.markdown(&b, "##")
		for _, below := range p.Parts {
			below.markdown(&b, "###")
		}
	}
	return b.String()
}

func (p *Part) markdown(b *strings.Builder, level string) {
	fmt.Fprintf(b, "\n%s %s\n", level, mark(p.Title))
	for _, text := range paragraphs(p.Text) {
		fmt.Fprintf(b, "\n%s\n", mark(text))
	}
	for i, item := range p.Items {
		if i == 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(b, "- %s: %s\n", mark(item.Term), mark(item.Text))
	}
	if p.Code != "" {
		fmt.Fprintf(b, "\n```sh\n%s\n```\n", p.Code)
	}
}

// seeAlso is the section that names other pages.
func seeAlso(pages []string) string {
	if len(pages) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString(".SH SEE ALSO\n")
	for i, page := range pages {
		name, section, _ := strings.Cut(page, "(")
		comma := ","
		if i == len(pages)-1 {
			comma = ""
		}
		fmt.Fprintf(&b, ".BR %s (%s%s\n", escape(name), section, comma)
	}
	return b.String()
}
