// Package address shows the URLs of servers without what is secret in them.
package address

import (
	"net/url"
	"slices"
	"strings"
)

// mask stands where something is left out.
const mask = "xxxxx"

// open are the parameters of a URL that are no secrets. The name of any other one may be a part of a password, if that
// has an & or a ? in it.
var open = []string{"addr", "db", "master_set", "sentinel_user", "skip_verify"}

// secret is the parameter of a URL that is a password.
const secret = "sentinel_password"

// Redacted is a URL, or a list of URLs with commas between them, without passwords and without what may be a token.
func Redacted(urls string) string {
	text, _ := redact(urls)
	return text
}

// HasSecret reports whether there is something in urls that Redacted leaves out. It is also true for a text that is no
// URL, if there may be a password in it.
func HasSecret(urls string) bool {
	_, found := redact(urls)
	return found
}

func redact(urls string) (text string, found bool) {
	parts := strings.Split(urls, ",")
	for i, part := range parts {
		u, err := url.Parse(strings.TrimSpace(part))
		if err != nil || u.Scheme == "" || astray(u) { // a password with a comma in it makes such parts, too
			return "an address that cannot be understood", strings.Contains(urls, "@") || strings.Contains(urls, "password")
		}
		if _, password := u.User.Password(); password {
			u.User, found = url.UserPassword(u.User.Username(), mask), true
		} else if u.User != nil && !isRedis(u) { // a user alone is a token to NATS
			u.User, found = url.User(mask), true
		}
		if u.RawQuery != "" {
			query, masked := parameters(u.RawQuery)
			u.RawQuery, found = query, found || masked
		}
		parts[i] = u.String()
	}
	return strings.Join(parts, ","), found
}

// astray reports whether a URL may have a password where none belongs: one that is not escaped ends anywhere before
// its last @.
func astray(u *url.URL) bool {
	return u.Fragment != "" || strings.Contains(u.Opaque+u.EscapedPath()+u.RawQuery, "@")
}

// parameters is the query of a URL without what is secret, or may be.
func parameters(raw string) (query string, masked bool) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return mask, true
	}
	for name := range values {
		switch {
		case name == secret:
			values.Set(name, mask)
			masked = true
		case !slices.Contains(open, name):
			return mask, true
		}
	}
	if !masked {
		return raw, false
	}
	return values.Encode(), true
}

func isRedis(u *url.URL) bool { return strings.HasPrefix(u.Scheme, "redis") || u.Scheme == "unix" }
