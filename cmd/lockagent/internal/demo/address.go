package demo

import (
	"cmp"
	"net"
	"net/url"
	"strings"
)

// natsAddress is the host and port of a NATS server. It is empty if there are several, for any of
// them may be the one that the agent talks to.
func natsAddress(urls string) string {
	u, err := url.Parse(strings.TrimSpace(urls))
	if err != nil || u.Host == "" || strings.Contains(urls, ",") {
		return ""
	}
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "4222"))
}
