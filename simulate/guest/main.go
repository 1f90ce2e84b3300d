// Command guest is what the simulator runs: a whole fleet in one process, with its servers. The host gives it the clock
// and the random numbers, so the same plan is always the same run.
//
// Its argument is a plan in JSON. It writes lines, each of which begins with a letter:
//
//	R  a record of the event log, in JSON
//	H  a [plan.Hold] in JSON
//	W  a [plan.Wait] in JSON
//	B  a [plan.Breach] in JSON
//	C  a [plan.Command] in JSON, if the plan says so
//	T  what happens, for people: only with a second argument, trace
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	"github.com/lockagent/lockagent/simulate/plan"
)

func main() {
	var p plan.Plan
	if err := json.Unmarshal([]byte(os.Args[1]), &p); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	out := bufio.NewWriter(os.Stdout)
	w := newWorld(p, out, len(os.Args) > 2)
	w.run()
	if err := out.Flush(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0) // whatever goes on
}
