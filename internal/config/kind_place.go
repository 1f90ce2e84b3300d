package config

import (
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/lockagent/lockagent/internal/address"
	"github.com/lockagent/lockagent/internal/place"
)

// path is the path of a file. A ${NAME} in it stands for a variable of the environment: see [loading.expand].
type path struct {
	secret bool // the file has one, and somebody may have written it in place of the path
	socket bool
}

func (path) name() string          { return "path" }
func (path) tag() string           { return tagText }
func (path) text(field any) string { return *field.(*string) }

func (k path) wants() string {
	if k.secret {
		return "the absolute path of a file that has the secret"
	}
	return "an absolute path"
}

func (path) schema(schema map[string]any) {
	schema["type"], schema["pattern"] = "string", `^(/|\$\{[A-Za-z_][A-Za-z0-9_]*\})`
}

func (k path) set(field any, text string) error {
	switch {
	case !filepath.IsAbs(text) && k.secret:
		return fmt.Errorf("wants %s", k.wants())
	case !filepath.IsAbs(text):
		return not(k, text)
	case strings.ContainsRune(text, 0):
		return fmt.Errorf("wants %s, and no path has a NUL in it", k.wants())
	}
	text = filepath.Clean(text)
	if k.socket && len(text) > place.MostSocketPath {
		return fmt.Errorf("has %d bytes, and the path of a socket has at most %d", len(text), place.MostSocketPath)
	}
	*field.(*string) = text
	return nil
}

// listen is a host and port to listen on.
type listen struct{}

const listenPattern = `^(|[^\s:/@]+|\[[0-9A-Fa-f:.%a-z]+\]):[0-9]+$`

func (listen) name() string          { return "address" }
func (listen) wants() string         { return "a host and a port such as 127.0.0.1:7070" }
func (listen) tag() string           { return tagText }
func (listen) text(field any) string { return *field.(*string) }

func (listen) schema(schema map[string]any) {
	schema["type"], schema["pattern"] = "string", listenPattern
}

func (k listen) set(field any, text string) error {
	_, port, err := net.SplitHostPort(text)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil || !(word{pattern: listenPattern}).fits(text) {
		if _, err := strconv.ParseUint(text, 10, 16); err == nil {
			return meant(k, text, "127.0.0.1:"+text)
		}
		return not(k, text)
	}
	*field.(*string) = text
	return nil
}

// server is the URL of a server, or a list of them with commas between them.
type server struct {
	schemes []string
	example string
	secrets []string // the settings for what is secret in such a URL
	list    bool
}

func (server) name() string    { return "URL" }
func (k server) wants() string { return "a URL such as " + k.example }
func (server) tag() string     { return tagText }

func (server) text(field any) string {
	if text := *field.(*string); text != "" {
		return address.Redacted(text)
	}
	return ""
}

func (k server) schema(schema map[string]any) {
	schema["type"], schema["pattern"] = "string", "^("+strings.Join(k.schemes, "|")+")://"
}

func (k server) set(field any, text string) error {
	parts := []string{text}
	if k.list {
		parts = strings.Split(text, ",")
	}
	for _, part := range parts {
		u, err := url.Parse(strings.TrimSpace(part))
		switch {
		case err != nil || u.Scheme == "": // its error may repeat a password
			return fmt.Errorf("wants %s; special characters in it are written as %%40 for @ and %%2F for /", k.wants())
		case !slices.Contains(k.schemes, u.Scheme):
			return fmt.Errorf("wants %s; its scheme is not %s", k.wants(), choice(k.schemes).wants())
		case u.Opaque != "" || u.Host == "" && u.Path == "":
			return fmt.Errorf("wants %s; there is no host behind %s://", k.wants(), u.Scheme)
		}
	}
	*field.(*string) = text
	return nil
}
