//go:build linux

package webui_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	browserdomain "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/lockagent/lockagent/internal/machinetest"
	"github.com/lockagent/lockagent/internal/waittest"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// browser starts a browser. The end of the test ends it.
func browser(t testing.TB) context.Context {
	t.Helper()
	var path string
	err := fmt.Errorf("the machine has no Chromium; install it, for example with make deps and CI set")
	for _, name := range []string{"chromium", "chromium-headless-shell", "chromium-browser", "google-chrome"} {
		if found, looked := exec.LookPath(name); looked == nil {
			path, err = found, nil
			break
		}
	}
	machinetest.Needs(t, err)
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()), chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.WSURLReadTimeout(time.Hour), // go test has a bound of its own
	}
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // which root cannot have
	}
	ctx, cancel := chromedp.NewContext(context.Background(), chromedp.WithAllocatorOptions(options...))
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Error(err)
		}
		cancel()
	})
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start %s: %v", path, err)
	}
	return ctx
}

// tab is a tab of the browser. What it writes to its console is an error of the test: also what the policy of the page
// forbids.
type tab struct {
	*running
	t   testing.TB
	ctx context.Context

	mu    sync.Mutex // guards wrong
	wrong []string
	gone  bool // the daemon is, so the browser tells of connections that it cannot have
}

// open opens a tab. The end of the test closes it.
func (r *running) open(t testing.TB, browser context.Context) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser)
	tb := &tab{running: r, t: t, ctx: ctx}
	console := chromedp.Console(ctx)
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		for m, err := range console {
			if err != nil {
				return
			}
			tb.mu.Lock()
			if !tb.gone || !strings.Contains(m.Text, "net::ERR_") {
				tb.wrong = append(tb.wrong, fmt.Sprintf("%s: %s (%s)", m.Type, m.Text, m.URL))
			}
			tb.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		for _, text := range tb.console() {
			t.Errorf("the console says: %s", text)
		}
		cancel()
		<-heard
	})
	return tb
}

// console returns what the console has said, and forgets it.
func (tb *tab) console() []string {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	said := tb.wrong
	tb.wrong = nil
	return said
}

func (tb *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	tb.t.Helper()
	ctx, cancel := context.WithCancel(tb.ctx)
	defer cancel()
	defer context.AfterFunc(waittest.Context(tb.t), cancel)()
	if err := chromedp.Do(ctx, steps...); err != nil {
		tb.t.Fatalf("%v\nThe page is:\n%s", err, value[string](tb, text))
	}
}

func (tb *tab) goTo(path string) {
	tb.t.Helper()
	tb.do(chromedp.Navigate(tb.url + path))
}

// await waits until an expression is true.
func (tb *tab) await(expression string) {
	tb.t.Helper()
	defer func() {
		if tb.t.Failed() {
			tb.t.Logf("The page is:\n%s", value[string](tb, text))
		}
	}()
	waittest.Until(tb.t, expression, func() bool {
		is, err := chromedp.Run(tb.ctx, chromedp.Evaluate[bool](expression))
		return err == nil && is // an error is that of a page which has not come yet
	})
}

// text is that of the whole page.
const text = "document.body?.innerText ?? ''"

// press has a key go down and up. If the page wants the key for itself, it is no text.
func press(keys ...string) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		for _, key := range keys {
			text := key
			if len(key) > 1 { // it has a name, such as Tab
				text = map[string]string{"Enter": "\r"}[key]
			}
			code := map[string]int64{"Backspace": 8, "Tab": 9, "Enter": 13, "Escape": 27}[key]
			for _, kind := range []input.DispatchKeyEventType{
				input.DispatchKeyEventTypeKeyDown, input.DispatchKeyEventTypeKeyUp,
			} {
				if _, err := cdp.Call(ctx, target, input.DispatchKeyEvent, input.DispatchKeyEventParams{
					Type: kind, Key: key, Text: text, WindowsVirtualKeyCode: code,
				}); err != nil {
					return chromedp.Void{}, err
				}
			}
		}
		return chromedp.Void{}, nil
	}
}

// has waits until the page shows a text.
func (tb *tab) has(text string) {
	tb.t.Helper()
	tb.await(fmt.Sprintf("document.querySelector('main').innerText.includes(%q)", text))
}

