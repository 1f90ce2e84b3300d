package actor

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
)

func TestConfigIsChecked(t *testing.T) {
	_, err := New(Config{
		Lease: time.Millisecond, Claim: -1, HandOffGrants: -1, HandOffTime: -1, Idle: 400 * 24 * time.Hour, Margin: -1,
		Label: strings.Repeat("x", 28),
	})
	if !errors.Is(err, lockagent.ErrBadOption) {
		t.Fatalf("got %v", err)
	}
	for _, field := range []string{"Store", "Lease", "Claim", "HandOffGrants", "HandOffTime", "Idle", "Margin", "Label"} {
		if !strings.Contains(err.Error(), "Config."+field) {
			t.Errorf("%v\ndoes not mention %s", err, field)
		}
	}
}

func TestLabel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		label := strings.Repeat("h", 20) + "-Host_9"
		a := start(t, Config{Store: store.Share(), Label: label})
		b := start(t, Config{Store: store, Label: label})
		id, found := strings.CutPrefix(string(a.ID()), label+"-")
		if _, err := lockagent.ParseAgentID(string(a.ID())); err != nil || !found || len(id) != 36 || a.ID() == b.ID() {
			t.Errorf("the agent is %q, the other %q: %v", a.ID(), b.ID(), err)
		}
		g := a.Lock(background, "door", who("ann"))
		held, ok := errors.AsType[*lockagent.HeldError](b.Lock(background, "door", Request{Owner: "bob", Try: true}).Err())
		if !ok || !strings.HasPrefix(held.Holder, label) {
			t.Errorf("others see %+v", held)
		}
		released(t, g)
		for _, bad := range []Config{{Label: "a b"}, {Label: "\u00fc"}, {Label: "a:b"}, {Label: "x", ID: "y"}, {ID: "a b"}} {
			bad.Store = store
			if _, err := New(bad); !errors.Is(err, lockagent.ErrBadOption) {
				t.Errorf("%+v: %v", bad, err)
			}
		}
	})
}

// The holder is told of its loss so much before the store gives the lock to others.
func TestMargin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTap(memstore.New())
		a := start(t, Config{Store: s, Lease: 20 * time.Second, Margin: 7 * time.Second})
		s.on("renew", func(o *op) { o.fail(lockagent.ErrStoreUnavailable) })
		for lease, want := range map[time.Duration]time.Duration{
			0:               13 * time.Second,
			time.Minute:     53 * time.Second,
			4 * time.Second: 2 * time.Second,
		} {
			g := a.Lock(background, "door", Request{Owner: "ann", Lease: lease})
			begin := time.Now()
			<-g.Done()
			if held := time.Since(begin); held != want {
				t.Errorf("a lease of %v was held for %v, want %v", lease, held, want)
			}
		}
		if _, err := New(Config{
			Store: s, Lease: 20 * time.Second, Margin: 10*time.Second + 1,
		}); !errors.Is(err, lockagent.ErrBadOption) {
			t.Errorf("more than half of the lease: %v", err)
		}
	})
}
