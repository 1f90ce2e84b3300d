package config

import "strings"

// check finds settings that are right by themselves, and wrong together.
func (l *loading) check() {
	s := &l.Settings
	if s.Lease.Margin > s.Lease.Duration/2 {
		l.blame(
			"lease.margin", "must be at most half of lease.duration, which is %s, not %s", short(s.Lease.Duration),
			short(s.Lease.Margin),
		)
	}
	if s.Operator.Socket == s.Socket.Path {
		l.blame("operator.socket", "must not be the same as socket.path")
	}
	if s.Web.Listen != "" && s.Web.Listen == s.Metrics.Listen && !strings.HasSuffix(s.Web.Listen, ":0") {
		l.blame("metrics.listen", "must not be the same as web.listen")
	}
	for _, c := range []struct{ key, needs string }{
		{"redis.*", "redis.url"},
		{"redis.key", "redis.cert"},
		{"nats.*", "nats.url"},
		{"nats.key", "nats.cert"},
		{"nats.user", "nats.password_file"},
		{"nats.password_file", "nats.user"},
		{"web.allow_break", "web.listen"},
	} {
		l.needs(c.key, c.needs)
	}
	for _, key := range []string{"redis.ca", "redis.cert", "redis.server_name"} {
		if l.given(key) && l.given("redis.url") && !strings.HasPrefix(s.Redis.URL, "rediss://") {
			l.blame(key, "is about TLS, and so redis.url must begin with rediss://")
		}
	}
	identities := []string{"nats.creds", "nats.nkey", "nats.user", "nats.token_file"}
	for i, key := range identities {
		for _, other := range identities[:i] {
			if l.given(key) && l.given(other) {
				l.blame(key, "and %s exclude each other", other)
			}
		}
	}
}

// given reports whether somebody gave a value to a setting.
func (l *loading) given(key string) bool {
	_, ok := l.origins[key]
	return ok
}

// needs is for a setting that means nothing without another one. With a star in its key, it is for all others of a
// section. A default may stand there for people. A variable may be meant for other verbs, which know the same names.
func (l *loading) needs(key, other string) {
	if l.given(other) {
		return
	}
	section, all := strings.CutSuffix(key, "*")
	for _, s := range table {
		if s.Key != key && (!all || !strings.HasPrefix(s.Key, section)) || !l.given(s.Key) {
			continue
		}
		if l.origins[s.Key].Kind != FromVariable && s.kind.text(s.field(&l.Settings)) != s.Default {
			l.blame(s.Key, "means nothing without %s", other)
		}
	}
}

// blame adds a problem with a value, where that came from.
func (l *loading) blame(key, format string, args ...any) {
	l.problems.add(l.origins[key], key, format, args...)
}
