package script

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// A reply says nothing of locks that were granted or released as most are. So one that is not
// understood to its end is not believed at all.
func TestRepliesThatAreNotUnderstood(t *testing.T) {
	readers := map[string]func(string) error{
		"acquire": func(reply string) error {
			return Single.ReadAcquired(reply, Past{}, make([]Outcome[lockagent.AcquireReply], 2))
		},
		"release": func(reply string) error {
			return Single.ReadReleased(reply, Past{}, make([]Outcome[lockagent.ReleaseReply], 2))
		},
		"renew": func(reply string) error {
			return ReadRenewed(reply, Past{}, make([]Outcome[lockagent.RenewReply], 2))
		},
		"break": func(reply string) error {
			_, err := ReadBroken(reply, Past{})
			return err
		},
		"inspect": func(reply string) error {
			_, err := ReadInspected(reply)
			return err
		},
		"incarnation": func(reply string) error {
			_, err := ReadIncarnation(reply)
			return err
		},
	}
	for kind, replies := range map[string]map[string]bool{
		"acquire": {
			"1700":             true,
			"1700 life 0":      true,
			"1700\n2 g 1701 0": true,
			"1700\n2 G 1701 0": true,
			"1700\n1 w\n2 h -1 0 an owner with spaces": true,
			"1700\n1 e ERR any text\n2 q 5 1 ":         true,
			"":                                         false,
			"now":                                      false,
			"-1":                                       false,
			"0":                                        false,
			"1700 ":                                    false,
			"1700 life":                                false,
			"1700 life 0 more":                         false,
			"1700\n":                                   false,
			"1700\n3 w":                                false,
			"1700\n2 w\n1 w":                           false,
			"1700\n1 w\n1 w":                           false,
			"1700\nx w":                                false,
			"1700\n2":                                  false,
			"1700\n2 ":                                 false,
			"1700\n2 n":                                false,
			"1700\n2 w w":                              false,
			"1700\n2 g x 0":                            false,
			"1700\n2 g 0 0":                            false,
			"1700\n2 g 9007199254740992 0":             false,
			"1700\n2 g 1701":                           false,
			"1700\n2 g 1701 0 0":                       false,
			"1700\n2 h 5 0":                            false,
			"1700\n2 h -2 0 x":                         false,
			"1700\n2 h 5 -1 x":                         false,
			"1700\n1 e":                                false,
			"OK":                                       false,
		},
		"release": {
			"1700":                         true,
			"1700\n1 p\n2 n":               true,
			"1700\n1 e ERR text\n2 r -1":   true,
			"1700 life 0":                  false,
			"1700\n2 r":                    false,
			"1700\n2 r -2":                 false,
			"1700\n2 p 1":                  false,
			"1700\n2 w":                    false,
			"1700\n1 n\n2 n\n3 n":          false,
			"1.70000000000000000000e+15":   false,
			"1700\n2 e ERR text\nand more": false,
		},
		"renew": {
			"1700": true, "1700\n2 n": true, "1700\n1 w": true, "1700\n1 e ERR": true, "": false, "1700\n2 x": false,
			"1700\n2 n n": false, "1700\n2 w w": false,
		},
		"break": {
			"1700 1": true, "1700 0": true, "1700": false, "1700 1 1": false, "x 1": false, "1700 -1": false,
		},
		"inspect": {
			"": true, "-1 1 a holder": true, "5 1": false, "5 0 x": false, "x 1 x": false, "5 1 a\nb": false,
		},
		"incarnation": {
			"1700 life 0 -1 0": true, "1700 life": false, "life 1700 0 -1 0": false, "1700 life -2 -1 0": false,
			"1700 life 1 2": false, "1700 life 1 2 -3\nw anna\nr 30000 anna": true, "1700 life 1 2 -3\nr anna": false,
			"1700 life 1 2 -3\nx anna": false,
		},
	} {
		for reply, good := range replies {
			if err := readers[kind](reply); (err == nil) != good || !good && lockagent.Definite(err) {
				t.Errorf("%s: %q: error %v", kind, reply, err)
			}
		}
	}
}

