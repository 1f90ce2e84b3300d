// Package address shows the URLs of servers without what is secret in them.
package address

import (
	"net/url"
	"strings"
)

// mask stands where something is left out.
const mask = "xxxxx"

// secretParameters are the parameters of a URL that are passwords.
var secretParameters = []string{"sentinel_password"}

// Redacted is a URL, or a list of URLs with commas between them, without passwords and without what may be a token.
func Redacted(urls string) string {
	text, _ := redact(urls)
	return text
}

// HasSecret reports whether there is something in urls that Redacted leaves out. It is also true for a text that is no URL, if
// there may be a password in it.
func HasSecret(urls string) bool {
	_, found := redact(urls)
	return found
}

func redact(urls string) (text string, found bool) {
	parts := strings.Split(urls, ",")
	for i, part := range parts {
		u, err := url.Parse(strings.TrimSpace(part))
		if err != nil || u.Scheme == "" { // a password with a comma in it makes such parts
			return "an address that cannot be understood", strings.Contains(urls, "@") || strings.Contains(urls, "password")
		}
		if _, password := u.User.Password(); password {
			u.User, found = url.UserPassword(u.User.Username(), mask), true
		} else if u.User != nil && !isRedis(u) { // a user alone is a token to NATS
			u.User, found = url.User(mask), true
		}
		query := u.Query()
		for _, name := range secretParameters {
			if query.Has(name) {
				query.Set(name, mask)
				u.RawQuery, found = query.Encode(), true
			}
		}
		parts[i] = u.String()
	}
	return strings.Join(parts, ","), found
}

func isRedis(u *url.URL) bool { return strings.HasPrefix(u.Scheme, "redis") || u.Scheme == "unix" }
