package lockagent_test

import (
	"regexp"
	"slices"
	"testing"

	"github.com/lockagent/lockagent"
)

var oneWord = regexp.MustCompile(`^[a-z]+$`)

func TestEventKindRoundTrip(t *testing.T) {
	kinds := lockagent.EventKinds()
	if first, last := kinds[0], kinds[len(kinds)-1]; first != lockagent.EventRequested ||
		last != lockagent.EventGraceEnded {
		t.Errorf("the kinds go from %v to %v", first, last)
	}
	if !slices.IsSorted(kinds) {
		t.Errorf("not in order: %v", kinds)
	}
	seen := make(map[string]bool)
	for _, k := range kinds {
		word := k.String()
		if !oneWord.MatchString(word) || seen[word] {
			t.Errorf("%q is not one lower-case word of its own", word)
		}
		seen[word] = true
		if got, ok := lockagent.ParseEventKind(word); !ok || got != k {
			t.Errorf("ParseEventKind(%q) = %v, %t", word, got, ok)
		}
	}
	for _, k := range []lockagent.EventKind{0, lockagent.EventGraceEnded + 1, 255} {
		if k.String() != "unknown" {
			t.Errorf("kind %d is called %q", k, k)
		}
	}
	for _, word := range []string{"", "unknown", "Granted", "granted "} {
		if k, ok := lockagent.ParseEventKind(word); ok || k != 0 {
			t.Errorf("ParseEventKind(%q) = %v, %t", word, k, ok)
		}
	}
}

func TestEventKindsIsACopy(t *testing.T) {
	lockagent.EventKinds()[0] = 0
	if lockagent.EventKinds()[0] != lockagent.EventRequested {
		t.Error("the catalogue can be changed from outside")
	}
}

func TestEndsHold(t *testing.T) {
	ends := []lockagent.EventKind{
		lockagent.EventReleased, lockagent.EventExpired, lockagent.EventLost, lockagent.EventBroken, lockagent.EventUnclaimed,
		lockagent.EventHeld,
	}
	for _, k := range lockagent.EventKinds() {
		if k.EndsHold() != slices.Contains(ends, k) {
			t.Errorf("%v ends a hold: %t", k, k.EndsHold())
		}
	}
}

func TestHow(t *testing.T) {
	for how, want := range map[lockagent.How]string{
		0: "", lockagent.ByStore: "store", lockagent.ByHandOff: "handoff", lockagent.ByRest: "rest", 4: "",
	} {
		if how.String() != want {
			t.Errorf("How(%d) is called %q, want %q", how, how, want)
		}
	}
}
