//go:build linux

package webui_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
	"github.com/lockagent/lockagent/proto/lockagent/v1/lockagentv1connect"
)

// many is a client that holds many locks over one link.
type many struct {
	t      testing.TB
	submit func(...*lockagentv1.Command)
	events chan *lockagentv1.LinkEvent
}

// holdMany takes locks with the numbers up to n. The end of the test ends them.
func (r *running) holdMany(t testing.TB, n int) *many {
	t.Helper()
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{
		Protocols: &protocols, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", r.path)
		},
	}
	client := lockagentv1connect.NewLockServiceClient(&http.Client{Transport: transport}, "http://lockagent")
	ctx, cancel := context.WithCancel(background)
	news, err := client.Link(ctx, &lockagentv1.LinkRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if !news.Receive() {
		t.Fatal(news.Err())
	}
	link := news.Msg().GetLink()
	submit, err := client.Submit(ctx)
	if err != nil {
		t.Fatal(err)
	}
	m := &many{t: t, events: make(chan *lockagentv1.LinkEvent)}
	m.submit = func(commands ...*lockagentv1.Command) {
		t.Helper()
		if err := submit.Send(&lockagentv1.SubmitRequest{Link: link, Commands: commands}); err != nil {
			t.Error(err)
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for news.Receive() {
			for _, e := range news.Msg().GetEvents() {
				select {
				case m.events <- e:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		_ = news.Close()
		<-ended
		transport.CloseIdleConnections()
	})
	go func() {
		var commands []*lockagentv1.Command
		for i := range n {
			if commands = append(commands, m.acquire(uint64(i), i)); len(commands) == 100 || i == n-1 {
				m.submit(commands...)
				commands = nil
			}
		}
	}()
	for granted := 0; granted < n; {
		switch e := (<-m.events).GetEvent(); {
		case e.GetGranted() != nil:
			granted++
		case e.GetRenewed() == nil:
			t.Fatal(e)
		}
	}
	return m
}

func (m *many) acquire(ref uint64, i int) *lockagentv1.Command {
	return &lockagentv1.Command{
		Ref: ref,
		Command: &lockagentv1.Command_Acquire{
			Acquire: &lockagentv1.AcquireRequest{Name: fmt.Sprintf("many/%05d", i), Command: "job"},
		},
	}
}

// churn releases the first locks and takes them again, until the function that it returns is called.
func (m *many) churn(locks, from int) (stop func()) {
	stopped, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		old := make([]uint64, locks)
		for i := range old {
			old[i] = uint64(i)
		}
		for next := uint64(from); ; {
			for i := range old {
				m.submit(
					&lockagentv1.Command{Ref: old[i], Command: &lockagentv1.Command_Release{Release: &lockagentv1.Give{}}},
					m.acquire(next, i),
				)
				old[i] = next
				next++
				for granted := false; !granted; {
					granted = (<-m.events).GetEvent().GetGranted() != nil
				}
				select {
				case <-stopped:
					return
				default:
				}
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(stopped)
		<-over
	})
}

// The page shows many locks in pages. It stays light while the locks change without an end, and so does its stream.
func manyLocks(t *testing.T, r *running, tb *tab, held int) {
	const shown = 50
	m := r.holdMany(t, held)
	last := fmt.Sprintf("many/%05d", held-1)
	if r.hold(t, last, "waits far behind").granted != nil {
		t.Fatal("the lock is free")
	}
	tb.goTo("/locks?sort=name")
	const next = "document.querySelector('a[rel=next]').click() ?? true"
	rows := "document.querySelectorAll('tbody tr').length"
	tb.await(fmt.Sprintf("%s === %d && document.querySelector('tbody a.name').innerText === 'many/00000'", rows, shown))
	stop := m.churn(shown, held) // all that the first page shows
	defer stop()

	tb.await("document.getElementById('pulse').innerText === 'Live'")
	const pause, contents = 150 * time.Millisecond, 3 // at least, between two contents, however fast the locks change
	began := time.Now()
	content := r.streamOf(t, "/live/locks?sort=name")
	for range contents {
		if n := len(content("content")); n > 200_000 {
			t.Errorf("the stream sends %d bytes at once", n)
		}
	}
	if took := time.Since(began); took < (contents-1)*pause {
		t.Errorf("%d contents came within %v", contents, took)
	}

	if n := value[int](tb, "document.querySelectorAll('*').length"); n > 3000 {
		t.Errorf("the page of locks has %d elements", n)
	}
	if text := value[string](tb, "document.querySelector('main').innerText"); strings.Contains(text, "many/00051") {
		t.Error("the first page shows what is on the next one")
	}

	tb.goTo("/events")
	tb.await("document.querySelectorAll('#events tr').length > 100")
	position := value[string](tb, "document.querySelector('#events').dataset.position")
	// The list goes on, and stays as long as it is.
	tb.await(fmt.Sprintf("document.querySelector('#events').dataset.position !== %q", position))
	if n := value[int](tb, "document.querySelectorAll('*').length"); n > 8000 {
		t.Errorf("the page of events has %d elements", n)
	}
	stop()

	// The filter is in the address, and finds what is far behind.
	tb.goTo("/locks")
	tb.do(chromedp.SendKeys(chromedp.CSS("#match"), last+kb.Enter))
	tb.await("location.search === '?match=" + url.QueryEscape(last) + "'")
	tb.await(rows + " === 1")
	tb.has(last)
	tb.goTo("/locks?state=waiting")
	if full := "10 000 locks were looked through"; held > 10_000 { // and one waits behind them
		tb.has(full)
		value[bool](tb, next)
	}
	tb.await(rows + " === 1 && document.querySelector('tbody a.name').innerText === '" + last + "'")
	tb.goTo("/locks?sort=name")
	value[bool](tb, next)
	tb.await("document.querySelector('tbody a.name').innerText === 'many/00050'")

	tb.goTo("/")
	tb.await(
		fmt.Sprintf(
			"document.getElementById('pulse').innerText === 'Live' && "+
				"Number(document.getElementById('held').innerText.replace(/\\D/g, '')) >= %d",
			min(held, 10_000)-1,
		),
	)
}
