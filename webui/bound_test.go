//go:build linux

package webui

import (
	"context"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/natslog"

	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// crowd is a daemon with so many locks, which are named by their numbers. Somebody waits for the last one.
type crowd struct {
	nothing
	locks int
}

func (c crowd) List(_ context.Context, req *lockagentv1.ListRequest) (*lockagentv1.ListResponse, error) {
	begin := 0
	if req.GetPageToken() != "" {
		if _, err := fmt.Sscanf(req.GetPageToken(), "%05d", &begin); err != nil {
			return nil, err
		}
		begin++
	}
	r := &lockagentv1.ListResponse{}
	for i := begin; i < min(begin+int(req.GetPageSize()), c.locks); i++ {
		l := &lockagentv1.Lock{Name: fmt.Sprintf("%05d", i), Held: 1}
		if i == c.locks-1 {
			l.Waiting = 1
		}
		r.Locks = append(r.Locks, l)
	}
	if last := begin + int(req.GetPageSize()); last < c.locks {
		r.NextPageToken = r.GetLocks()[len(r.GetLocks())-1].GetName()
	}
	return r, nil
}

// noLog is an event log without events.
type noLog struct{ Log }

func (noLog) Replay(context.Context, natslog.From, events.Filter, events.Visit) error {
	return natslog.ErrNoStream
}

// A page looks through ten thousand locks, and says so if there are more. What is behind them is on the next one.
func TestManyLocksAreLookedThrough(t *testing.T) {
	get := func(locks int, path string) string {
		t.Helper()
		h := New(Config{
			Look: crowd{locks: locks}, Access: nothing{}, Log: noLog{}, AllowBreak: func() bool { return false },
			Parts: func(context.Context) []Part { return nil },
		})
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil))
		if w.Code != http.StatusOK {
			t.Fatalf("%s: %d, %s", path, w.Code, w.Body)
		}
		return w.Body.String()
	}
	const said = "10 000 locks were looked through"
	if few := get(10_000, "/locks?state=waiting"); strings.Contains(few, said) || !strings.Contains(few, ">09999<") {
		t.Errorf("of 10,000 locks the page says %s", few)
	}
	many := get(10_050, "/locks?state=waiting")
	next := regexp.MustCompile(`href="([^"]*)" rel="next"`).FindStringSubmatch(many)
	if !strings.Contains(many, said) || next == nil {
		t.Fatalf("of more locks the page says %s", many)
	}
	if behind := get(10_050, html.UnescapeString(next[1])); !strings.Contains(behind, ">10049<") ||
		strings.Contains(behind, said) {
		t.Errorf("the next page is %s", behind)
	}
	for locks, held := range map[int]string{9_999: "9999", 10_050: "10000+"} {
		text := regexp.MustCompile(`id="held">([^<]*)<`).FindStringSubmatch(get(locks, "/"))
		if text == nil || regexp.MustCompile(`[^0-9+]`).ReplaceAllString(text[1], "") != held {
			t.Errorf("of %d locks the overview says %q", locks, text)
		}
	}
}
