//go:build linux

package main

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/internal/waittest"
)

var pageAddress = regexp.MustCompile(`Page: (http://127\.0\.0\.1:[0-9]+/)`)

// pageSays waits until a page says a text.
func pageSays(t *testing.T, url, text string) {
	t.Helper()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	var body string
	defer func() {
		if t.Failed() {
			t.Logf("%s says %s", url, body)
		}
	}()
	waittest.Until(t, fmt.Sprintf("%s to say %q", url, text), func() bool {
		_, body = page(t, client, url)
		return strings.Contains(body, text)
	})
}

func TestServePage(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	d := serving(t, path, "--web", "127.0.0.1:0", "--host", "web-1", "--nats", "nats://127.0.0.1:1")
	url := pageAddress.FindStringSubmatch(d.stderr.String())
	if url == nil {
		t.Fatalf("it does not say where the page is: %s", d.stderr.String())
	}
	claims(t, path, "door")
	pageSays(t, url[1], `id="held">1<`)
	pageSays(t, url[1], "web-1")
	pageSays(t, url[1], `<b>Store</b> <span class="where">memory</span> <span class="say">answers`)
	pageSays(t, url[1], `<b>Event log</b> <span class="where">NATS in this daemon</span> <span class="say">up to date`)
	pageSays(
		t, url[1],
		`<li class="part bad" data-key="part-NATS"><span class="dot" aria-hidden="true"></span>`+
			`<b>NATS</b> <span class="where">nats://127.0.0.1:1`,
	)
	pageSays(t, url[1]+"locks", ">door<")
	pageSays(t, url[1]+"lock?name=door", "Locks cannot be broken on this page")
	pageSays(t, url[1]+"lock?name=door", "goes on") // from the event log
	pageSays(t, url[1]+"events", ">granted<")

	taken := strings.TrimSuffix(strings.TrimPrefix(url[1], "http://"), "/")
	other := socketPath(t)
	call(t, "serve", "--socket", other, "--state-dir", other+".state", "--web", taken).expect(
		t, cli.ExitFailed, nil, []string{"--web: listen tcp " + taken, "Try: lockagent serve --web 127.0.0.1:0"},
	)
}

func TestServePageWithoutHub(t *testing.T) {
	t.Parallel()
	d := serving(t, socketPath(t), "--web", "127.0.0.1:0", "--web-allow-break")
	url := pageAddress.FindStringSubmatch(d.stderr.String())
	pageSays(t, url[1], "the events stay on this host")
	d.interrupt(t).expect(t, cli.ExitOK, nil, nil)
}
