package forgettest

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Figures are what some runs of a case have cost.
type Figures struct {
	Runs, Outages, Grants int
	// Overlaps are grants to somebody beside others who trusted their holds, and left no room. Overlapped is for how
	// long there were too many, all times together, and Longest the longest of them.
	Overlaps            int
	Overlapped, Longest time.Duration
	// Lost are the holds that were lost, by reason. CutOff are others: those of an agent that did not run, and those
	// whose deadline passed while no server could be reached.
	Lost   map[string]int
	CutOff int
	// Unanswered are requests for a hot lock that have waited since the last time that the store forgot, to the end, and
	// those that did not even end with the run.
	Unanswered int
	// Fallen are grants with a token that is not greater than that of a hold that was over when they were asked for.
	Fallen int
	// Ungranted is the longest time in which nobody was granted a hot lock, after the new server had answered.
	Ungranted time.Duration
	// Refused are the requests that ended with an error, by its text.
	Refused map[string]int
	// Notes say where it was. There is one for each lost hold, each token that fell, each unanswered request, and each
	// lock that was granted to nobody for long.
	Notes []string
}

// note adds a note.
func (f *Figures) note(format string, args ...any) {
	f.Notes = append(f.Notes, fmt.Sprintf(format, args...))
}

// LostHolds is how many holds were lost, for whatever reason.
func (f *Figures) LostHolds() int {
	n := 0
	for _, of := range f.Lost {
		n += of
	}
	return n
}

// Add adds the figures of more runs.
func (f *Figures) Add(more Figures) {
	f.Runs += more.Runs
	f.Outages += more.Outages
	f.Grants += more.Grants
	f.Overlaps += more.Overlaps
	f.Overlapped += more.Overlapped
	f.Longest = max(f.Longest, more.Longest)
	f.Lost = sum(f.Lost, more.Lost)
	f.CutOff += more.CutOff
	f.Unanswered += more.Unanswered
	f.Fallen += more.Fallen
	f.Ungranted = max(f.Ungranted, more.Ungranted)
	f.Refused = sum(f.Refused, more.Refused)
	f.Notes = append(f.Notes, more.Notes...)
}

func sum(all, more map[string]int) map[string]int {
	if all == nil {
		all = make(map[string]int)
	}
	for of, n := range more {
		all[of] += n
	}
	return all
}

// judge finds what one run has cost.
func judge(h *history) Figures {
	f := Figures{Runs: 1, Outages: len(h.outages), Lost: make(map[string]int), Refused: h.refused, Unanswered: h.stuck}
	locks := make(map[string][]Hold)
	for _, hold := range h.holds {
		switch {
		case hold.Granted > 0:
			f.Grants++
			locks[hold.Lock] = append(locks[hold.Lock], hold)
		case hold.Hot && len(h.outages) > 0 && hold.Asked < h.outages[len(h.outages)-1].Answered:
			f.Unanswered++
			f.note("unanswered: %v", hold)
		}
		switch {
		case hold.Lost == "":
		case h.cutOff(&hold):
			f.CutOff++
		default:
			f.Lost[hold.Lost]++
			f.note("lost: %v", hold)
		}
	}
	for lock, holds := range locks {
		slices.SortFunc(holds, func(a, b Hold) int { return cmp.Compare(a.Granted, b.Granted) })
		f.overlaps(holds)
		f.fallen(holds)
		if holds[0].Hot {
			longest := h.ungranted(holds)
			f.Ungranted = max(f.Ungranted, longest)
			if longest > time.Second {
				f.note("for %v nobody was granted %s", longest, lock)
			}
		}
	}
	return f
}

// moment is what an agent may need to find the new server.
const moment = time.Second

// cutOff is whether a hold was lost because no server could be reached, or because its agent did not run. Such an agent
// may learn late that it was granted a lock, and what its release came to.
func (h *history) cutOff(hold *Hold) bool {
	for _, f := range h.freezes {
		if hold.Agent == f.Agent && hold.Asked < f.To && hold.Released > f.From {
			return true
		}
	}
	for _, o := range h.outages {
		if hold.Lost == lostDeadline && o.Began < hold.Ended && hold.Ended < o.Answered+moment {
			return true
		}
	}
	return false
}

// step is a moment in which a lock is held more, or less.
type step struct {
	at     Instant
	weight int
}

// overlaps finds when the holds of a lock were more than it has.
func (f *Figures) overlaps(holds []Hold) {
	var steps []step
	for _, h := range holds {
		steps = append(steps, step{h.Granted, h.Weight}, step{h.Ended, -h.Weight})
	}
	slices.SortFunc(steps, func(a, b step) int { // who ends makes room for who begins
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.weight, b.weight))
	})
	held, capacity, since := 0, holds[0].Capacity, Instant(0)
	for _, s := range steps {
		before := held
		held += s.weight
		switch {
		case s.weight > 0 && held > capacity:
			f.Overlaps++
			if before <= capacity {
				since = s.at
				f.note("at %d more than %d had %s", s.at, capacity, holds[0].Lock)
			}
		case before > capacity && held <= capacity:
			f.Overlapped += s.at - since
			f.Longest = max(f.Longest, s.at-since)
		}
	}
}

// fallen counts the tokens that are not greater than those before. Holds that share the lock may have the same. A
// library without tokens has only 0. The permits of a semaphore have nothing in common that their tokens could protect.
func (f *Figures) fallen(holds []Hold) {
	if holds[0].Kind.counts() || holds[0].Token == 0 {
		return
	}
	asked := slices.SortedFunc(slices.Values(holds), func(a, b Hold) int { return cmp.Compare(a.Asked, b.Asked) })
	over := slices.SortedFunc(slices.Values(holds), func(a, b Hold) int { return cmp.Compare(a.Ended, b.Ended) })
	var last, lastAlone uint64
	for _, h := range asked {
		for len(over) > 0 && over[0].Ended < h.Asked {
			last = max(last, over[0].Token)
			if over[0].alone() {
				lastAlone = max(lastAlone, over[0].Token)
			}
			over = over[1:]
		}
		if h.Token <= lastAlone || h.alone() && h.Token <= last {
			f.Fallen++
			f.note("after tokens up to %d, and %d of those alone: %v", last, lastAlone, h)
		}
	}
}

// ungranted is the longest time between two grants of a hot lock, or between the first answer of a server and the
// first grant, without the times in which no server answers.
func (h *history) ungranted(holds []Hold) time.Duration {
	longest := time.Duration(0)
	for i, o := range h.outages {
		from, to := o.Answered, h.ended
		if i+1 < len(h.outages) {
			to = h.outages[i+1].Began
		}
		for _, hold := range holds {
			if hold.Granted > from && hold.Granted < to {
				longest = max(longest, hold.Granted-from)
				from = hold.Granted
			}
		}
		longest = max(longest, to-from)
	}
	return longest
}
