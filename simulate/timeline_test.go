package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent/simulate/plan"
)

// A timeline is XML, with a row for each client, and a bar for each hold and fault.
func TestTimeline(t *testing.T) {
	o := &outcome{
		plan: plan.Plan{
			Locks: []plan.Lock{{Name: "a<b"}},
			Faults: []plan.Fault{
				{Kind: plan.Cut, At: time.Second},
				{Kind: plan.Flush, At: time.Second},
				{Kind: plan.Cut, Agent: 2},
			},
		},
		holds: []plan.Hold{
			{Lock: "a<b", Client: plan.ClientOf(1, 0, 0), Token: 1, Granted: time.Second, Ending: 2 * time.Second},
			{Lock: "a<b", Client: plan.ClientOf(0, 3, 1), Token: 2, Shared: true, Granted: time.Second, Ending: 2 * time.Second},
		},
		breaches: []plan.Breach{{What: plan.Overlap, Text: "1 < 2", At: time.Second}},
	}
	var picture strings.Builder
	if err := draw(&picture, o); err != nil {
		t.Fatal(err)
	}
	d := xml.NewDecoder(strings.NewReader(picture.String()))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, &picture)
		}
	}
	for _, want := range []string{
		"client 10<", "client 301<", "token 1,", "token 2,", ">1s cut agent=0<", ">1s flush<", "1 &lt; 2",
	} {
		if strings.Count(picture.String(), want) != 1 {
			t.Errorf("%q is not there once:\n%s", want, &picture)
		}
	}
	if strings.Contains(picture.String(), "agent=2") {
		t.Error("there is a fault of an agent without a row")
	}
}
