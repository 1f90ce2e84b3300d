//go:build linux

package webui

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/daemon/claims"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// nothing is a daemon without locks, for which everybody is somebody who may look.
type nothing struct{}

func (nothing) List(context.Context, *lockagentv1.ListRequest) (*lockagentv1.ListResponse, error) {
	return &lockagentv1.ListResponse{}, nil
}

func (nothing) Get(context.Context, *lockagentv1.GetRequest) (*lockagentv1.GetResponse, error) {
	return &lockagentv1.GetResponse{}, nil
}
func (nothing) Enter(context.Context) (string, error)           { return "ann", nil }
func (nothing) Sees(context.Context, lockagent.Name, bool) bool { return true }
func (nothing) Operates(context.Context, lockagent.Name) bool   { return false }
func (nothing) Stream(context.Context) (leave func(), ok bool)  { return func() {}, true }

// counting is nothing that counts streams.
type counting struct {
	nothing
	streams atomic.Int64
}

func (c *counting) Stream(context.Context) (leave func(), ok bool) {
	c.streams.Add(1)
	return func() { c.streams.Add(-1) }, true
}

// A defect is told and logged, and not hidden.
func TestDefect(t *testing.T) {
	var log bytes.Buffer
	p := &page{Config: Config{Access: nothing{}, Logger: slog.New(slog.NewTextHandler(&log, nil))}}
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "http://localhost/", nil)
	p.guard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("of the test") })).ServeHTTP(w, r)
	if w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "of the test") ||
		!strings.Contains(log.String(), "of the test") {
		t.Errorf("%d, %s; the log says %q", w.Code, w.Body, log.String())
	}
}

// pipes listens for the ends of pipes, which have no buffers.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{} }

// A reader that does not read is dropped, and leaves room for others. One that reads stays.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book, err := claims.New(claims.Config{})
		if err != nil {
			t.Fatal(err)
		}
		book.Begin(nil) // there are no claims
		readers := &counting{}
		p := &page{Config: Config{
			Look: nothing{}, Watch: book, Access: readers, Host: "web-1", Logger: slog.New(slog.DiscardHandler),
		}}
		listener := make(pipes)
		server := &http.Server{Handler: p.follow(screen{"locks", p.locks})}
		go func() { _ = server.Serve(listener) }()
		follow := func() (net.Conn, *bufio.Reader) {
			client, end := net.Pipe()
			listener <- end
			if _, err := fmt.Fprint(client, "GET /live/locks HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			return client, bufio.NewReader(client)
		}
		slow, _ := follow()
		quick, lines := follow()
		var read atomic.Int64 // lines
		go func() {
			for {
				if _, err := lines.ReadString('\n'); err != nil {
					return
				}
				read.Add(1)
			}
		}()
		time.Sleep(writeTime - beat)
		synctest.Wait()
		if n := readers.streams.Load(); n != 2 {
			t.Errorf("%d streams, before the time of the slow one has passed", n)
		}
		time.Sleep(2 * beat)
		synctest.Wait()
		if n := readers.streams.Load(); n != 1 {
			t.Errorf("%d streams, want the one that reads", n)
		}
		before := read.Load()
		time.Sleep(time.Minute)
		synctest.Wait()
		if read.Load() == before {
			t.Error("the one that reads hears nothing any more")
		}
		_, _ = slow.Close(), quick.Close()
		time.Sleep(2 * beat)
		synctest.Wait()
		if n := readers.streams.Load(); n != 0 {
			t.Errorf("%d streams are left", n)
		}
		close(listener)
		_ = server.Close()
	})
}

// unhurried is an answer of which each part takes its reader a while.
type unhurried struct {
	*httptest.ResponseRecorder
	takes time.Duration
	parts int
}

func (u *unhurried) SetWriteDeadline(time.Time) error { return nil }

func (u *unhurried) Write(part []byte) (int, error) {
	time.Sleep(u.takes)
	u.parts++
	return len(part), nil
}

// What a reader takes to read does not count as rendering, so the stream goes on with the next beat.
func TestUnhurriedReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book, err := claims.New(claims.Config{})
		if err != nil {
			t.Fatal(err)
		}
		book.Begin(nil) // there are no claims
		p := &page{Config: Config{
			Look: nothing{}, Watch: book, Access: nothing{}, Host: "web-1", Logger: slog.New(slog.DiscardHandler),
		}}
		const parts = 5
		reader := &unhurried{ResponseRecorder: httptest.NewRecorder(), takes: writeTime / 2}
		ctx, leave := context.WithTimeout(t.Context(), parts*(reader.takes+beat))
		defer leave()
		p.follow(screen{"locks", p.locks}).ServeHTTP(reader, request("/live/locks").WithContext(ctx))
		if reader.parts < parts {
			t.Errorf("%d contents, want %d", reader.parts, parts)
		}
	})
}
