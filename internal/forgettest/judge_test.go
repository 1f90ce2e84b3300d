package forgettest

import (
	"reflect"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// held is a hold of a lock that one may have at a time.
func held(token uint64, granted, ended Instant) Hold {
	return Hold{
		Lock: "orders", Kind: Plain, Weight: 1, Capacity: 1, Hot: true,
		Token: token, Asked: granted - 1, Granted: granted, Ended: ended, Released: ended,
	}
}

// reads is a hold that shares its lock.
func reads(token uint64, granted, ended Instant) Hold {
	h := held(token, granted, ended)
	h.Kind, h.Capacity = Read, manyReaders
	return h
}

// writes is a hold of the same lock that does not.
func writes(token uint64, granted, ended Instant) Hold {
	h := reads(token, granted, ended)
	h.Kind, h.Weight = Write, h.Capacity
	return h
}

// permits is a hold of some of the permits.
func permits(n int, granted, ended Instant) Hold {
	h := held(1, granted, ended)
	h.Kind, h.Weight, h.Capacity = Permits, n, totalPermits
	return h
}

func asked(at Instant, h Hold) Hold {
	h.Asked = at
	return h
}

func lost(h Hold, why lockagent.LossReason) Hold {
	h.Lost = why.String()
	return h
}

func TestOverlapsAreFound(t *testing.T) {
	for _, c := range []struct {
		what       string
		holds      []Hold
		overlaps   int
		overlapped time.Duration
		longest    time.Duration
	}{
		{"one after the other", []Hold{held(1, 10, 20), held(2, 20, 30)}, 0, 0, 0},
		{"two at a time", []Hold{held(2, 15, 30), held(1, 10, 20)}, 1, 5, 5},
		{"two beside a long one", []Hold{held(1, 10, 100), held(2, 20, 30), held(3, 40, 60)}, 2, 30, 20},
		{"three at a time", []Hold{held(1, 10, 40), held(2, 20, 50), held(3, 30, 60)}, 2, 30, 30},
		{"readers", []Hold{reads(1, 10, 30), reads(1, 20, 40)}, 0, 0, 0},
		{"a writer beside a reader", []Hold{reads(1, 10, 30), writes(2, 20, 40)}, 1, 10, 10},
		{"a reader beside a writer", []Hold{writes(1, 10, 30), reads(2, 20, 40)}, 1, 10, 10},
		{"enough permits", []Hold{permits(1, 10, 30), permits(1, 20, 40)}, 0, 0, 0},
		{"too few permits", []Hold{permits(1, 10, 30), permits(2, 20, 40)}, 1, 10, 10},
	} {
		f := judge(&history{holds: c.holds})
		if f.Grants != len(c.holds) || f.Overlaps != c.overlaps || f.Overlapped != c.overlapped || f.Longest != c.longest {
			t.Errorf("%s: %+v, want %d overlaps for %d, the longest for %d", c.what, f, c.overlaps, c.overlapped, c.longest)
		}
	}
}

func TestTokensThatFallAreFound(t *testing.T) {
	for _, c := range []struct {
		what   string
		holds  []Hold
		fallen int
	}{
		{"growing", []Hold{held(1, 10, 20), held(2, 25, 30), held(3, 40, 50)}, 0},
		{"falling", []Hold{held(5, 10, 20), held(4, 25, 30), held(6, 40, 50)}, 1},
		{"below one that is over for long", []Hold{held(5, 10, 20), held(6, 25, 30), held(5, 40, 50)}, 1},
		{"of one that was asked for before", []Hold{held(5, 10, 20), asked(15, held(4, 25, 30))}, 0},
		{"the same", []Hold{held(5, 10, 20), held(5, 25, 30)}, 1},
		{"of holds at one time", []Hold{held(5, 10, 30), held(4, 20, 40)}, 0},
		{"of readers", []Hold{reads(5, 10, 20), reads(5, 25, 30), reads(4, 40, 50)}, 0},
		{"of a writer after readers", []Hold{reads(5, 10, 20), writes(5, 25, 30)}, 1},
		{"of a reader after a writer", []Hold{writes(5, 10, 20), reads(5, 25, 30)}, 1},
		{"of permits", []Hold{permits(2, 10, 20), permits(2, 25, 30)}, 0},
	} {
		if f := judge(&history{holds: c.holds}); f.Fallen != c.fallen {
			t.Errorf("%s: %d tokens fell, want %d", c.what, f.Fallen, c.fallen)
		}
	}
}

func TestLossesAreCounted(t *testing.T) {
	other := lost(held(4, 30, 60), lockagent.LostDenied)
	late := asked(50, lost(held(6, 57, 57), lockagent.LostDenied)) // the agent learned late of its grant
	stopped := lost(held(7, 20, 30), lockagent.LostDeadline)       // its agent stopped while it released the hold
	stopped.Released = 60
	before := lost(held(8, 20, 30), lockagent.LostDeadline) // all was over before its agent stopped
	other.Agent, late.Agent, stopped.Agent, before.Agent = 1, 1, 1, 1
	f := judge(&history{
		holds: []Hold{
			held(1, 10, 20),
			lost(held(1, 30, 35), lockagent.LostDeadline),
			lost(held(2, 30, 60), lockagent.LostDenied),
			lost(held(3, 30, 60), lockagent.LostDeadline), // no server answered
			lost(held(5, 70, 80+moment), lockagent.LostDeadline),
			other, late, stopped, // their agent did not run
			before,
		},
		outages: []Outage{{Began: 40, Answered: 50}},
		freezes: []Freeze{{Agent: 1, From: 35, To: 55}},
	})
	if f.LostHolds() != 4 || f.Lost["denied"] != 1 || f.Lost["deadline"] != 3 || f.CutOff != 4 {
		t.Errorf("%v lost, and %d cut off; want one denied, three by their deadlines, and four cut off", f.Lost, f.CutOff)
	}
}

func TestUnansweredRequestsAreCounted(t *testing.T) {
	never := func(at Instant, hot bool) Hold {
		h := asked(at, held(0, 0, 0))
		h.Hot = hot
		return h
	}
	f := judge(&history{
		holds:   []Hold{never(10, true), never(10, false), never(90, true)},
		outages: []Outage{{Began: 20, Answered: 30}},
		stuck:   1,
	})
	if f.Grants != 0 || f.Unanswered != 2 { // one that has waited since before the store forgot, and one that is stuck
		t.Errorf("%d grants, and %d requests unanswered; want none, and 2", f.Grants, f.Unanswered)
	}
}

func TestTimesWithoutAGrantAreFound(t *testing.T) {
	two := []Outage{{Began: 20, Answered: 30}, {Began: 60, Answered: 80}}
	for _, c := range []struct {
		what    string
		granted []Instant
		want    time.Duration
	}{
		{"before the first grant", []Instant{10, 45, 55, 81, 90}, 15},
		{"between two grants", []Instant{31, 50, 81, 90}, 19},
		{"up to the end", []Instant{31, 41, 50, 81}, 19},
		{"while no server answers", []Instant{31, 41, 50, 70, 90}, 10},
	} {
		h := &history{outages: two, ended: 100}
		for i, at := range c.granted {
			h.holds = append(h.holds, held(uint64(i+1), at, at+1))
		}
		if f := judge(h); f.Ungranted != c.want {
			t.Errorf("%s: %d, want %d", c.what, f.Ungranted, c.want)
		}
	}
}

func TestFiguresAdd(t *testing.T) {
	one := judge(&history{
		holds:   []Hold{held(3, 10, 40), lost(held(2, 20, 50), lockagent.LostDenied), held(1, 60, 70)},
		outages: []Outage{{Began: 12, Answered: 15}}, ended: 80, stuck: 1, refused: map[string]int{"no": 2},
	})
	var all Figures
	all.Add(one)
	all.Add(one)
	all.Notes = nil
	want := Figures{
		Runs: 2, Outages: 2, Grants: 6, Overlaps: 2, Overlapped: 40, Longest: 20, Lost: map[string]int{"denied": 2},
		Unanswered: 2, Fallen: 2, Ungranted: 40, Refused: map[string]int{"no": 4},
	}
	if !reflect.DeepEqual(all, want) {
		t.Errorf("%+v twice is %+v, want %+v", one, all, want)
	}
}
