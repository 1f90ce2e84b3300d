package natslog

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	"github.com/lockagent/lockagent/internal/waittest"
)

// documented returns the only block of a language in docs/nats.md.
func documented(t *testing.T, language string) string {
	t.Helper()
	return documentedBlocks(t, language, 1)[0]
}

// documentedBlocks returns the blocks of a language in docs/nats.md, of which there are so many.
func documentedBlocks(t *testing.T, language string, n int) (texts []string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/nats.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)\n```"+language+"\n(.*?)\n```\n").FindAllStringSubmatch(string(page), -1)
	if len(blocks) != n {
		t.Fatalf("the page has %d blocks of %s, want %d", len(blocks), language, n)
	}
	for _, block := range blocks {
		texts = append(texts, block[1])
	}
	return texts
}

// documentedStream returns the settings of the stream in docs/nats.md, for one server with a
// small disk.
func documentedStream(t *testing.T) jetstream.StreamConfig {
	t.Helper()
	log, _ := documentedStreams(t)
	log.Replicas, log.MaxBytes = 1, 1<<20
	return log
}

// documentedStreams returns the settings of both streams in docs/nats.md.
func documentedStreams(t *testing.T) (log, urgent jetstream.StreamConfig) {
	t.Helper()
	blocks := documentedBlocks(t, "json", 2)
	for i, cfg := range []*jetstream.StreamConfig{&log, &urgent} {
		d := json.NewDecoder(strings.NewReader(blocks[i]))
		d.DisallowUnknownFields()
		if err := d.Decode(cfg); err != nil {
			t.Fatal(err)
		}
	}
	return log, urgent
}

// documentedServer starts a server as docs/nats.md configures it, and makes both streams as its operator.
func documentedServer(t *testing.T, conf string) *natsserver.Server {
	t.Helper()
	s := natstest.StartSecured(t, conf)
	makeStreams(t, asUser(t, s, "operator"), func(*jetstream.StreamConfig) {})
	return s
}

// makeStreams makes both streams as docs/nats.md has them, but for what change changes.
func makeStreams(t *testing.T, operator Connection, change func(*jetstream.StreamConfig)) {
	t.Helper()
	log, copies := documentedStreams(t)
	js := client(t, operator)
	for _, cfg := range []*jetstream.StreamConfig{&log, &copies} {
		cfg.Replicas, cfg.MaxBytes = 1, 1<<20 // one server with a small disk
		change(cfg)
		if _, err := js.CreateStream(waittest.Context(t), *cfg); err != nil {
			t.Fatal(err)
		}
		if _, err := js.UpdateStream(waittest.Context(t), *cfg); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDocumentedStream: the publisher takes the stream in docs/nats.md as it is.
func TestDocumentedStream(t *testing.T) {
	cfg := documentedStream(t)
	if cfg.Name != DefaultStream || len(cfg.Subjects) != 1 || cfg.Subjects[0] != events.AllSubjects {
		t.Errorf("it is %s for %v", cfg.Name, cfg.Subjects)
	}
	if !cfg.DenyDelete || !cfg.DenyPurge || !cfg.AllowDirect {
		t.Errorf("it is %+v", cfg)
	}
	log, urgent := documentedStreams(t)
	want := urgentOf(&log, events.DefaultPrefix)
	want.Description, want.MaxConsumers, want.MaxMsgs = "", -1, -1
	sources := func(cfg *jetstream.StreamConfig) (all []jetstream.SubjectTransformConfig) {
		for _, s := range cfg.Sources {
			all = append(all, s.SubjectTransforms...)
		}
		cfg.Sources = nil
		slices.SortFunc(all, func(a, b jetstream.SubjectTransformConfig) int { return strings.Compare(a.Source, b.Source) })
		return all
	}
	if got, want := sources(&urgent), sources(&want); !slices.Equal(got, want) {
		t.Errorf("copied is %v, want %v", got, want)
	}
	if !reflect.DeepEqual(urgent, want) {
		t.Errorf("the copies are\n%+v, want\n%+v", urgent, want)
	}
}
