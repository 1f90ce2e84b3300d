package natslog

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/internal/eventstest"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/waittest"
)

// A stream that exists is given other limits: smaller ones discard, larger ones keep more, and nothing else of it
// changes.
func TestSetLimits(t *testing.T) {
	dir := t.TempDir()
	const large = 10 << 10 // bytes of a message
	body := []byte(strings.Repeat("x", large))
	var published int
	open := func() (*natsserver.Server, jetstream.JetStream, ReaderConfig) {
		t.Helper()
		server, err := natsserver.Start(natsserver.Config{Dir: dir, Logger: testLogger(t)})
		if err != nil {
			t.Fatal(err)
		}
		c := Connection{InProcess: server}
		return server, client(t, c), ReaderConfig{Connection: c}
	}
	server, js, cfg := open()
	if had, err := SetLimits(waittest.Context(t), cfg, Limits{}); !errors.Is(err, ErrNoStream) || had != (Limits{}) {
		t.Errorf("without a stream: %v, %v", had, err)
	}
	fresh := Config{Connection: cfg.Connection, Agent: eventstest.Agent, MaxBytes: 8 << 20}
	if err := fresh.check(); err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(waittest.Context(t), fresh.stream()); err != nil {
		t.Fatal(err)
	}
	publish := func(n int) {
		t.Helper()
		for range n {
			if _, err := js.Publish(waittest.Context(t), events.DefaultPrefix+".a.b", body); err != nil {
				t.Fatal(err)
			}
			published++
		}
	}
	info := func() *jetstream.StreamInfo {
		t.Helper()
		s, err := js.Stream(waittest.Context(t), DefaultStream)
		if err != nil {
			t.Fatal(err)
		}
		return s.CachedInfo()
	}
	before := info().Config
	// set sets limits, and expects that the stream has no other differences from what it was at first.
	set := func(had, want Limits) *jetstream.StreamInfo {
		t.Helper()
		got, err := SetLimits(waittest.Context(t), cfg, want)
		if err != nil || got != had {
			t.Errorf("before %v there was %v, %v; want %v", want, got, err, had)
		}
		is := info()
		if limits := limitsOf(&is.Config); limits != want {
			t.Errorf("the limits are %v, want %v", limits, want)
		}
		if is.Config.Duplicates != duplicates(want.MaxAge) {
			t.Errorf("with %v it tells duplicates apart for %v", want, is.Config.Duplicates)
		}
		expect := before
		expect.MaxBytes, expect.MaxAge, expect.Duplicates = is.Config.MaxBytes, is.Config.MaxAge, is.Config.Duplicates
		if !reflect.DeepEqual(expect, is.Config) {
			t.Errorf("more has changed: it was\n%+v, and is\n%+v", expect, is.Config)
		}
		if is.State.LastSeq != uint64(published) {
			t.Errorf("the last message is %d of %d", is.State.LastSeq, published)
		}
		return is
	}

	publish(300)
	first, small := Limits{MaxBytes: 8 << 20}, Limits{MaxBytes: 1 << 20, MaxAge: time.Minute}
	if s := set(first, first).State; s.Msgs != 300 {
		t.Errorf("the same limits have left %d messages", s.Msgs)
	}
	if s := set(first, small).State; s.Bytes > 1<<20 || s.Msgs < 50 {
		t.Errorf("smaller ones have left %d messages of %d bytes", s.Msgs, s.Bytes)
	}
	publish(100)
	if s := info().State; s.Bytes > 1<<20 {
		t.Errorf("they are those of the past: %d bytes", s.Bytes)
	}
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	server, js, cfg = open()
	defer func() { _ = server.Stop() }()
	left := set(small, Limits{}).State.Msgs
	publish(200)
	if s := info().State; s.Msgs != left+200 {
		t.Errorf("without bounds it has %d messages, want %d", s.Msgs, left+200)
	}
	huge := Limits{MaxBytes: 1 << 60}
	if had, err := SetLimits(waittest.Context(t), cfg, huge); !errors.Is(err, ErrNoRoom) ||
		!strings.Contains(err.Error(), fmt.Sprint(huge.MaxBytes)) || !strings.Contains(err.Error(), "a smaller MaxBytes") ||
		had != (Limits{}) {
		t.Errorf("more than there is: %v, %v", had, err)
	}
	if got := limitsOf(&info().Config); got != (Limits{}) {
		t.Errorf("what was refused has left %v", got)
	}
	if _, err := SetLimits(waittest.Context(t), ReaderConfig{}, Limits{}); !errors.Is(err, lockagent.ErrBadOption) {
		t.Errorf("without a server: %v", err)
	}
}