func (tb *tab) hasNot(text string) {
	tb.t.Helper()
	tb.await(fmt.Sprintf("!document.querySelector('main').innerText.includes(%q)", text))
}

// value is that of an expression.
func value[T any](tb *tab, expression string) T {
	tb.t.Helper()
	got, err := chromedp.Run(tb.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		tb.t.Fatalf("%s: %v", expression, err)
	}
	return got
}

func (tb *tab) equal(expression, want string) {
	tb.t.Helper()
	if got := value[string](tb, expression); got != want {
		tb.t.Errorf("%s is %q, want %q", expression, got, want)
	}
}

func set[P, R any](command cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, target, command, params)
		return chromedp.Void{}, err
	}
}

// scheme is the colours that the user prefers: light or dark.
func scheme(name string) chromedp.Action[chromedp.Void] {
	return set(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}},
	})
}

func TestBrowser(t *testing.T) {
	t.Parallel()
	b := browser(t)
	for name, test := range map[string]func(*testing.T, *running, *tab){
		"Overview is alive":       aliveOverview,
		"Locks are filtered":      filteredLocks,
		"One lock is broken":      brokenLock,
		"Events arrive":           arrivingEvents,
		"Keys are enough":         keysAlone,
		"No scripts are needed":   withoutScripts,
		"Names cannot do harm":    harmlessNames,
		"A silent daemon is seen": silentDaemon,
		"Readable by all":         readableByAll,
		"Ids are copied whole":    copiedIDs,
		"Many locks are light":    func(t *testing.T, r *running, tb *tab) { manyLocks(t, r, tb, 150) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := run(t, setup{})
			test(t, r, r.open(t, b))
		})
	}
}

func aliveOverview(t *testing.T, r *running, tb *tab) {
	tb.goTo("/")
	tb.await("document.getElementById('pulse').innerText === 'Live'")
	tb.equal("document.getElementById('held').innerText", "0")
	value[bool](tb, "window.same = true")
	c := r.hold(t, "door", "knock")
	r.hold(t, "door", "")
	tb.await("document.getElementById('held').innerText === '1' && document.getElementById('waiting').innerText === '1'")
	tb.has("knock")
	tb.await("/^[1-9][0-9]* s$/.test(document.querySelector('[data-age]').innerText)") // the script counts on
	c.end()
	tb.await("document.getElementById('waiting').innerText === '0'")
	tb.hasNot("knock")
	if !value[bool](tb, "window.same") {
		t.Error("the page was loaded again")
	}
}

func filteredLocks(t *testing.T, r *running, tb *tab) {
	r.hold(t, "orders/42", "")
	r.hold(t, "orders/42", "")
	r.hold(t, "orders/7", "")
	r.hold(t, "certs", "")
	rows := "[...document.querySelectorAll('tbody a.name')].map(a => a.innerText).join()"
	tb.goTo("/locks")
	tb.equal(rows, "orders/42,certs,orders/7")
	value[bool](tb, "window.same = true")
	tb.do(chromedp.SendKeys(chromedp.CSS("#match"), "orders/*"))
	tb.await("location.search === '?match=orders%2F*'") // while somebody types
	tb.await(rows + " === 'orders/42,orders/7'")
	r.hold(t, "orders/6", "")
	tb.await(rows + " === 'orders/42,orders/6,orders/7'") // by the stream of what was typed
	tb.equal("document.activeElement.value", "orders/*")
	if !value[bool](tb, "window.same") {
		t.Error("the page was loaded again")
	}
	tb.do(chromedp.Click(chromedp.CSS(".tabs a:nth-child(3)")))
	tb.await(
		"new URLSearchParams(location.search).get('state') === 'waiting' && new " +
			"URLSearchParams(location.search).get('match') === 'orders/*'",
	)
	tb.await(rows + " === 'orders/42'")
	r.hold(t, "orders/7", "") // a second claim waits
	tb.await(rows + " === 'orders/42,orders/7'")
	r.hold(t, "certs", "")
	r.hold(t, "orders/8", "")
	r.hold(t, "orders/8", "")
	tb.await(rows + " === 'orders/42,orders/7,orders/8'")
	tb.do(chromedp.Click(chromedp.CSS("tbody a.name")))
	tb.await("location.pathname === '/lock'")
	tb.do(chromedp.NavigateBack())
	tb.await(rows + " === 'orders/42,orders/7,orders/8'")
}

