package redisstore

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/lockagent/lockagent"
)

func TestParseURL(t *testing.T) {
	for text, want := range map[string]address{
		"redis://localhost":              {network: "tcp", hosts: []string{"localhost:6379"}},
		"redis://localhost/":             {network: "tcp", hosts: []string{"localhost:6379"}},
		"redis://:pw@h:1/2":              {network: "tcp", hosts: []string{"h:1"}, password: "pw", database: 2},
		"redis://u:p%40%2F%3A@h":         {network: "tcp", hosts: []string{"h:6379"}, user: "u", password: "p@/:"},
		"redis://h?db=3":                 {network: "tcp", hosts: []string{"h:6379"}, database: 3},
		"redis://[::1]":                  {network: "tcp", hosts: []string{"[::1]:6379"}},
		"redis://[::1]:7?addr=[fe80::2]": {network: "tcp", hosts: []string{"[::1]:7", "[fe80::2]:6379"}},
		"rediss://h":                     {network: "tcp", tls: true, hosts: []string{"h:6379"}},
		"rediss://h?skip_verify=1":       {network: "tcp", tls: true, skipCheck: true, hosts: []string{"h:6379"}},
		"redis://a?addr=b&addr=c:7":      {network: "tcp", hosts: []string{"a:6379", "b:6379", "c:7"}},
		"redis://a?master_set=m":         {network: "tcp", hosts: []string{"a:26379"}, masterSet: "m"},
		"redis://a:1/4?addr=b&master_set=m": {
			network: "tcp", hosts: []string{"a:1", "b:26379"}, masterSet: "m", database: 4,
		},
		"unix:///run/redis.sock": {network: "unix", hosts: []string{"/run/redis.sock"}},
		"unix://u:p@/run/redis.sock?db=1": {
			network: "unix", hosts: []string{"/run/redis.sock"}, user: "u", password: "p", database: 1,
		},
		" redis://h\n": {network: "tcp", hosts: []string{"h:6379"}},
		"redis://a?master_set=m&sentinel_user=u": {
			network: "tcp", hosts: []string{"a:26379"}, masterSet: "m", sentinelUser: "u",
		},
		"redis://a?master_set=m&sentinel_password=p": {
			network: "tcp", hosts: []string{"a:26379"}, masterSet: "m", sentinelPassword: "p",
		},
	} {
		if got, err := parseURL(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("parseURL(%q) = %+v, %v; want %+v", text, got, err, want)
		}
	}
}

func TestParseBadURL(t *testing.T) {
	for text, says := range map[string]string{
		"":                                      "no scheme",
		"localhost":                             "no scheme",
		"localhost:6379":                        "redis://localhost:6379",
		"127.0.0.1:6379":                        "redis://",
		"http://h":                              "redis://localhost:6379",
		"redis:h":                               "no //",
		"redis://":                              "host is missing",
		"redis://:6379":                         "host is missing",
		"redis://h:0":                           "no host and port",
		"redis://h:65536":                       "no host and port",
		"redis://h:x":                           "no URL",
		"redis://h/x":                           "not a number",
		"redis://h/1/2":                         "not a number",
		"redis://h/-1":                          "not a number",
		"redis://h?db=":                         "not a number",
		"redis://h/1?db=2":                      "database is there twice",
		"redis://h?db=1&db=2":                   "db is there twice",
		"redis://h?databse=1":                   "not known; there are addr, db",
		"redis://h?addr=":                       "host is missing",
		"redis://h?addr=a/b":                    "no host and port",
		"redis://h?master_set=":                 "what they call the master",
		"redis://h?sentinel_user=u":             "what they call the master",
		"redis://h?skip_verify=true":            "rediss://",
		"rediss://h?skip_verify=maybe":          "neither true nor false",
		"redis://user@h":                        "user without a password",
		"redis://h#x":                           "%23",
		"redis://h?a=%zz":                       "no list of parameters",
		"unix://h/run/redis.sock":               "three of them",
		"unix://":                               "path of the socket is missing",
		"unix:///":                              "path of the socket is missing",
		"unix:///run/redis.sock?addr=h":         "one server",
		"unix:///run/redis.sock?master_set=m":   "one server",
		"redis://u:s3cret@h:x":                  "no URL",
		"redis://u:s3cret%zz@h":                 "no URL",
		"redis://u:s3/cret@h":                   "redis://",
		"redis://u:1/s3cret@h":                  "not a number",
		"redis://u:1?s3cret@h":                  "not known",
		"redis://u:1?addr=s3cret@h":             "no host and port",
		"redis://u:1?db=s3cret@h":               "not a number",
		"redis://u:1#s3cret@h":                  "%23",
		"u:s3cret@h":                            "redis://",
		"s3cret@h:6379":                         "redis://",
		"redis//u:s3cret@h":                     "redis://",
		"redis://h?skip_verify=s3cret":          "rediss://",
		"redis://h?sentinel_password=s3cret":    "what they call the master",
		"redis://h?sentinel_password=s3cret%zz": "no list of parameters",
		"s3cret://h":                            "scheme is not redis",
		"redis://h/s3cret":                      "not a number",
		"redis://h?db=s3cret":                   "not a number",
		"redis://h?addr=s3/cret":                "no host and port",
		"redis://:12?s3cret=w@h":                "not known",
		"redis://u:1?db=1&addr=s3cret:x":        "no host and port",

		"redis://h?master_set=m&sentinel_password=pa&s3cret": "not known",
	} {
		got, err := parseURL(text)
		if !errors.Is(err, lockagent.ErrBadURL) || !strings.Contains(err.Error(), says) {
			t.Errorf("parseURL(%q) = %+v, %v; want ErrBadURL that says %q", text, got, err, says)
		}
		if err != nil && (strings.Contains(err.Error(), "s3") || strings.Contains(err.Error(), "cret")) {
			t.Errorf("parseURL(%q): %v; that repeats a part of the password", text, err)
		}
	}
}

// No URL makes it panic, and none that it understands lacks a host.
func FuzzParseURL(f *testing.F) {
	for _, seed := range []string{
		"redis://u:p@h:1/2?addr=b&master_set=m", "unix:///s?db=1", "rediss://h?skip_verify=1",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := parseURL(text)
		switch {
		case err != nil && !errors.Is(err, lockagent.ErrBadURL):
			t.Errorf("parseURL(%q): %v", text, err)
		case err == nil && (len(a.hosts) == 0 || a.hosts[0] == "" || a.database < 0):
			t.Errorf("parseURL(%q) = %+v", text, a)
		}
	})
}
