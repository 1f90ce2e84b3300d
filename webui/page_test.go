//go:build linux

package webui_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/daemon"
	"github.com/lockagent/lockagent/internal/daemon/access"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/memstore"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

func lockPath(name string) string { return "/lock?" + url.Values{"name": {name}}.Encode() }

// until asks for a path until the answer says something.
func (r *running) until(t testing.TB, path, text string) (a answer) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("%s says %s", path, a.body)
		}
	}()
	waittest.Until(t, fmt.Sprintf("%s to say %q", path, text), func() bool {
		a = r.get(t, path)
		return strings.Contains(a.body, text)
	})
	return a
}

func TestPages(t *testing.T) {
	t.Parallel()
	r := run(t, setup{})
	const bad = `<img src=x onerror="alert(1)">`
	first := r.hold(t, "orders/42", "deploy.sh <b>web</b>")
	r.hold(t, "orders/42", "")
	r.hold(t, bad, "")
	stars := strings.Repeat("*a", lockagent.MaxNameLen/2)
	r.hold(t, stars, "star.sh")
	token := fmt.Sprint(first.granted.GetToken())

	r.until(t, "/", `id="lost">0<`).says(
		t, http.StatusOK, "web-1", `id="held">3<`, `id="waiting">1<`, `id="uncertain">0<`, `id="lost">0<`, "memory",
		"answers", "NATS in this daemon", "deploy.sh &lt;b&gt;web&lt;/b&gt;", "You are <b>", "!deploy.sh <b>",
	)
	r.get(t, "/locks").says(
		t, http.StatusOK, "orders/42", token, "webui.test", "&lt;img src=x", "!<img src=x", "lease left",
	)
	r.get(t, "/locks?match=orders/*").says(t, http.StatusOK, "orders/42", "!&lt;img src=x&#34;", `value="orders/*"`)
	r.get(t, "/locks?match=der").says(t, http.StatusOK, ">orders/42<")
	r.get(t, "/locks?match=nothing").says(t, http.StatusOK, "No lock that you may look at fits")
	r.get(t, "/locks?state=waiting").says(t, http.StatusOK, ">orders/42<", "!onerror")
	r.get(t, "/locks?state=uncertain").says(t, http.StatusOK, "!>orders/42<")
	r.get(t, lockPath("orders/42")).says(
		t, http.StatusOK, token, "Queue", "Locks cannot be broken on this page", "The store says", "&#34;STATE_WAITING&#34;",
		"!<form method=\"post\"",
	)
	r.get(t, lockPath(bad)).says(t, http.StatusOK, "&lt;img src=x", "!<img src=x")
	r.get(t, lockPath(stars)).says(t, http.StatusOK, "star.sh", "!deploy.sh")
	r.get(t, lockPath("*")).says(t, http.StatusOK, "free", "!star.sh")
	r.get(t, lockPath("nobody/has/it")).says(t, http.StatusOK, "free", "No program of this host waits", "!Break the lock")
	r.until(t, lockPath("orders/42"), "goes on").says(t, http.StatusOK, "from the store")
	r.until(t, "/events", "queued</span>").says(t, http.StatusOK, "granted</span>", token, "&lt;img src=x", "!<img src=x")
	door := r.get(t, "/events?match=orders/42&token="+token)
	door.says(t, http.StatusOK, "granted</span>", "!queued</span>", "The lock was granted.", "events of the hold")
	record := regexp.MustCompile(`/event\.json\?position=\d+&amp;seq=\d+`).FindString(door.body)
	a := r.get(t, html.UnescapeString(record))
	a.says(t, http.StatusOK, "granted", "orders/42", token)
	r.get(t, "/event.json?position=999999&seq=1").says(t, http.StatusNotFound, "no such event")
	r.get(t, "/events?match=orders/*").says(t, http.StatusOK, "orders/42", "!onerror")
	r.get(t, "/events?only=urgent").says(t, http.StatusOK, "agentstarted</span>", "!granted</span>")

	var raw struct {
		Lock struct{ Holders []struct{ Token string } }
		Held bool
	}
	a = r.get(t, "/lock.json?name=orders%2F42")
	a.says(t, http.StatusOK)
	if err := json.Unmarshal([]byte(a.body), &raw); err != nil || !raw.Held || raw.Lock.Holders[0].Token != token {
		t.Errorf("%s: %v", a.body, err)
	}
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	r := run(t, setup{})
	for path, text := range map[string]string{
		"/locks?match=a***b":           "three stars in a row",
		"/locks?state=asleep":          "The states are held, waiting, uncertain and resumed",
		"/events?only=good":            "only=urgent",
		"/locks?sort=size":             "sorted by waiters, age, name, or as a tree",
		"/locks?page=two":              "a number has to be",
		"/event.json?position=x":       "a number has to be",
		"/lock":                        "no name of a lock",
		"/lock?name=a&kind=round":      "The kinds are",
		"/live/events?after=yesterday": "position of an event",
		"/live/locks?match=a***b":      "",
	} {
		a := r.get(t, path)
		if strings.HasPrefix(path, "/live/locks") { // a stream says it, for its script
			a.says(t, http.StatusOK, "event: fault", "three stars")
			continue
		}
		a.says(t, http.StatusBadRequest, text, "To the overview")
	}
	r.get(t, "/nowhere").says(t, http.StatusNotFound, "There is no such page")
	r.get(t, "/static/").says(t, http.StatusNotFound, "!page.css")
	r.get(t, "/static/other.js").says(t, http.StatusNotFound)
	if a := r.do(t, r.request(t, http.MethodDelete, "/locks", nil)); a.status != http.StatusMethodNotAllowed &&
		a.status != http.StatusNotFound {
		t.Errorf("DELETE: %d", a.status)
	}
}

