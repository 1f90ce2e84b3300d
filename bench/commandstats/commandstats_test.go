package commandstats

import "testing"

const reply = "# Commandstats\r\n" +
	"cmdstat_evalsha:calls=12,usec=340,usec_per_call=28.33,rejected_calls=0,failed_calls=0\r\n" +
	"cmdstat_set:calls=7,usec=1,usec_per_call=0.14,rejected_calls=0,failed_calls=0\r\n" +
	"cmdstat_client|setinfo:calls=2,usec=1,usec_per_call=0.5,rejected_calls=0,failed_calls=0\r\n" +
	"cmdstat_client|id:calls=3,usec=1,usec_per_call=0.5,rejected_calls=0,failed_calls=0\r\n" +
	"cmdstat_info:calls=100,usec=1,usec_per_call=0.5,rejected_calls=0,failed_calls=0\r\n" +
	"something:calls=9\r\n"

func TestParse(t *testing.T) {
	stats := Parse(reply)
	for name, want := range map[string]int64{"evalsha": 12, "set": 7, "client": 5, "info": 100} {
		if stats.Calls[name] != want {
			t.Errorf("%s was counted %d times, want %d", name, stats.Calls[name], want)
		}
	}
	for name, want := range map[string]int64{"evalsha": 340, "client": 2} {
		if stats.Usec[name] != want {
			t.Errorf("%s took %d us, want %d", name, stats.Usec[name], want)
		}
	}
	if len(stats.Calls) != 4 || len(stats.Usec) != 4 {
		t.Errorf("got %v", stats)
	}
}

func TestSent(t *testing.T) {
	counts := Parse(reply).Calls
	if got := counts.Sent(); got != 17 {
		t.Errorf("%d commands were sent, want 17: those of scripts do not count", got)
	}
	if got := counts.Sent("set"); got != 24 {
		t.Errorf("%d commands were sent by who sends SET, want 24", got)
	}
	if got := counts.All(); got != 24 {
		t.Errorf("%d commands in all, want 24: INFO does not count", got)
	}
}

// The time of a script has that of its commands in it, so only scripts are added up.
func TestScripts(t *testing.T) {
	stats := Parse(reply + "cmdstat_eval:calls=1,usec=60\r\n")
	if got := stats.Usec.Scripts(); got != 400 {
		t.Errorf("scripts took %d us, want 400", got)
	}
	if got := stats.Calls.Scripts(); got != 13 {
		t.Errorf("%d scripts were run, want 13", got)
	}
}

func TestAdd(t *testing.T) {
	all := Stats{make(Counts), make(Counts)}
	all.Add(Parse(reply))
	all.Add(Parse(reply))
	if all.Calls["set"] != 14 || all.Usec["evalsha"] != 680 {
		t.Errorf("two servers counted %v", all)
	}
}

func TestSince(t *testing.T) {
	before := Counts{"set": 5, "evalsha": 12}
	since := Parse(reply).Calls.Since(before)
	if since["set"] != 2 || since["evalsha"] != 0 || since["client"] != 5 {
		t.Errorf("got %v", since)
	}
	if before["set"] != 5 {
		t.Error("Since changes what it is given")
	}
}
