package plan

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockagent/lockagent"
)

// Change changes a plan as a text says, such as "lease=90s workers=5 locks=fair,spin". A time that [New] made of
// another one, such as Longest, does not change with that.
func (p *Plan) Change(text string) error {
	for _, word := range strings.Fields(text) {
		name, value, _ := strings.Cut(word, "=")
		if err := p.change(name, value); err != nil {
			return fmt.Errorf("the change %q is wrong: %w; a right one is lease=90s", word, err)
		}
	}
	if p.Outsiders == 0 {
		p.Faults = slices.DeleteFunc(p.Faults, func(f Fault) bool { return f.OfAgent() && f.Agent == p.Agents })
	}
	return nil
}

func (p *Plan) change(name, value string) (err error) {
	times := map[string]*time.Duration{
		"lease": &p.Lease, "work": &p.Work, "pause": &p.Pause, "patience": &p.Patience, "longest": &p.Longest,
	}
	switch to := times[name]; {
	case to != nil:
		if *to, err = time.ParseDuration(value); err == nil && *to <= 0 {
			err = errors.New("it takes more than no time")
		}
	case name == "workers":
		if p.Workers, err = strconv.Atoi(value); err == nil && (p.Workers < 1 || p.Workers > mostWorkers) {
			err = fmt.Errorf("there are from 1 to %d of an agent", mostWorkers)
		}
	case name == "outsiders":
		if p.Outsiders, err = strconv.Atoi(value); err == nil && (p.Outsiders < 0 || p.Outsiders > mostWorkers) {
			err = fmt.Errorf("there are from 0 to %d", mostWorkers)
		}
	case name == "drift":
		if p.Drift, err = strconv.Atoi(value); err == nil && (p.Drift < -mostDrift || p.Drift > mostDrift) {
			err = fmt.Errorf("it is from %d to %d millionths", -mostDrift, mostDrift)
		}
	case name == "locks":
		err = p.have(strings.Split(value, ","))
	default:
		err = fmt.Errorf("%q is none of lease, work, pause, patience, longest, workers, drift, locks and outsiders", name)
	}
	return err
}

// mostWorkers is how many workers [ClientOf] can tell apart. One more is that of the last round.
const mostWorkers = 8

// have gives a plan a lock of each of some kinds, without outsiders. A semaphore has three permits.
func (p *Plan) have(names []string) error {
	p.Locks, p.Outsiders = nil, 0
	for _, name := range names {
		kind := lockagent.LockKind(name)
		if !slices.Contains(kinds, kind) {
			return fmt.Errorf("there is no lock of the kind %q; there are %v", name, kinds)
		}
		l := Lock{Name: name, Kind: kind}
		if l.Counted() {
			l.Permits = 3
		}
		p.Locks = append(p.Locks, l)
	}
	return nil
}