func TestStaticFiles(t *testing.T) {
	r := run(t, setup{})
	for path, kind := range map[string]string{
		"/static/page.css": "text/css; charset=utf-8", "/static/page.js": "text/javascript; charset=utf-8",
		"/static/icon.svg": "image/svg+xml",
	} {
		a := r.get(t, path)
		if a.says(t, http.StatusOK); a.header.Get("Content-Type") != kind || a.header.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: %v", path, a.header)
		}
		r.get(t, path, "If-None-Match", a.header.Get("ETag")).says(t, http.StatusNotModified)
	}
}

func TestGuard(t *testing.T) {
	r := run(t, setup{page: func(c *daemon.PageConfig) { c.Names = []string{"page.example"} }})
	for header, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src " +
			"'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
		"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
		"Cache-Control":              "no-store",
		"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
	} {
		for _, path := range []string{"/", "/nowhere", "/lock"} {
			if got := r.get(t, path).header.Get(header); got != want {
				t.Errorf("%s: %s is %q", path, header, got)
			}
		}
	}
	for host, want := range map[string]int{
		"localhost": 200, "localhost:7070": 200, "LOCALHOST": 200, "127.0.0.1": 200, "[::1]:7070": 200,
		"192.168.1.7:7070": 200, "web-1": 200, "web-1:1": 200, "page.example:7070": 200,
		"attacker.example": 403, "attacker.example:7070": 403, "localhost.attacker.example": 403,
		"127.0.0.1.attacker.example": 403, "web-10": 403, "[::1].x": 403,
	} {
		r.get(t, "/", "Host", host).says(t, want)
	}
	r.get(t, "/", "Host", "attacker.example").says(t, http.StatusForbidden, "!web-1", "!You are")
	for _, c := range []struct {
		want    int
		headers []string
	}{
		{200, []string{"Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "cors"}},
		{200, []string{"Sec-Fetch-Site", "none", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}},
		{200, []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}},
		{403, []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}},
		{403, []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "script"}},
		{403, []string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty"}},
	} {
		r.get(t, "/locks", c.headers...).says(t, c.want)
	}
}

// form is what the form of a lock sends.
func form(name string, token uint64, confirm string) url.Values {
	return url.Values{
		"name": {name}, "kind": {"plain"}, "token": {fmt.Sprint(token)}, "confirm": {confirm}, "reason": {"it hangs"},
	}
}

