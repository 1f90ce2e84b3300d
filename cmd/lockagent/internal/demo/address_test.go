package demo

import "testing"

func TestRedacted(t *testing.T) {
	for url, want := range map[string]string{
		"nats://127.0.0.1:4222":              "nats://127.0.0.1:4222",
		"nats://joe:secret@a:1,nats://b:2":   "nats://joe:xxxxx@a:1,nats://b:2",
		"nats://secret@a:1":                  "nats://xxxxx@a:1",
		"nats://joe:sec ret%zz@127.0.0.1:42": "an address that cannot be understood",
	} {
		if got := Redacted(url); got != want {
			t.Errorf("Redacted(%q) is %q, want %q", url, got, want)
		}
	}
}
