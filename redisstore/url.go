package redisstore

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/lockagent/lockagent"
)

const (
	defaultPort         = "6379"
	defaultSentinelPort = "26379"
)

// address is what a URL says.
type address struct {
	network   string // "tcp" or "unix"
	tls       bool
	skipCheck bool // of the server's certificate
	hosts     []string
	user      string
	password  string
	database  int
	// masterSet is the name that the Sentinels have for the master. It is empty if the hosts
	// are servers.
	masterSet        string
	sentinelUser     string
	sentinelPassword string
}

// The parameters that a URL may have behind the question mark.
var parameters = []string{"addr", "db", "master_set", "sentinel_user", "sentinel_password", "skip_verify"}

// parseURL reads the URLs that the package's documentation lists. Its errors repeat no part of the URL: a password
// that is not escaped may end up in any of them.
func parseURL(text string) (address, error) {
	u, err := url.Parse(strings.TrimSpace(text))
	if err != nil {
		return address{}, badURL("it is no URL; a right one is redis://user:password@localhost:6379, " +
			"with the special characters of a password escaped: @ is %%40, / is %%2F, %% is %%25")
	}
	a := address{network: "tcp"}
	switch u.Scheme {
	case "redis":
	case "rediss":
		a.tls = true
	case "unix":
		a.network = "unix"
	case "":
		return address{}, badURL("it has no scheme; write redis://localhost:6379")
	default:
		return address{}, badURL("its scheme is not redis, rediss (TLS) or unix; write redis://localhost:6379")
	}
	if u.Opaque != "" {
		return address{}, badURL("there is no // behind the scheme; " +
			"write redis://localhost:6379 or unix:///run/redis.sock")
	}
	if u.Fragment != "" {
		return address{}, badURL("it ends in a #fragment, which means nothing here; write a # in a password as %%23")
	}
	if u.User != nil {
		a.user = u.User.Username()
		a.password, _ = u.User.Password()
		if a.user != "" && a.password == "" {
			return address{}, badURL("it has a user without a password; write redis://user:password@host:6379, " +
				"or redis://:password@host:6379 for the default user")
		}
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return address{}, badURL("what follows the question mark is no list of parameters; " +
			"write redis://host:6379?addr=host2:6379")
	}
	return a.complete(u, query)
}

// complete adds the settings in the hosts, the path and the query.
func (a address) complete(u *url.URL, query url.Values) (address, error) {
	for name, values := range query {
		if !slices.Contains(parameters, name) {
			return address{}, badURL("a parameter is not known; there are %s; "+
				"write a ? in a password as %%3F, and an & as %%26", strings.Join(parameters, ", "))
		}
		if name != "addr" && len(values) > 1 {
			return address{}, badURL("the parameter %s is there twice; give it once", name)
		}
	}
	a.masterSet = query.Get("master_set")
	a.sentinelUser, a.sentinelPassword = query.Get("sentinel_user"), query.Get("sentinel_password")
	if a.masterSet == "" && (query.Has("master_set") || query.Has("sentinel_user") || query.Has("sentinel_password")) {
		return address{}, badURL("it says something of Sentinels but not what they call the master; " +
			"write redis://sentinel:26379?master_set=mymaster")
	}
	if err := a.parseHosts(u, query["addr"]); err != nil {
		return address{}, err
	}
	if err := a.parseDatabase(u, query); err != nil {
		return address{}, err
	}
	if query.Has("skip_verify") {
		if !a.tls {
			return address{}, badURL("skip_verify is for TLS; write rediss://host:6379?skip_verify=true")
		}
		var err error
		if a.skipCheck, err = strconv.ParseBool(query.Get("skip_verify")); err != nil {
			return address{}, badURL("skip_verify is neither true nor false; write rediss://host:6379?skip_verify=true")
		}
	}
	return a, nil
}

func (a *address) parseHosts(u *url.URL, more []string) error {
	if a.network == "unix" {
		switch {
		case u.Host != "":
			return badURL("the path of a socket starts with a slash; write unix:///run/redis.sock, with three of them")
		case u.Path == "" || u.Path == "/":
			return badURL("the path of the socket is missing; write unix:///run/redis.sock")
		case len(more) > 0 || a.masterSet != "":
			return badURL("a socket leads to one server; write redis://host:6379 for Clusters and Sentinels")
		}
		a.hosts = []string{u.Path}
		return nil
	}
	port := defaultPort
	if a.masterSet != "" {
		port = defaultSentinelPort
	}
	for _, text := range append([]string{u.Host}, more...) {
		host, err := hostPort(text, port)
		if err != nil {
			return err
		}
		a.hosts = append(a.hosts, host)
	}
	return nil
}

// hostPort completes "host", "host:port" or "[ipv6]:port".
func hostPort(text, defaultPort string) (string, error) {
	u := url.URL{Host: text}
	host, port := u.Hostname(), u.Port()
	if host == "" {
		return "", badURL("a host is missing; write redis://localhost:6379")
	}
	if port == "" {
		port = defaultPort
	}
	wild := strings.ContainsAny(host, "@/ ") || strings.Contains(host, ":") && !strings.HasPrefix(text, "[")
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 || wild {
		return "", badURL("what stands for a server is no host and port; write redis://localhost:6379")
	}
	return net.JoinHostPort(host, port), nil
}

func (a *address) parseDatabase(u *url.URL, query url.Values) error {
	text := query.Get("db")
	if path := strings.Trim(u.Path, "/"); a.network == "tcp" && path != "" {
		if query.Has("db") {
			return badURL("the database is there twice; write redis://localhost:6379/1")
		}
		text = path
	}
	if text == "" && !query.Has("db") {
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return badURL("the database is not a number; write redis://localhost:6379/1")
	}
	a.database = n
	return nil
}

func badURL(format string, args ...any) error {
	return fmt.Errorf("%w: %s", lockagent.ErrBadURL, fmt.Sprintf(format, args...))
}
