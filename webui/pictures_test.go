//go:build linux

package webui_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image/png"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// newGolden is a variable of the environment. If it is set, the pictures of the documentation are made anew.
const newGolden = "LOCKAGENT_NEW_GOLDEN"

const pictures = "../docs/img"

// clientEnv has the test binary be a client of a daemon: a clientRole in JSON.
const clientEnv = "WEBUI_TEST_CLIENT"

type clientRole struct {
	Socket, Program string
	Request         *lockagentv1.AcquireRequest
}

// play makes a claim, says so, and keeps it until nobody writes to the standard input any more.
func play(text string) error {
	var role clientRole
	if err := json.Unmarshal([]byte(text), &role); err != nil {
		return err
	}
	if err := os.WriteFile("/proc/self/comm", []byte(role.Program), 0); err != nil {
		return err
	}
	client, end := overSocket(role.Socket)
	defer end()
	stream, err := client.Acquire(background, role.Request)
	if err != nil {
		return err
	}
	if !stream.Receive() {
		return stream.Err()
	}
	fmt.Println("ok")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// client starts a process that makes a claim. The function that it returns ends the process, and so does the end of the
// test.
func (r *running) client(t *testing.T, program, name, command string) (end func()) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	role, err := json.Marshal(clientRole{r.path, program, &lockagentv1.AcquireRequest{Name: name, Command: command}})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env, cmd.Stderr = append(os.Environ(), clientEnv+"="+string(role)), t.Output()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end = func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	}
	t.Cleanup(end)
	if _, err := stdout.Read(make([]byte, 2)); err != nil {
		t.Fatalf("%s made no claim: %v", program, err)
	}
	return end
}

// Whoever wants to see the page with something on it: the pictures of the documentation come from here.
func TestPictures(t *testing.T) {
	if os.Getenv(newGolden) == "" {
		t.Skipf("it makes the pictures of the documentation: set %s for new ones", newGolden)
	}
	r := run(t, setup{})
	r.allowBreak.Store(true)
	tb := r.open(t, browser(t))
	tb.goTo("/")
	hang := r.hold(t, "mail/digest", "digest --weekly")
	for i := range 3 {
		r.client(t, "lockagent", "deploy/web", fmt.Sprintf("./deploy.sh web --release %d", 211+i))()
	}
	for i, c := range [][3]string{
		{"lockagent", "backup/shop", "pg_dump shop | zstd > /backup/shop.zst"},
		{"lockagent", "deploy/web", "./deploy.sh web --release 214"},
		{"billing", "invoices/2026-11", ""},
		{"lockagent", "deploy/web", "./deploy.sh web --release 215"},
		{"billing", "invoices/2026-11", ""},
		{"search", "search/reindex", "reindex --full"},
		{"lockagent", "deploy/web", "./rollback.sh web"},
		{"certbot", "certs/example.org", "certbot renew"},
	} {
		if i%2 == 0 {
			tb.await(fmt.Sprintf("performance.now() > %d", 2500*(i+2))) // so that not everything is of the same age
		}
		r.client(t, c[0], c[1], c[2])
	}
	f := form("mail/digest", hang.granted.GetToken(), "mail/digest")
	f.Set("reason", "hangs since noon")
	r.do(t, r.request(t, http.MethodPost, "/lock/break", f))
	r.until(t, "/", "hangs since noon")
	if err := os.MkdirAll(pictures, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, colours := range []string{"light", "dark"} {
		for name, path := range map[string]string{
			"overview": "/", "locks": "/locks", "lock": "/lock?" + url.Values{"name": {"deploy/web"}}.Encode(),
		} {
			tb.do(scheme(colours), chromedp.EmulateViewport(1200, 600, chromedp.EmulateScale(1)))
			tb.goTo(path)
			tb.await("document.getElementById('pulse').innerText === 'Live'")
			raw, err := chromedp.Run(tb.ctx, chromedp.FullScreenshot(100))
			if err != nil {
				t.Fatal(err)
			}
			writePicture(t, filepath.Join(pictures, name+"-"+colours+".png"), raw)
		}
	}
}

// writePicture writes a picture in as few bytes as it takes.
func writePicture(t *testing.T, path string, raw []byte) {
	t.Helper()
	picture, err := png.Decode(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	var small bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&small, picture); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, small.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}