func TestAReplyIsRead(t *testing.T) {
	got := make([]Outcome[lockagent.AcquireReply], 6)
	past := Past{Incarnation: "life"}
	reply := "1700\n2 G 1701 3\n3 q 1500 2 an owner\n4 h -1 0 \n5 e WRONGTYPE text\n6 p 1702 0 12"
	if err := Single.ReadAcquired(reply, past, got); err != nil {
		t.Fatal(err)
	}
	common := lockagent.AcquireReply{At: 1700, Incarnation: "life", Clock: "life/0"}
	want := make([]Outcome[lockagent.AcquireReply], 6)
	for i := range 4 {
		want[i].Reply = common
	}
	want[0].Reply.Granted, want[0].Reply.Token = true, 1700
	want[1].Reply.Granted, want[1].Reply.Token, want[1].Reply.Outsiders = true, 1701, 3
	want[1].Reply.Contested = true
	want[2].Reply.Queued, want[2].Reply.Remaining = true, 1500*time.Millisecond
	want[2].Reply.Outsiders, want[2].Reply.Holder = 2, "an owner"
	want[3].Reply.Remaining = -1
	want[4].Err = Refused("WRONGTYPE text")
	want[5].Reply = common
	want[5].Reply.Granted, want[5].Reply.Token, want[5].Reply.Total = true, 1702, 12
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	for room, want := range map[Room]lockagent.AcquireReply{
		Single:  {At: 1700, Token: 1700, Granted: true, Incarnation: "other", Clock: "other/77"},
		Sharded: {At: 1700, Token: 1700, Granted: true, Clock: "other/77"},
	} {
		if err := room.ReadAcquired("1700 other 77", Past{Incarnation: past.Incarnation}, got[:1]); err != nil ||
			got[0].Reply != want {
			t.Errorf("%v: got %+v, %v; want %+v", room, got[0].Reply, err, want)
		}
	}
	// Times do not go back for an agent.
	released := make([]Outcome[lockagent.ReleaseReply], 1)
	if err := Single.ReadReleased("1700", Past{Seen: 1800}, released); err != nil || released[0].Reply.At != 1800 {
		t.Errorf("released %+v, %v", released, err)
	}
}

func FuzzReplies(f *testing.F) {
	f.Add("1700 life 0\n1 q 5 0 x\n3 e y", uint8(3))
	f.Add("1700\n2 r -1", uint8(2))
	f.Fuzz(func(t *testing.T, reply string, n uint8) {
		acquired := make([]Outcome[lockagent.AcquireReply], n)
		if Single.ReadAcquired(reply, Past{}, acquired) == nil {
			for _, o := range acquired {
				if o.Err == nil &&
					(o.Reply.At <= 0 || o.Reply.Granted && (o.Reply.Token == 0 || o.Reply.Token > lockagent.MaxToken)) {
					t.Errorf("%q was read as %+v", reply, o)
				}
			}
			if lines := strings.Count(reply, "\n"); lines > int(n) {
				t.Errorf("%d lines about %d locks", lines, n)
			}
		}
		_ = Single.ReadReleased(reply, Past{}, make([]Outcome[lockagent.ReleaseReply], n))
		_ = ReadRenewed(reply, Past{}, make([]Outcome[lockagent.RenewReply], n))
		_, _ = ReadInspected(reply)
	})
}