func brokenLock(t *testing.T, r *running, tb *tab) {
	c := r.hold(t, "orders/42", "knock")
	tb.goTo(lockPath("orders/42"))
	tb.has("Locks cannot be broken on this page")
	r.allowBreak.Store(true)
	tb.has("This ends the hold of") // the stream brings the form
	tb.do(chromedp.Click(chromedp.CSS("summary")))
	button := "document.querySelector('form.break button')"
	tb.await(button + ".disabled")
	tb.do(chromedp.SendKeys(chromedp.CSS("[name=confirm]"), "orders/4"))
	r.hold(t, "orders/42", "waiter") // the page changes while somebody types
	tb.has("waiter")
	tb.equal("document.querySelector('[name=confirm]').value", "orders/4")
	tb.equal("document.activeElement.name", "confirm")
	if !value[bool](tb, button+".disabled && document.querySelector('details').open") {
		t.Error("the button waits for no name, or the page has closed what was open")
	}
	tb.do(
		chromedp.SendKeys(chromedp.CSS("[name=confirm]"), "2"), chromedp.SendKeys(chromedp.CSS("[name=reason]"), "it hangs"),
	)
	tb.await("!" + button + ".disabled")
	tb.do(chromedp.Click(chromedp.CSS("form.break button")))
	tb.has(fmt.Sprintf("The hold with the token %d is over", c.granted.GetToken()))
	if lost := c.lost(); lost.GetReason() != lockagentv1.LossReason_LOSS_REASON_BROKEN ||
		!strings.HasSuffix(lost.GetOperator(), ": it hangs") {
		t.Errorf("%v", lost)
	}
	tb.await("document.querySelector('[data-key^=claim] .who b').innerText === 'waiter'") // who waited has it now
	tb.has("it hangs")                                                                    // in the history
}

func arrivingEvents(t *testing.T, r *running, tb *tab) {
	tb.goTo("/events?match=door")
	tb.await("document.getElementById('pulse').innerText === 'Live'")
	r.hold(t, "door/1", "")
	tb.has("door/1")
	tb.do(chromedp.Click(chromedp.CSS("#pause")))
	r.hold(t, "door/2", "")
	tb.await("document.getElementById('pause').innerText === 'Go on with what is new'")
	if value[bool](tb, "document.querySelector('main').innerText.includes('door/2')") {
		t.Error("an event came while the list pauses")
	}
	r.hold(t, "desk", "")
	tb.do(press("p"))
	tb.has("door/2")
	tb.equal("document.querySelector('tbody a.name').innerText", "door/2")
	if value[bool](tb, "document.querySelector('main').innerText.includes('desk')") {
		t.Error("the filter does not count for what arrives")
	}
}

func keysAlone(t *testing.T, r *running, tb *tab) {
	for i := range 3 {
		r.hold(t, fmt.Sprintf("door/%d", i), "")
	}
	tb.goTo("/")
	tb.do(press("Tab"))
	tb.equal("document.activeElement.innerText", "Skip to the content")
	tb.do(press("Enter"))
	tb.await("document.activeElement.id === 'main'")

	tb.goTo("/locks")
	tb.do(press("/"))
	tb.equal("document.activeElement.id", "match")
	tb.do(press("j")) // is text here
	tb.equal("document.activeElement.value", "j")
	tb.await("location.search.includes('match=j')") // the list follows what is typed
	tb.do(press("Backspace"))
	tb.await("!location.search.includes('match=j')")
	tb.has("door/0")
	tb.do(press("Escape", "j"))
	tb.equal("document.activeElement.innerText", "door/0")
	tb.do(press("j", "j", "j"))
	tb.equal("document.activeElement.innerText", "door/2")
	tb.do(press("k"))
	tb.equal("document.activeElement.innerText", "door/1")
	r.hold(t, "door/05", "") // a row comes in front
	tb.has("door/05")
	tb.equal("document.activeElement.innerText", "door/1")
	tb.do(press("Enter"))
	tb.await("location.href.endsWith('/lock?name=door%2F1')")
}

