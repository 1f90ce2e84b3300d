package webui

import (
	"bytes"
	"embed"
	"errors"
	"html/template"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/lockagent/lockagent"
)

// screen is a page: the name of its template, and what loads its data.
type screen struct {
	name string
	load func(*http.Request) (content, error)
}

// content is what a screen shows.
type content struct {
	Title string
	// Data is for the template of the screen.
	Data any
	// Live is the query of its stream.
	Live string
}

// frame is what stands around a content.
type frame struct {
	content
	Screen, Host, User string
	At                 time.Time
	Stream             string // the path of its stream, or empty
}

//go:embed templates
var files embed.FS

// templates returns those of the screens by name. Each has the frame in it. Programs without a page do not read them.
var templates = sync.OnceValue(func() map[string]*template.Template {
	all := make(map[string]*template.Template)
	for name, file := range map[string]string{
		"overview": "overview", "locks": "locks", "fleet": "locks", "lock": "lock", "events": "events", "problem": "problem",
	} {
		all[name] = template.Must(template.New("frame.html").Funcs(functions).ParseFS(files,
			"templates/frame.html", "templates/parts.html", "templates/"+file+".html"))
	}
	return all
})

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
		p.write(w, r, http.StatusOK, &frame{content: c, Screen: s.name, Host: p.Host, User: user, At: time.Now(), Stream: path})
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
	var b bytes.Buffer
	err = templates()[s.name].ExecuteTemplate(&b, "content", c.Data)
	return b.Bytes(), err
}

// write writes a whole page.
func (p *page) write(w http.ResponseWriter, r *http.Request, status int, f *frame) {
	var b bytes.Buffer
	if err := templates()[f.Screen].Execute(&b, f); err != nil {
		p.Logger.ErrorContext(r.Context(), "lockagent: the live page has a defect", "path", r.URL.Path, "error", err)
		http.Error(w, "This page has a defect. The log of the daemon tells more.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // a browser that has gone needs nothing
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
	p.write(w, r, is.Status, &frame{content: content{Title: is.Title, Data: is}, Screen: "problem", Host: p.Host, User: user, At: time.Now()})
}

// refuse answers a request that nobody should have made. It says nothing of the host or the user.
func (p *page) refuse(w http.ResponseWriter, r *http.Request, title, text string) {
	is := &Problem{http.StatusForbidden, title, text}
	p.write(w, r, is.Status, &frame{content: content{Title: title, Data: is}, Screen: "problem", At: time.Now()})
}
