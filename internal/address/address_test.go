package address

import (
	"strings"
	"testing"
)

func TestRedacted(t *testing.T) {
	const unclear = "an address that cannot be understood"
	for urls, want := range map[string]string{
		"nats://127.0.0.1:4222":                                  "nats://127.0.0.1:4222",
		"nats://joe:secret@a:1,nats://b:2":                       "nats://joe:xxxxx@a:1,nats://b:2",
		"nats://a:1, nats://joe:secret@b:2":                      "nats://a:1,nats://joe:xxxxx@b:2",
		"nats://secret@a:1":                                      "nats://xxxxx@a:1",
		"nats://joe:sec ret%zz@127.0.0.1:42":                     unclear,
		"redis://joe@a:1/2":                                      "redis://joe@a:1/2",
		"rediss://:secret@a:1":                                   "rediss://:xxxxx@a:1",
		"redis://:1,secret@a:1":                                  unclear,
		"unix:///run/redis.sock?db=1":                            "unix:///run/redis.sock?db=1",
		"redis://s:26379?master_set=m&sentinel_password=secret":  "redis://s:26379?master_set=m&sentinel_password=xxxxx",
		"redis://a?sentinel_password=secret&sentinel_password=x": "redis://a?sentinel_password=xxxxx",
		"redis://h?sentinel_password=pa&secret=x&master_set=m":   "redis://h?xxxxx",
		"redis://h?secret%zz":                                    "redis://h?xxxxx",
		"redis://joe:1/secret@a:1":                               unclear,
		"redis://joe:1?db=secret@a:1":                            unclear,
		"redis://joe:1#secret@a:1":                               unclear,
		"joe:secret@a:1":                                         unclear,
		"unix:///run/a%40b.sock":                                 "unix:///run/a%40b.sock",
		"localhost:6379":                                         "localhost:6379",
		"":                                                       unclear,
	} {
		got := Redacted(urls)
		if got != want {
			t.Errorf("Redacted(%q) is %q, want %q", urls, got, want)
		}
		if strings.Contains(got, "sec") {
			t.Errorf("%q has the secret", got)
		}
		if got, want := HasSecret(urls), strings.Contains(urls, "sec"); got != want {
			t.Errorf("HasSecret(%q) is %v, want %v", urls, got, want)
		}
	}
}
