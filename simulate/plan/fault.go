package plan

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Kind is what goes wrong.
type Kind string

// The kinds of faults.
const (
	Cut      Kind = "cut"      // the connections of an agent break, and it may connect again at once
	Apart    Kind = "apart"    // an agent reaches no server
	Stall    Kind = "stall"    // what an agent and the server send each other comes later
	Mute     Kind = "mute"     // what an agent sends comes later
	Deaf     Kind = "deaf"     // what the server sends to an agent comes later
	Slow     Kind = "slow"     // messages of an agent take up to half a second
	Freeze   Kind = "freeze"   // the server stands still
	Flush    Kind = "flush"    // the server forgets everything
	Restart  Kind = "restart"  // the server dies, and comes back empty
	Failover Kind = "failover" // the server dies, and a copy that is older by Lag serves in its place
	Split    Kind = "split"    // as failover, but the old server goes on, and one agent does not hear of the new one
	Step     Kind = "step"     // the clock of the server is set by Lag
	Kill     Kind = "kill"     // an agent dies, and another one starts in its place
	Resume   Kind = "resume"   // an agent dies, and another process goes on from its journal
	Suspend  Kind = "suspend"  // an agent stands still: its workers and its connections
)

// form is what a fault of a kind has besides its time.
type form struct {
	kind                 Kind
	agent, lasts, lagged bool
}

var forms = []form{
	{kind: Cut, agent: true},
	{kind: Apart, agent: true, lasts: true},
	{kind: Stall, agent: true, lasts: true},
	{kind: Mute, agent: true, lasts: true},
	{kind: Deaf, agent: true, lasts: true},
	{kind: Slow, agent: true, lasts: true},
	{kind: Freeze, lasts: true},
	{kind: Flush},
	{kind: Restart, lasts: true},
	{kind: Failover, lasts: true, lagged: true},
	{kind: Split, agent: true, lasts: true, lagged: true},
	{kind: Step, lagged: true},
	{kind: Kill, agent: true, lasts: true},
	{kind: Resume, agent: true, lasts: true},
	{kind: Suspend, agent: true, lasts: true},
}

// formOf returns the form of a kind. There is none of a kind that nobody knows.
func formOf(k Kind) (of form, known bool) {
	i := slices.IndexFunc(forms, func(of form) bool { return of.kind == k })
	if i < 0 {
		return of, false
	}
	return forms[i], true
}

// Fault is one thing that goes wrong.
type Fault struct {
	At    time.Duration // from the beginning of the run
	Kind  Kind
	Agent int           // from 0, if the fault is about one; behind the agents comes the program of the outsiders
	For   time.Duration // until it is over
	Lag   time.Duration
}

// Copies reports whether a copy serves in the place of the server.
func (f Fault) Copies() bool { return f.Kind == Failover || f.Kind == Split }

// OfAgent reports whether the fault is about one agent.
func (f Fault) OfAgent() bool {
	of, _ := formOf(f.Kind)
	return of.agent
}

// End is when the fault is over.
func (f Fault) End() time.Duration { return f.At + f.For }

// newFaults makes the faults of a plan.
func newFaults(random *rand.Rand, p *Plan) []Fault {
	var faults []Fault
	for range random.IntN(7) {
		faults = append(faults, newFault(random, p, forms[random.IntN(len(forms))]))
	}
	slices.SortStableFunc(faults, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
	return faults
}

func newFault(random *rand.Rand, p *Plan, of form) Fault {
	f := Fault{At: Within(random, time.Second, p.Work), Kind: of.kind}
	if of.agent {
		f.Agent = random.IntN(p.Agents)
	}
	if of.lasts {
		f.For = Within(random, time.Millisecond, 3*time.Second)
		if random.IntN(3) == 0 {
			f.For = Within(random, p.Lease/2, 2*p.Lease)
		}
	}
	if of.lagged {
		f.Lag = Within(random, 0, time.Second)
		if f.Kind == Step {
			f.Lag = Within(random, -2*time.Second, 2*time.Second)
		}
	}
	return f.rounded()
}

// rounded is the fault with times that are as short as a text.
func (f Fault) rounded() Fault {
	f.At, f.For, f.Lag = f.At.Round(time.Millisecond), f.For.Round(time.Millisecond), f.Lag.Round(time.Millisecond)
	return f
}

// Half is the fault with times that are half as long.
func (f Fault) Half() Fault {
	f.For, f.Lag = f.For/2, f.Lag/2
	return f.rounded()
}

// String is the fault as [Parse] reads it.
func (f Fault) String() string {
	text := f.At.String() + " " + string(f.Kind)
	of, _ := formOf(f.Kind)
	if of.agent {
		text += " agent=" + strconv.Itoa(f.Agent)
	}
	if of.lasts {
		text += " for=" + f.For.String()
	}
	if of.lagged {
		text += " lag=" + f.Lag.String()
	}
	return text
}

// Parse reads faults, with commas or line ends between them.
func Parse(text string) (faults []Fault, err error) {
	for line := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' || r == '\n' }) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		f, err := parse(words)
		if err != nil {
			return nil, fmt.Errorf("the fault %q is wrong: %w; a right one is 1.5s stall agent=0 for=2s", line, err)
		}
		faults = append(faults, f)
	}
	return faults, nil
}

func parse(words []string) (f Fault, err error) {
	if len(words) < 2 {
		return f, errors.New("it has no time or no kind")
	}
	if f.At, err = time.ParseDuration(words[0]); err != nil {
		return f, err
	}
	f.Kind = Kind(words[1])
	if _, known := formOf(f.Kind); !known {
		return f, fmt.Errorf("there is no kind %q", words[1])
	}
	for _, word := range words[2:] {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "agent":
			f.Agent, err = strconv.Atoi(value)
		case "for":
			f.For, err = time.ParseDuration(value)
		case "lag":
			f.Lag, err = time.ParseDuration(value)
		default:
			err = fmt.Errorf("%q is none of agent, for and lag", name)
		}
		if err != nil {
			return f, err
		}
	}
	return f, nil
}
