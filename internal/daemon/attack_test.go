//go:build linux

package daemon

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lockagent/lockagent/internal/daemon/access"
	"github.com/lockagent/lockagent/internal/daemon/claims"
	"github.com/lockagent/lockagent/internal/daemon/quota"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
	"github.com/lockagent/lockagent/proto/lockagent/v1/lockagentv1connect"
)

// These are attacks of a user of the host, each with what holds. Other attacks have tests beside what they attack:
//
//   - in this package: crowds, fuzzers, requests that do not end, clients that do not read or send halves, and somebody
//     who has the daemon read the whole past, in follow_test.go;
//   - in access: patterns of many stars;
//   - in claims: processes of other users in process_test.go, and who has asked for a list and goes away in
//     look_test.go;
//   - in journal: a damaged journal;
//   - in webui: pages of other origins;
//   - in events/natslog: a flood of events, in urgent_test.go;
//   - in cmd/lockagent: settings of the daemon that no client can use, in client_settings_linux_test.go; a crash on a
//     disk that is full, in disk_linux_test.go; a wrapper that is killed before a restart, in between_linux_test.go,
//     and in worker_test.go of claims; passwords among the arguments of a command, in who_linux_test.go; what the port
//     of the metrics tells everybody, in serve_process_test.go; what the unit keeps from a core and lets a user take,
//     in systemd_test.go; and a journal that no daemon can start with, in badjournal_test.go, with the alert in
//     packaging_test.go;
//   - in packages of cmd/lockagent: a place for the socket that others can occupy, in listen_linux_test.go of servecmd;
//     and a process with the number of one that has ended, in run_linux_test.go of lockcmd.

// Whoever goes on to speak on the connection of a claim has the daemon read no more, and the claim ends with its
// client.
func TestAttackBySpeakingOn(t *testing.T) {
	const most = 8 << 10 // the buffers of the server
	for what, name := range map[string]string{"a holder": "mine/door", "a waiter": victimLock} {
		for _, header := range []string{"", "Connection: close\r\n"} {
			t.Run(what+" "+header, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := unlimited(t)
					m := frame(0, marshal(&lockagentv1.AcquireRequest{Name: name}))
					conn := b.mute(fmt.Appendf(nil,
						"POST %s HTTP/1.1\r\nHost: x\r\n%sContent-Type: application/connect+proto\r\nContent-Length: %d\r\n\r\n%s",
						lockagentv1connect.LockServiceAcquireProcedure, header, len(m), m))
					go func() { _, _ = io.Copy(io.Discard, conn) }()
					synctest.Wait()
					wrote := make(chan int, 1)
					go func() {
						n, _ := conn.Write(make([]byte, 1<<20))
						wrote <- n
					}()
					time.Sleep(time.Hour)
					if n := b.d.Counts(); n.Held+n.Waiting != 3 {
						t.Errorf("the claims are %+v", n)
					}
					b.must(conn.Close())
					if n := <-wrote; n > most {
						t.Errorf("the daemon has read %d bytes", n)
					}
					time.Sleep(fuzzerLease) // a renewal is told in this time
					if what == "a holder" {
						b.gone()
					}
					b.others()
					b.shut()
					b.gone()
				})
			})
		}
	}
}

// The secret of somebody else's claim is of no use: not to attach, to renew or to release it, and not on a link. Each
// try is a refusal that is counted.
func TestAttackByAStolenSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := besiege(t)
		a := b.client(fuzzerUID)
		secret := strings.Repeat("s", claims.MinSecret)
		a.open()
		synctest.Wait()
		a.submits(&lockagentv1.SubmitRequest{Link: a.linkID(), Commands: []*lockagentv1.Command{
			{Ref: 1, Command: &lockagentv1.Command_Attach{Attach: &lockagentv1.AttachRequest{Claim: b.id, Secret: secret}}},
		}})
		for path, m := range map[string]proto.Message{
			lockagentv1connect.LockServiceAttachProcedure: &lockagentv1.AttachRequest{Claim: b.id, Secret: secret},
			lockagentv1connect.LockServiceRenewProcedure: &lockagentv1.RenewRequest{
				Claim: b.id, Secret: secret, Ttl: durationpb.New(time.Hour),
			},
			lockagentv1connect.LockServiceReleaseProcedure: &lockagentv1.ReleaseRequest{Claim: b.id, Secret: secret},
		} {
			of := procedureOf(path)
			c := a.post(protocols[0], of, bytes.NewReader(protocols[0].body(of, m)))
			synctest.Wait()
			if said := c.beginning(); !bytes.Contains(said, []byte("no such claim")) {
				t.Errorf("%s says %q", path, said)
			}
		}
		if said := a.link.beginning(); !bytes.Contains(said, []byte("no such claim")) {
			t.Errorf("the link says %q", said)
		}
		if all := b.rules.Refusals(); len(all) != 1 || all[0].Reason != "secret" || all[0].Count != 4 {
			t.Errorf("the refusals are %v", all)
		}
		b.unharmed()
		a.end()
		b.end()
	})
}

// Users who have all connections and all live pages leave some to those who look after the daemon, and one user alone
// leaves some to others.
func TestAttackByTakingEverything(t *testing.T) {
	const greedy, greedier, other, self = 1000, 1001, 1002, 900
	a, err := access.New(access.Config{
		Self: self, Now: time.Now, Refused: func(uint32, error, uint64) {}, Room: access.Room{Connections: 1000},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []quota.Kind{quota.Connections, quota.PageConnections, quota.MetricsConnections, quota.Pages} {
		takes := func(uid uint32) (n int) {
			for ; ; n++ {
				if _, err := a.Hold(uid, kind); err != nil {
					return n
				}
			}
		}
		if takes(greedy) == 0 {
			t.Errorf("a user gets none of kind %d", kind)
		}
		if takes(greedier) == 0 {
			t.Errorf("a user has all of kind %d", kind)
		}
		if n := takes(other); n != 0 {
			t.Errorf("there are %d left of kind %d", n, kind)
		}
		if n := takes(0); n != access.Reserve {
			t.Errorf("root gets %d of kind %d, want %d", n, kind, access.Reserve)
		}
	}
}

// A latch with the name by which the daemon sees that it is alive does not have it started anew.
func TestAttackByTheLatchOfTheWatchdog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := unlimited(t)
		a, of := b.client(fuzzerUID), procedureOf(lockagentv1connect.CountServiceLatchProcedure)
		c := a.post(protocols[0], of, bytes.NewReader(protocols[0].body(of, &lockagentv1.LatchRequest{
			Name: string(aliveLatch), Op: lockagentv1.LatchOp_LATCH_OP_SET, Count: 1,
		})))
		synctest.Wait()
		if said := c.beginning(); !bytes.Contains(said, []byte("changed")) {
			t.Fatalf("the latch is not set: %q", said)
		}
		for range 3 {
			if !alive(b.d) {
				t.Error("the daemon is not alive")
			}
		}
		a.end()
		b.others()
		b.shut()
	})
}
