package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// host is where a test loads settings.
type host struct {
	*testing.T
	Inputs
	file string
}

func newHost(t *testing.T) *host {
	dir := t.TempDir()
	return &host{
		t,
		Inputs{
			Flags: make(map[string]string), Environ: []string{"XDG_CONFIG_HOME=" + dir}, Dir: "/here", UID: 1000,
			Hostname: "web-1.example",
		},
		filepath.Join(dir, "lockagent", "config.yaml"),
	}
}

// write makes the configuration file.
func (h *host) write(text string) {
	h.Helper()
	if err := os.MkdirAll(filepath.Dir(h.file), 0o700); err != nil {
		h.Fatal(err)
	}
	if err := os.WriteFile(h.file, []byte(text), 0o600); err != nil {
		h.Fatal(err)
	}
}

func (h *host) load() *Config {
	h.Helper()
	c, err := Load(h.Inputs)
	if err != nil {
		h.Fatal(err)
	}
	return c
}

// problems loads settings that are wrong, and returns a line for each problem, in which FILE is the configuration file.
func (h *host) problems() []string {
	h.Helper()
	_, err := Load(h.Inputs)
	if err == nil {
		return nil
	}
	return strings.Split(strings.ReplaceAll(err.Error(), h.file, "FILE"), "\n")
}

// expect fails the test unless a setting has a value, and that came from somewhere.
func (h *host) expect(c *Config, key, text, from string) {
	h.Helper()
	for _, v := range c.Values() {
		if v.Key == key {
			if at := strings.ReplaceAll(v.Origin.String(), h.file, "FILE"); v.Text != text || at != from {
				h.Errorf("%s is %q from %s, want %q from %s", key, v.Text, at, text, from)
			}
			return
		}
	}
	h.Errorf("there is no value of %s", key)
}
