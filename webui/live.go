package webui

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/lockagent/lockagent"
)

// stream is a stream of server-sent events.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	close   func()
}

// open begins a stream, or answers that there are too many. Whoever opens a stream closes it.
func (p *page) open(w http.ResponseWriter, r *http.Request) (s *stream, ok bool) {
	leave, ok := p.Access.Stream(r.Context())
	if !ok {
		w.Header().Set("Retry-After", "5")
		http.Error(w, "There are too many live pages already; close some.", http.StatusServiceUnavailable)
		return nil, false
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	return &stream{w, http.NewResponseController(w), leave}, true
}

// send sends an event with a value in JSON. The error is that of a reader who has gone, or has not read for long.
func (s *stream) send(event, id string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	if err := s.control.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
		return err
	}
	if id != "" {
		id = "id: " + id + "\n"
	}
	if _, err := fmt.Fprintf(s.w, "%sevent: %s\ndata: %s\n\n", id, event, text); err != nil {
		return err
	}
	return s.control.Flush()
}

// fault says why a stream ends.
type fault struct {
	Title string `json:"title"`
	Text  string `json:"text"`
}

// follow answers with the content of a screen, again and again: when a lock changes, and with each beat.
func (p *page) follow(s screen) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		if _, err := p.Access.Enter(ctx); err != nil {
			p.fail(w, r, err)
			return
		}
		out, ok := p.open(w, r)
		if !ok {
			return
		}
		defer out.close()
		changes := p.Watch.Watch(func(name lockagent.Name) bool { return p.Access.Sees(ctx, name, false) })
		defer changes.Stop()
		var paid time.Time // when the renderings so far have had no more than their share
		for {
			began := time.Now()
			shown, err := p.render(s, r)
			took := time.Since(began)
			if err != nil {
				is := problemOf(err)
				_ = out.send("fault", "", fault{is.Title, is.Text}) // the stream ends either way
				return
			}
			if out.send("content", "", string(shown)) != nil {
				return
			}
			if paid.Before(began) {
				paid = began
			}
			paid = paid.Add(share * took)
			select {
			case <-time.After(max(pause, time.Until(paid)-burst)):
			case <-ctx.Done():
				return
			}
			next, cancel := context.WithTimeout(ctx, beat-pause)
			_, _, err = changes.Next(next)
			cancel()
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				return
			}
		}
	})
}
