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
	counts := Parse(reply)
	for name, want := range map[string]int64{"evalsha": 12, "set": 7, "client": 5, "info": 100} {
		if counts[name] != want {
			t.Errorf("%s was counted %d times, want %d", name, counts[name], want)
		}
	}
	if len(counts) != 4 {
		t.Errorf("got %v", counts)
	}
}

func TestSent(t *testing.T) {
	counts := Parse(reply)
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

func TestSince(t *testing.T) {
	before := Counts{"set": 5, "evalsha": 12}
	since := Parse(reply).Since(before)
	if since["set"] != 2 || since["evalsha"] != 0 || since["client"] != 5 {
		t.Errorf("got %v", since)
	}
	if before["set"] != 5 {
		t.Error("Since changes what it is given")
	}
}
