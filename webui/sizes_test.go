//go:build linux

package webui_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/lockagent/lockagent/internal/daemon"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// shots is a variable of the environment: a directory for pictures of all screens in all sizes.
const shots = "WEBUI_TEST_SHOTS"

// wide returns what is wider than the window, or than what is around it.
const wide = `[document.documentElement, ...document.querySelectorAll('.table')]
	.filter(e => e.scrollWidth > e.clientWidth + 1)
	.map(e => e.nodeName + '.' + e.className)
	.join()`

// cut returns the texts of which a part cannot be seen.
const cut = `[...document.querySelectorAll('td *')]
	.filter(e => e.checkVisibility() && getComputedStyle(e).overflowX === 'hidden' && !e.matches('.sr'))
	.filter(e => e.scrollWidth > e.clientWidth + 1)
	.map(e => e.innerText)
	.join()`

// On a phone, a tablet and two screens, in light and dark, with few locks and with many: nothing is wider than the
// window, no text is cut where there is little room, all has contrast, and a screen has 25 rows.
func TestSizes(t *testing.T) { sizes(t, 0, 3, 500) }

func sizes(t *testing.T, numbers ...int) {
	t.Helper()
	t.Parallel()
	b := browser(t)
	for _, locks := range numbers {
		t.Run(fmt.Sprintf("%d locks", locks), func(t *testing.T) {
			t.Parallel()
			r := run(t, setup{page: func(c *daemon.PageConfig) { c.Hub = c.Log }})
			if locks > 0 {
				r.holdMany(t, locks)
				r.hold(
					t, "many/00000", "waits for a lock with a command that is so long that it does not fit into one line of a table",
				)
				r.hold(
					t, "a/lock/with/a/name/of/many/parts/that-are-long-and-have-no-blanks-where-a-line-could-end/7",
					"pg_dump shop | zstd > /backup/shop.zst",
				)
				r.acquire(t, &lockagentv1.AcquireRequest{
					Name: "left/behind", Detach: true, ForPid: int32(os.Getpid()), Command: "night.sh",
				})
			}
			tb := r.open(t, b)
			for _, path := range []string{"/", "/locks", "/locks?sort=tree", "/fleet", "/lock?name=many/00000", "/events"} {
				tb.goTo(path)
				tb.await("document.getElementById('pulse').innerText === 'Live'")
				for i, width := range []int64{390, 768, 1280, 1920} {
					for _, colours := range []string{"light", "dark"} {
						if i%2 == 0 == (colours == "dark") && os.Getenv(shots) == "" {
							continue // each of them with two widths
						}
						tb.do(scheme(colours), chromedp.EmulateViewport(width, 900))
						at := fmt.Sprintf("%s, %d wide, %s", path, width, colours)
						if text := value[string](tb, wide); text != "" {
							t.Errorf("%s: too wide: %s", at, text)
						}
						if text := value[string](tb, cut); text != "" && width < 1000 {
							t.Errorf("%s: cut: %s", at, text)
						}
						if text := value[string](tb, faint); text != "" {
							t.Errorf("%s: faint: %s", at, text)
						}
						if dir := os.Getenv(shots); dir != "" {
							tb.shot(filepath.Join(dir, fmt.Sprintf("%s-%d-%d-%s.png", screenName(path), locks, width, colours)))
						}
					}
					if path == "/locks" && locks >= 500 && width >= 1280 {
						// A slow daemon makes the page stale, and it says so above the rows.
						const rows = "[...document.querySelectorAll('tbody tr')].filter(e => e.getBoundingClientRect().bottom - " +
							"(stale.hidden ? 0 : main.getBoundingClientRect().top - stale.getBoundingClientRect().top) <= " +
							"innerHeight).length"
						if n := value[int](tb, rows); n < 25 {
							t.Errorf("%d rows fit into a screen of %d x 900", n, width)
						}
					}
				}
			}
		})
	}
}

// screenName is a path as the name of a file.
func screenName(path string) string {
	switch path {
	case "/":
		return "overview"
	case "/locks?sort=tree":
		return "tree"
	}
	name, _, _ := strings.Cut(path[1:], "?")
	return name
}

func (tb *tab) shot(path string) {
	tb.t.Helper()
	raw, err := chromedp.Run(tb.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		tb.t.Fatal(err)
	}
	if err := os.WriteFile(path, raw, 0o644); err != nil {
		tb.t.Fatal(err)
	}
}

// The time from a change to its row in the browser.
func BenchmarkChangeToRow(b *testing.B) {
	chrome := browser(b)
	for _, locks := range []int{3, 500, 5000} {
		b.Run(fmt.Sprintf("locks=%d", locks), func(b *testing.B) {
			change := changes(b, chrome, locks)
			var worst time.Duration
			for n := 0; b.Loop(); n++ {
				worst = max(worst, change(n))
			}
			b.ReportMetric(float64(worst.Milliseconds()), "worst-ms")
		})
	}
}

// changes opens a page of so many locks. The n-th call of what it returns has somebody wait for a lock, and measures
// the time until the browser shows the waiter.
func changes(t testing.TB, chrome context.Context, locks int) func(n int) time.Duration {
	r := run(t, setup{})
	r.holdMany(t, locks)
	tb := r.open(t, chrome)
	tb.goTo("/locks")
	tb.await("document.getElementById('pulse').innerText === 'Live'")
	const rows = "document.querySelectorAll('.waits').length"
	return func(n int) time.Duration {
		began := time.Now()
		c := r.hold(t, fmt.Sprintf("many/%05d", n%3), "")
		for value[int](tb, rows) == 0 {
		}
		took := time.Since(began)
		c.end()
		for value[int](tb, rows) != 0 {
		}
		return took
	}
}