func withoutScripts(t *testing.T, r *running, tb *tab) {
	r.allowBreak.Store(true)
	c := r.hold(t, "door", "knock")
	tb.do(set(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}))
	for path, text := range map[string]string{
		"/": "Longest waits", "/locks": "knock", lockPath("door"): "This ends the hold of", "/events": "Event",
	} {
		tb.goTo(path)
		tb.equal("getComputedStyle(document.querySelector('noscript p')).display", "block")
		if got := value[string](
			tb, "document.querySelector('main').innerText + document.getElementById('pulse').innerText",
		); !strings.Contains(got, text) || !strings.Contains(got, "Snapshot of") {
			t.Errorf("%s does not say %q: %s", path, text, got)
		}
	}
	tb.goTo(lockPath("door"))
	tb.equal("getComputedStyle(document.querySelector('.copy')).display", "none") // a script copies
	tb.do(chromedp.SendKeys(chromedp.CSS("[name=confirm]"), "door"+kb.Enter))
	if lost := c.lost(); lost.GetReason() != lockagentv1.LossReason_LOSS_REASON_BROKEN {
		t.Errorf("%v", lost)
	}
	tb.do(chromedp.WaitVisible(chromedp.CSS(".note")))
}

func harmlessNames(t *testing.T, r *running, tb *tab) {
	const name = `<img src=x onerror="window.harm=1">`
	const command = `</code><script>window.harm=1</script><style>main{display:none}</style>`
	r.hold(t, name, command)
	for _, path := range []string{
		"/locks", lockPath(name), "/events", "/locks?match=" + "%3Cscript%3Ewindow.harm%3D1%3C%2Fscript%3E",
	} {
		tb.goTo(path)
		tb.await("document.getElementById('pulse').innerText === 'Live'")
		if !strings.Contains(path, "match") {
			tb.has(name)
		}
		if value[bool](tb, "'harm' in window || document.querySelector('main img, main script, main style') !== null") {
			t.Errorf("%s runs what somebody calls a lock", path)
		}
	}
}

func silentDaemon(t *testing.T, r *running, tb *tab) {
	r.hold(t, "door", "knock")
	tb.goTo("/locks")
	tb.await("document.getElementById('pulse').innerText === 'Live'")
	if !value[bool](tb, "document.getElementById('stale').hidden") {
		t.Error("the page is stale from its beginning")
	}
	tb.mu.Lock()
	tb.gone = true
	tb.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := r.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	tb.await("!document.getElementById('stale').hidden && document.getElementById('pulse').innerText === 'Stale'")
	if text := value[string](
		tb, "document.getElementById('stale').innerText",
	); !strings.Contains(text, "What you see may be over") {
		t.Errorf("it says %q", text)
	}
}

// faint returns the texts whose colours are too alike, by the rule of WCAG 2.2, 1.4.3. Disabled buttons may be.
const faint = `(() => {
	const parse = (c) => {
		const m = c.match(/[\d.]+/g).map(Number);
		return { rgb: m.slice(0, 3), a: m.length > 3 ? m[3] : 1 };
	};
	const linear = (v) => v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4;
	const lum = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
	const ground = (e) => {
		for (; e; e = e.parentElement) {
			const c = parse(getComputedStyle(e).backgroundColor);
			if (c.a === 1) return c.rgb;
		}
		return [255, 255, 255];
	};
	const bad = [];
	const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	for (let n = walk.nextNode(); n; n = walk.nextNode()) {
		const e = n.parentElement;
		if (!n.data.trim() || !e.checkVisibility({ visibilityProperty: true })) continue;
		if (e.closest(':disabled, noscript, .sr, script')) continue;
		const a = lum(parse(getComputedStyle(e).color).rgb), b = lum(ground(e));
		const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
		if (ratio < 4.5) bad.push(n.data.trim() + ' ' + ratio.toFixed(2));
	}
	return bad.join('; ');
})()`