func TestBreak(t *testing.T) {
	t.Parallel()
	r := run(t, setup{})
	c := r.hold(t, "door", "")
	token := c.granted.GetToken()
	post := func(f url.Values, headers ...string) answer {
		t.Helper()
		return r.do(t, r.request(t, http.MethodPost, "/lock/break", f, headers...))
	}
	post(form("door", token, "door")).says(t, http.StatusForbidden, "web.allow_break")
	r.allowBreak.Store(true)
	r.get(t, lockPath("door")).says(t, http.StatusOK, `<form method="post"`, fmt.Sprintf(`name="token" value="%d"`, token))
	post(form("door", token, "desk")).says(t, http.StatusBadRequest, "type its name")
	post(form("door", token, "")).says(t, http.StatusBadRequest, "type its name")
	post(form("door", token+1, "door")).says(t, http.StatusConflict, "with the token")
	post(form("", token, "")).says(t, http.StatusBadRequest)
	post(url.Values{"name": {"door"}, "confirm": {"door"}}).says(t, http.StatusBadRequest, "no token")
	post(url.Values{"name": {"door"}, "reason": {strings.Repeat("x", 100_000)}}).says(t, http.StatusRequestEntityTooLarge)
	for _, headers := range [][]string{
		{"Origin", "http://attacker.example"},
		{"Origin", "http://localhost:1"},
		{"Sec-Fetch-Site", "cross-site"},
		{"Sec-Fetch-Site", "same-site"},
		{"Origin", "null"},
		{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"},
	} {
		post(form("door", token, "door"), headers...).says(t, http.StatusForbidden, "another page")
	}
	if r.Counts().Held != 1 {
		t.Fatal("the lock was broken by a request that was refused")
	}

	a := post(form("door", token, "door"), "Origin", r.url, "Sec-Fetch-Site", "same-origin")
	if to := a.header.Get("Location"); a.status != http.StatusSeeOther || !strings.HasPrefix(to, "/lock?") {
		t.Fatalf("%d, to %q: %s", a.status, to, a.body)
	}
	lost := c.lost()
	if lost.GetReason() != lockagentv1.LossReason_LOSS_REASON_BROKEN ||
		!strings.HasSuffix(lost.GetOperator(), ": it hangs") {
		t.Errorf("%v", lost)
	}
	r.get(t, a.header.Get("Location")).says(
		t, http.StatusOK, "free", fmt.Sprintf("The hold with the token %d is over", token),
	)
	r.until(t, lockPath("door"), "broken by").says(t, http.StatusOK, "it hangs")
	r.until(t, "/", `id="lost">1<`).says(t, http.StatusOK, "it hangs")
	post(form("door", 0, "door")).says(t, http.StatusConflict, "was free already")
}

func mustPattern(t *testing.T, text string) access.Pattern {
	t.Helper()
	p, err := access.ParsePattern(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The page knows its users, and the rules are the same as on the socket.
func TestRules(t *testing.T) {
	t.Parallel()
	everything := access.Acquire | access.Look | access.Watch | access.Operate
	r := run(t, setup{rules: []access.Rule{
		{Match: mustPattern(t, "seen/**"), Allow: everything &^ access.Operate},
		{Match: mustPattern(t, "unwatched/**"), Allow: access.Acquire | access.Look},
		{Match: mustPattern(t, "**"), Allow: access.Acquire},
	}})
	r.allowBreak.Store(true)
	seen := r.hold(t, "seen/door", "")
	r.hold(t, "unwatched/door", "")
	r.hold(t, "secret/door", "")
	r.get(t, "/").says(t, http.StatusOK, `id="held">2<`)
	r.get(t, "/locks").says(t, http.StatusOK, "seen/door", "unwatched/door", "!secret")
	r.until(t, "/events", "seen/door").says(t, http.StatusOK, "!unwatched", "!secret")
	var records strings.Builder // whatever the log has
	for i := range 50 {
		records.WriteString(r.get(t, fmt.Sprintf("/event.json?position=%d&seq=%d", 1+i/10, 1+i%10)).body)
	}
	if all := records.String(); !strings.Contains(all, "seen/door") || strings.Contains(all, "unwatched") ||
		strings.Contains(all, "secret/") {
		t.Errorf("the records are %s", all)
	}
	r.get(t, lockPath("unwatched/door")).says(t, http.StatusOK, "no right to watch")
	r.get(t, lockPath("secret/door")).says(t, http.StatusForbidden, "no right to look", "!webui.test")
	r.get(t, "/lock.json?name=secret/door").says(t, http.StatusForbidden, "!webui.test")
	r.get(t, lockPath("seen/door")).says(t, http.StatusOK, "no right to operate", "!<form method=\"post\"")
	f := form("seen/door", seen.granted.GetToken(), "seen/door")
	r.do(t, r.request(t, http.MethodPost, "/lock/break", f)).says(t, http.StatusForbidden, "no right to operate")

	if err := r.rules.Replace(
		[]access.Rule{{Match: mustPattern(t, "**"), Allow: access.Acquire}}, access.Limits{},
	); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"/", "/locks", "/events", "/lock?name=seen/door", "/lock.json?name=seen/door", "/live/", "/live/events",
	} {
		r.get(t, path).says(t, http.StatusForbidden, "no right to look", "!seen/door\"")
	}
}

// streamOf opens a stream, and returns what waits for its next event of a kind.
func (r *running) streamOf(t *testing.T, path string) (next func(kind string) string) {
	t.Helper()
	resp, err := r.http.Do(r.request(t, http.MethodGet, path, nil))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	if kind := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK ||
		kind != "text/event-stream; charset=utf-8" {
		t.Fatalf("%d, %s", resp.StatusCode, kind)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	return func(kind string) string {
		t.Helper()
		event := ""
		for lines.Scan() {
			if text, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				event = text
			}
			if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok && event == kind {
				return text
			}
		}
		t.Fatalf("the stream ended without %s: %v", kind, lines.Err())
		return ""
	}
}

// await waits for an event that says something.
func await(t *testing.T, next func(string) string, kind, text string) {
	t.Helper()
	for !strings.Contains(next(kind), text) {
	}
}

func TestStreams(t *testing.T) {
	t.Parallel()
	r := run(t, setup{})
	locks := r.streamOf(t, "/live/locks?match=door")
	door := r.streamOf(t, "/live"+lockPath("door"))
	overview := r.streamOf(t, "/live/")
	r.until(t, "/events", "agentstarted</span>") // there is a log
	happens := r.streamOf(t, "/live/events?after=0")
	await(t, happens, "events", "agentstarted") // what was there before
	await(t, door, "content", "nobody")
	c := r.hold(t, "door", "knock")
	await(t, locks, "content", "knock")
	await(t, door, "content", "knock")
	await(t, overview, "content", `id=\"held\"\u003e1`)
	await(t, happens, "events", "granted")
	c.end()
	await(t, locks, "content", "No lock that you may look at fits")
	await(t, door, "content", "nobody")

	if err := r.rules.Replace(
		[]access.Rule{{Match: mustPattern(t, "**"), Allow: access.Acquire}}, access.Limits{},
	); err != nil {
		t.Fatal(err)
	}
	await(t, locks, "fault", "no right") // a stream asks for its rights again
}

func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	r := run(t, setup{})
	for range 48 { // as those have who look after the daemon: half of 64, and a reserve of 16
		r.streamOf(t, "/live/")
	}
	a := r.get(t, "/live/locks")
	if a.says(t, http.StatusServiceUnavailable); a.header.Get("Retry-After") == "" {
		t.Errorf("%v", a.header)
	}
	r.get(t, "/live/events").says(t, http.StatusServiceUnavailable)
	r.get(t, "/").says(t, http.StatusOK) // the pages themselves go on
}

func TestListsHavePages(t *testing.T) {
	t.Parallel()
	r := run(t, setup{})
	for i := range 60 {
		r.hold(t, fmt.Sprintf("door/%02d", i), "")
	}
	first := r.get(t, "/locks?match=door")
	first.says(
		t, http.StatusOK, ">door/00<", ">door/49<", "!>door/50<", "Next page", "!First page",
		`href="/locks?match=door&amp;page=2"`, "<b>60 locks</b>", "<b>0 contended</b>", "rows 1 to 50 of 60",
	)
	r.get(t, "/locks?page=2&match=door").says(
		t, http.StatusOK, "!>door/49<", ">door/50<", ">door/59<", "!Next page", "First page",
	)
	for range 5 {
		r.hold(t, "door/00", "")
	}
	r.get(t, "/locks?state=waiting").says(t, http.StatusOK, ">door/00<", "!>door/01<", "5 wait")
	r.get(t, "/locks?sort=tree").says(t, http.StatusOK, ">door/<", "60 locks", "60 held", "5 wait")
}

// A lock with waiters is told from an idle one, and one that a command of today holds from one that was left behind.
func TestContention(t *testing.T) {
	t.Parallel()
	r := run(t, setup{})
	r.hold(t, "idle", "make all")
	r.hold(t, "busy", "pg_dump shop")
	r.hold(t, "busy", "")
	r.acquire(t, &lockagentv1.AcquireRequest{
		Name: "left", Detach: true, Ttl: durationpb.New(time.Hour), ForPid: int32(os.Getpid()), Command: "night.sh",
	})
	idle := `<span class="badge held">held</span></td>`
	busy := `<span class="badge held">held</span> <span class="chip waits"`
	a := r.get(t, "/locks?match=idle")
	a.says(t, http.StatusOK, idle, "!chip waits", ">make all</b>", fmt.Sprintf("%d · ", os.Getpid()))
	r.get(t, "/locks?match=busy").says(
		t, http.StatusOK, busy, "1 waits", "<b class=\"warn\">1 contended</b>", ">pg_dump shop</b>",
	)
	r.until(t, "/locks?match=left", "detached").says(
		t, http.StatusOK, "until ", fmt.Sprintf(", or %d ends", os.Getpid()), "!meter",
	)
	r.get(t, lockPath("left")).says(t, http.StatusOK, " ends", "night.sh", "data-copy=")
}

// The page of the fleet shows what the hub has, by the rules of the host. The log of the host is the hub here.
func TestFleetOfAHub(t *testing.T) {
	t.Parallel()
	r := run(t, setup{
		page: func(c *daemon.PageConfig) { c.Hub = c.Log },
		rules: []access.Rule{
			{Match: mustPattern(t, "seen/**"), Allow: access.Acquire | access.Look | access.Watch},
			{Match: mustPattern(t, "**"), Allow: access.Acquire},
		},
	})
	r.hold(t, "seen/door", "pg_dump shop")
	r.hold(t, "secret/door", "")
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	r.until(t, "/fleet", "seen/door").says(
		t, http.StatusOK, "@"+host, ">pg_dump shop</b>", "All hosts, as the hub had told by", "!secret",
	)
}

// A daemon whose store does not answer still shows what it knows.
func TestSilentStore(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	r := run(t, setup{store: store})
	c := r.hold(t, "door", "knock")
	goOn := store.Hang()
	defer goOn()
	r.until(t, "/", "part bad").says(t, http.StatusOK, "Store", `id="held">1<`)
	r.get(t, lockPath("door")).says(
		t, http.StatusOK, "knock", fmt.Sprint(c.granted.GetToken()), `<dt>The store says</dt><dd><span class="bad">`,
	)
}

// The page shows who holds a lock on another host, as far as the store knows it.
func TestHeldElsewhere(t *testing.T) {
	store := memstore.New()
	r := run(t, setup{store: store})
	store.PlantHolder("door", "another-host:7", 1, time.Hour)
	r.get(t, lockPath("door")).says(t, http.StatusOK, "held elsewhere", "another-host:7", "Break the lock")
}
