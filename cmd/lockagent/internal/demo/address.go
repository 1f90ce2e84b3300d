package demo

import (
	"cmp"
	"net"
	"net/url"
	"strings"
)

// Redacted is a list of URLs, with commas between them, without their passwords.
func Redacted(urls string) string {
	parts := strings.Split(urls, ",")
	for i, part := range parts {
		u, err := url.Parse(strings.TrimSpace(part))
		if err != nil {
			return "an address that cannot be understood"
		}
		if _, secret := u.User.Password(); u.User != nil && !secret {
			u.User = url.User("xxxxx") // a user alone may be a token
		}
		parts[i] = u.Redacted()
	}
	return strings.Join(parts, ",")
}

// natsAddress is the host and port of a NATS server. It is empty if there are several, for any of
// them may be the one that the agent talks to.
func natsAddress(urls string) string {
	u, err := url.Parse(strings.TrimSpace(urls))
	if err != nil || u.Host == "" || strings.Contains(urls, ",") {
		return ""
	}
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "4222"))
}