// In both schemes of colours text has contrast. Whatever can be used has a name, tables have headers, and nothing is
// wider than the window.
func readableByAll(t *testing.T, r *running, tb *tab) {
	r.allowBreak.Store(true)
	r.hold(t, "door", "knock")
	r.hold(t, "door", "knock again")
	grounds := make(map[string]string)
	for _, name := range []string{"light", "dark"} {
		tb.do(scheme(name), chromedp.EmulateViewport(1280, 800))
		for _, path := range []string{"/", "/locks", lockPath("door"), "/events", "/nowhere"} {
			tb.goTo(path)
			if path == "/nowhere" {
				tb.console() // says that the status is 404
			}
			if bad := value[string](tb, faint); bad != "" {
				t.Errorf("%s, %s: %s", path, name, bad)
			}
			for _, node := range unnamed(tb) {
				t.Errorf("%s: %s has no name", path, node)
			}
			if n := value[int](tb, "document.querySelectorAll('h1').length"); n != 1 {
				t.Errorf("%s has %d main headings", path, n)
			}
			if n := value[int](
				tb, "document.querySelectorAll('th:not([scope]), img:not([alt]), html:not([lang]), [style], [onclick]').length",
			); n != 0 {
				t.Errorf("%s has %d elements without what they need", path, n)
			}
			for _, width := range []int64{1280, 360} {
				tb.do(chromedp.EmulateViewport(width, 800))
				if value[bool](tb, "document.documentElement.scrollWidth > innerWidth") {
					t.Errorf("%s is wider than a window of %d", path, width)
				}
			}
			tb.do(chromedp.EmulateViewport(1280, 800))
		}
		grounds[name] = value[string](tb, "getComputedStyle(document.body).backgroundColor")
	}
	if grounds["light"] == grounds["dark"] {
		t.Errorf("both schemes have the ground %s", grounds["light"])
	}
}

// The page shows ids in short. A button copies the whole of one, and says so until the next content comes.
func copiedIDs(t *testing.T, r *running, tb *tab) {
	c := r.hold(t, "door", "knock")
	r.hold(t, "door", "waiter")
	tb.goTo(lockPath("door"))
	tb.await("document.getElementById('pulse').innerText === 'Live'")
	reads := browserdomain.SetPermissionParams{
		Permission: &browserdomain.PermissionDescriptor{Name: "clipboard-read"},
		Setting:    browserdomain.PermissionSettingGranted, Origin: r.url,
	}
	if _, err := chromedp.CallBrowser(tb.ctx, browserdomain.SetPermission, reads); err != nil {
		t.Fatal(err)
	}
	value[bool](tb, `window.said = new Set();
		new MutationObserver(() => document.querySelectorAll('.copy').forEach(b => said.add(b.innerText)))
			.observe(main, { subtree: true, childList: true, characterData: true }) ?? true`)
	waiter := value[string](tb, "document.querySelector('[aria-labelledby=queue] code').title")
	for _, test := range []struct{ button, want string }{
		{"[aria-labelledby=holders] [title='Copy the token']", fmt.Sprint(c.granted.GetToken())},
		{"[aria-labelledby=holders] [title='Copy the claim']", c.granted.GetClaim()},
		{"[aria-labelledby=queue] [title='Copy the claim']", waiter},
	} {
		value[bool](tb, "said.clear() ?? true")
		tb.do(chromedp.Click(chromedp.CSS(test.button)))
		copied := ""
		waittest.Until(t, test.button+" to have copied "+test.want, func() bool {
			reading := chromedp.Evaluate[string]("navigator.clipboard.readText()", chromedp.EvalAwaitPromise)
			copied, _ = chromedp.Run(tb.ctx, reading)
			return copied == test.want
		})
		tb.await("said.has('copied')")
		tb.await(fmt.Sprintf(`document.querySelector(%q).innerText === 'copy'`, test.button))
	}
}

// unnamed returns the roles of elements that can be used, and that have no name for those who do not see them.
func unnamed(tb *tab) (roles []string) {
	tb.t.Helper()
	tb.do(func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		tree, err := cdp.Call(ctx, target, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
		for _, n := range tree.Nodes {
			if n.Ignored || n.Role == nil {
				continue
			}
			role := strings.Trim(string(n.Role.Value), `"`)
			switch role {
			case "link", "button", "textbox", "searchbox", "meter", "table", "navigation", "region":
				if n.Name == nil || len(n.Name.Value) <= len(`""`) {
					roles = append(roles, role)
				}
			}
		}
		return chromedp.Void{}, err
	})
	return roles
}
