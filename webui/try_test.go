//go:build linux

package webui_test

import (
	"fmt"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
	"os"
	"testing"
	"time"
)

func TestTry(t *testing.T) {
	r := run(t, setup{})
	r.hold(t, "orders/42", "deploy.sh web --all")
	r.acquire(t, &lockagentv1.AcquireRequest{Name: "orders/42"})
	for _, p := range []string{"/", "/locks", "/lock?name=orders%2F42", "/events", "/lock.json?name=orders/42", "/nope"} {
		a := r.get(t, p)
		fmt.Println("=====", p, a.status, a.header)
		fmt.Println(a.body)
	}
	if os.Getenv("WAIT") != "" {
		fmt.Println(r.url)
		time.Sleep(time.Hour)
	}
}
