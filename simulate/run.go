package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/simulate/plan"
)

// outcome is what a run has told.
type outcome struct {
	plan     plan.Plan
	records  []events.Record // of the event log, in their order
	holds    []plan.Hold     // in the order of their ends
	waits    []plan.Wait     // in vain
	breaches []plan.Breach
	commands []plan.Command
	crash    error // why the run did not come to its end, or nil
}

// run has the machine follow a plan. It writes the trace, if there is to be one, and returns what the run told.
func (m *machine) run(ctx context.Context, p plan.Plan, trace io.Writer) (*outcome, error) {
	read, write := io.Pipe()
	o := &outcome{plan: p}
	go func() {
		o.crash = m.start(ctx, p, trace != nil, write)
		_ = write.Close()
	}()
	lines := bufio.NewScanner(read)
	lines.Buffer(nil, 1<<20)
	var err error
	for lines.Scan() && err == nil {
		err = o.note(lines.Bytes(), trace)
	}
	if err == nil {
		err = lines.Err()
	}
	_ = read.CloseWithError(err)
	return o, err
}

// note takes a line of the guest.
func (o *outcome) note(line []byte, trace io.Writer) error {
	kind, text := line[0], line[2:]
	switch kind {
	case 'R':
		r, err := events.Decode(text)
		if err != nil {
			return fmt.Errorf("a record of the event log: %w", err)
		}
		o.records = append(o.records, r)
	case 'H':
		var h plan.Hold
		if err := json.Unmarshal(text, &h); err != nil {
			return err
		}
		o.holds = append(o.holds, h)
	case 'W':
		var w plan.Wait
		if err := json.Unmarshal(text, &w); err != nil {
			return err
		}
		o.waits = append(o.waits, w)
	case 'C':
		var c plan.Command
		if err := json.Unmarshal(text, &c); err != nil {
			return err
		}
		o.commands = append(o.commands, c)
	case 'B':
		var b plan.Breach
		if err := json.Unmarshal(text, &b); err != nil {
			return err
		}
		o.breaches = append(o.breaches, b)
	case 'T':
		_, err := fmt.Fprintf(trace, "%s\n", text)
		return err
	default:
		return fmt.Errorf("the guest wrote %q", line)
	}
	return nil
}
