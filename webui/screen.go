package webui

import (
	"errors"
	"net/http"
	"time"

	"connectrpc.com/connect"
	g "maragu.dev/gomponents"

	"github.com/lockagent/lockagent"
)

// screen is a page: its name, and what loads its content.
type screen struct {
	name string
	load func(*http.Request) (content, error)
}

// content is what a screen shows.
type content struct {
	Title string
	Body  g.Node
	Live  string // the query of its stream
}

// frame is what stands around a content.
type frame struct {
	content
	Screen     string // or empty, of a page that says what is wrong
	Host, User string
	At         time.Time
	Stream     string // the path of its stream, or empty
}

// show answers with the whole page of a screen.
func (p *page) show(s screen) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, err := p.Access.Enter(r.Context())
		if err != nil {
			p.fail(w, r, err)
			return
		}
		c, err := s.load(r)
		if err != nil {
			p.fail(w, r, err)
			return
		}
		path := "/live" + r.URL.Path
		if c.Live != "" {
			path += "?" + c.Live
		}
		write(w, http.StatusOK, &frame{content: c, Screen: s.name, Host: p.Host, User: user, At: time.Now(), Stream: path})
	})
}

// render returns the content of a screen without what is around it.
func (p *page) render(s screen, r *http.Request) ([]byte, error) {
	if _, err := p.Access.Enter(r.Context()); err != nil {
		return nil, err
	}
	c, err := s.load(r)
	if err != nil {
		return nil, err
	}
	return markup(c.Body), nil
}

// write writes a whole page.
func write(w http.ResponseWriter, status int, f *frame) {
	text := markup(f.html()) // before the status: a defect has another one
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(text) // a browser that has gone needs nothing
}

// Problem is an error with its status, for the page. A zero one says nothing.
type Problem struct {
	Status int
	Title  string
	Text   string
}

func (e *Problem) Error() string { return e.Title + ": " + e.Text }

// problemOf finds the status of an error.
func problemOf(err error) *Problem {
	if known, ok := errors.AsType[*Problem](err); ok {
		return known
	}
	is := &Problem{http.StatusInternalServerError, "This did not work", err.Error()}
	if of, ok := errors.AsType[*connect.Error](err); ok {
		is.Text = of.Message()
		switch of.Code() {
		case connect.CodePermissionDenied, connect.CodeUnauthenticated:
			is.Status, is.Title = http.StatusForbidden, "You have no right to this"
		case connect.CodeInvalidArgument:
			is.Status, is.Title = http.StatusBadRequest, "This cannot be asked for"
		case connect.CodeNotFound, connect.CodeFailedPrecondition, connect.CodeAborted:
			is.Status, is.Title = http.StatusConflict, "Something has changed meanwhile"
		case connect.CodeUnavailable, connect.CodeDeadlineExceeded, connect.CodeCanceled:
			is.Status, is.Title = http.StatusServiceUnavailable, "The daemon cannot tell now"
		}
		return is
	}
	if _, ok := errors.AsType[*lockagent.NameError](err); ok {
		is.Status, is.Title = http.StatusBadRequest, "This is no name of a lock"
	}
	return is
}

// fail answers with a page that says what is wrong.
func (p *page) fail(w http.ResponseWriter, r *http.Request, err error) {
	is := problemOf(err)
	user, _ := p.Access.Enter(r.Context())
	write(w, is.Status, &frame{
		content: content{Title: is.Title, Body: is.html()}, Host: p.Host, User: user, At: time.Now(),
	})
}

// refuse answers a request that nobody should have made. It says nothing of the host or the user.
func (p *page) refuse(w http.ResponseWriter, r *http.Request, title, text string) {
	is := &Problem{http.StatusForbidden, title, text}
	write(w, is.Status, &frame{content: content{Title: title, Body: is.html()}, At: time.Now()})
}
