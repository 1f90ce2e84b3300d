//go:build linux

package daemon

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lockagent/lockagent/internal/machinetest"
	"github.com/lockagent/lockagent/internal/waittest"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
	"github.com/lockagent/lockagent/proto/lockagent/v1/lockagentv1connect"
)

const (
	crowdLocks = 10 // that a crowd waits for
	crowdLinks = 10 // of a crowd that has links
)

// crowd is this program as many clients that wait, each with a connection of its own. It reads none of the answers,
// until it is killed.
func crowd(path string, many int) error {
	conns := make([]net.Conn, many)
	for i := range conns {
		var err error
		for conns[i], err = net.Dial("unix", path); errors.Is(err, syscall.EAGAIN); conns[i], err = net.Dial("unix", path) {
			runtime.Gosched() // the daemon has not accepted the others yet
		}
		if err != nil {
			return err
		}
		m := frame(0, marshal(&lockagentv1.AcquireRequest{Name: fmt.Sprint("crowd/", i%crowdLocks)}))
		if _, err := fmt.Fprintf(
			conns[i], "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/connect+proto\r\nContent-Length: %d\r\n\r\n%s",
			lockagentv1connect.LockServiceAcquireProcedure, len(m), m,
		); err != nil {
			return err
		}
	}
	fmt.Println("_All")
	_, err := io.Copy(io.Discard, os.Stdin)
	return errors.Join(err, conns[0].Close())
}

// linkedCrowd is this program as clients that wait over few links.
func linkedCrowd(path string, many int) error {
	for range crowdLinks {
		var protocols http.Protocols
		protocols.SetUnencryptedHTTP2(true)
		c := clientOver(&http.Client{Transport: &http.Transport{DialContext: dialer(path), Protocols: &protocols}})
		news, err := c.Link(background, &lockagentv1.LinkRequest{})
		if err != nil {
			return err
		}
		if !news.Receive() {
			return news.Err()
		}
		submit, err := c.Submit(background)
		if err != nil {
			return err
		}
		for at := range many / crowdLinks {
			command := acquireAs(uint64(at), &lockagentv1.AcquireRequest{Name: fmt.Sprint("crowd/", at%crowdLocks)})
			if err := submit.Send(&lockagentv1.SubmitRequest{
				Link: news.Msg().GetLink(), Commands: []*lockagentv1.Command{command},
			}); err != nil {
				return err
			}
		}
		go func() {
			for news.Receive() {
			}
		}()
	}
	fmt.Println("_All")
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

func TestManyWait(t *testing.T) { manyWait(t, 500) }

// manyWait has many clients wait, and then all die at once. The daemon needs no more memory for them than is said here,
// other clients get their locks and give them back, and nothing of the crowd is left.
func manyWait(t *testing.T, many int) {
	for _, test := range []struct {
		name, role string
		files      uint64 // for each
		most       uint64 // bytes for each
	}{
		{"a connection for each", "crowd", 1, 48_000},
		{"few links", "linked crowd", 0, 6_000},
	} {
		t.Run(test.name, func(t *testing.T) {
			var files unix.Rlimit
			if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
				t.Fatal(err)
			}
			// The runtime of Go raises the limit of a program to what the system allows.
			if need := test.files*uint64(many) + 500; files.Cur < need {
				machinetest.Needs(
					t,
					fmt.Errorf("a process may have %d open files, and the test needs %d; run: ulimit -Hn %d", files.Cur, need, need),
				)
			}
			d := run(t)
			c := d.client(t)
			var held []*stream
			for i := range crowdLocks {
				s := c.acquire(t, &lockagentv1.AcquireRequest{Name: fmt.Sprint("crowd/", i)})
				s.granted()
				held = append(held, s)
			}
			before := memory()
			p := d.process(t, test.role, fmt.Sprint("DAEMON_TEST_MANY=", many))
			p.says("All")
			waittest.Until(t, "all wait", func() bool { return d.Counts().Waiting == many })
			waittest.Until(t, fmt.Sprintf("each needs no more than %d bytes", test.most), func() bool {
				return memory() < before+test.most*uint64(many)
			})
			for range 20 {
				s := c.acquire(t, &lockagentv1.AcquireRequest{Name: "desk"})
				s.granted()
				s.end()
			}
			p.die()
			waittest.Until(t, "nothing of the crowd is left", func() bool { return d.Counts().Waiting == 0 })
			for i, s := range held {
				s.end()
				c.acquire(t, &lockagentv1.AcquireRequest{Name: fmt.Sprint("crowd/", i)}).granted()
			}
		})
	}
}