func TestMessages(t *testing.T) {
	tenure := tenure(agentA, 7)
	for payload, want := range map[string]lockagent.Message{
		"passed " + tenure.String() + " 1701 1700 life/0 2 life 00-4b-f0-01 a lock": {
			Kind: lockagent.MessagePassed, Name: "a lock", Tenure: tenure, Token: 1701, At: 1700, Clock: "life/0",
			Incarnation: "life", Outsiders: 2,
			Trace: "00-4b-f0-01",
		},
		"passed+ " + tenure.String() + " 1701 1700 node/5 0 - - x": {
			Kind: lockagent.MessagePassed, Name: "x", Tenure: tenure, Token: 1701, At: 1700, Clock: "node/5",
			Contested: true,
		},
		"passed " + tenure.String() + " 1701 1700 node/5 0 - - x": {
			Kind: lockagent.MessagePassed, Name: "x", Tenure: tenure, Token: 1701, At: 1700, Clock: "node/5",
		},
		"permits passed " + tenure.String() + " 1701 1700 life/0 0 life - 12 a lock": {
			Kind: lockagent.MessagePassed, LockKind: lockagent.Permits, Name: "a lock", Tenure: tenure, Token: 1701,
			At: 1700, Clock: "life/0",
			Incarnation: "life", Total: 12,
		},
		"standby " + tenure.String() + " 2000 x": {
			Kind: lockagent.MessageStandby, Name: "x", Tenure: tenure, AskAfter: 2 * time.Second,
		},
		"wanted " + tenure.String() + " a lock": {
			Kind: lockagent.MessageWanted, Name: "a lock", Tenure: tenure,
		},
		"broken " + tenure.String() + " 1700 - a lock": {
			Kind: lockagent.MessageBroken, Name: "a lock", Tenure: tenure, At: 1700,
		},
		"broken " + tenure.String() + " 1700 ol+ga%20%2D x": {
			Kind: lockagent.MessageBroken, Name: "x", Tenure: tenure, At: 1700, Operator: "ol ga -",
		},
		"broken " + tenure.String() + " 1700 %zz x": {
			Kind: lockagent.MessageBroken, Name: "x", Tenure: tenure, At: 1700, Operator: "%zz",
		},
	} {
		if got, err := ReadMessage(payload); err != nil || got != want {
			t.Errorf("%q: got %+v, %v; want %+v", payload, got, err, want)
		}
	}
	for _, payload := range []string{
		"", "0", "wanted", "wanted x", "wanted " + tenure.String(), "wanted " + tenure.String() + " ",
		"wanted nobody x", "wanted+ " + tenure.String() + " x",
		"other " + tenure.String() + " x", "passed " + tenure.String() + " 1701 1700 life/0 2 life -",
		"passed " + tenure.String() + " x 1700 life/0 2 life - lock",
		"passed " + tenure.String() + " 1701 1700 life/0 -1 life - lock",
		"semaphore passed " + tenure.String() + " 1701 1700 life/0 0 life - lock",
		"passed " + tenure.String() + " 9007199254740992 1700 life/0 0 life - lock",
		"broken " + tenure.String() + " 1700 lock", "standby " + tenure.String() + " soon x",
	} {
		if got, err := ReadMessage(payload); err == nil || got != (lockagent.Message{}) {
			t.Errorf("%q was read as %+v, %v", payload, got, err)
		}
	}
}

// What a call was written with stays valid when another one is written.
func TestCallsAreUsedAgain(t *testing.T) {
	var c Call
	Single.Acquire(&c, []lockagent.AcquireRequest{wish("one", agentA, 1)}, Past{})
	notes, owner := c.Keys[1], c.Args[2]
	Single.Release(&c, []ReleaseRequest{end(wish("another", agentB, 12))}, Past{})
	if notes != "lockagent_notes:{one}" || owner != tenure(agentA, 1).String() {
		t.Errorf("%q and %q now", notes, owner)
	}
	want := Call{
		Script: releaseScript, Keys: []string{"another", "lockagent_queue:{another}", "lockagent_ahead"},
		Args: []string{"single", "0", tenure(agentB, 12).String(), "redisson_lock__channel:{another}"},
	}
	if c.Script != want.Script || !reflect.DeepEqual(c.Keys, want.Keys) || !reflect.DeepEqual(c.Args, want.Args) {
		t.Errorf("got %+v, want %+v", c, want)
	}
}
