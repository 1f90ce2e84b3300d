package queue

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/internal/wire"
)

// TestGraceIsBounded records a grace period of a large fleet, with texts and names that no store should have.
func TestGraceIsBounded(t *testing.T) {
	long := strings.Repeat("x", 60)
	var roll []lockagent.AgentID
	for i := range 10_000 {
		roll = append(roll, lockagent.AgentID(fmt.Sprintf("%s%04d", long, i)))
	}
	roll[1] = lockagent.AgentID(strings.Repeat("\x01", 1000)) // is no name
	given := &lockagent.GracePeriod{
		Incarnation: strings.Repeat("\x01", 4000), Reason: strings.Repeat("\x01", 4000), Began: 1, Ended: 2,
		Roll: slices.Clone(roll), More: 5,
	}
	e := lockagent.Event{Kind: lockagent.EventGraceBegan, Grace: given}
	Bound(&e)
	if !slices.Equal(given.Roll, roll) || given.More != 5 || len(given.Reason) != 4000 {
		t.Error("the period of the caller has changed")
	}
	g := e.Grace
	want := append([]lockagent.AgentID{roll[0]}, roll[2:maxRoll+1]...)
	if !slices.Equal(g.Roll, want) || g.More != 5+len(roll)-maxRoll || g.Began != 1 || g.Ended != 2 ||
		len(g.Incarnation) != wire.MaxText || len(g.Reason) != wire.MaxText {
		t.Errorf("%d agents and %d more, texts of %d and %d bytes", len(g.Roll), g.More, len(g.Incarnation), len(g.Reason))
	}
	p := NewPacker("me", 3, "p.q")
	m := p.Pack(itemsOf(e), events.Drops{}, 0, time.Time{})[0]
	if bytes := len(p.Encode(nil, m)); bytes > MaxMessage-maxHeader || bytes > 2*m.Size {
		t.Errorf("%d bytes, and the size is said to be %d", bytes, m.Size)
	}
	if r := unpacked(t, &p, m); !r[0].Grace.Equal(g) {
		t.Errorf("%+v became %+v", g, r[0].Grace)
	}
}
