package natslog

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/internal/eventstest"
	"github.com/lockagent/lockagent/events/internal/logtest"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	"github.com/lockagent/lockagent/internal/waittest"
)

// numbered returns records of one lock with these numbers.
func numbered(agent lockagent.AgentID, lock lockagent.Name, seqs ...uint64) (all []events.Record) {
	for _, seq := range seqs {
		r := events.Record{Event: eventstest.Typical(seq), Epoch: 3, Seq: seq}
		r.Agent, r.Lock = agent, lock
		all = append(all, r)
	}
	return all
}

// store puts a message into the stream.
func store(t testing.TB, js jetstream.JetStream, subject, contentType string, data []byte) {
	t.Helper()
	m := nats.NewMsg(subject)
	m.Header.Set("Content-Type", contentType)
	m.Data = data
	if _, err := js.PublishMsg(waittest.Context(t), m); err != nil {
		t.Fatal(err)
	}
}

func TestReaderOfBatches(t *testing.T) {
	c := Connection{InProcess: natstest.Start(t, natsserver.Config{})}
	js := client(t, c)
	const prefix, stream = "site.a.locks", "OTHER"
	if _, err := js.CreateStream(
		t.Context(), jetstream.StreamConfig{Name: stream, Subjects: []string{"site.>"}},
	); err != nil {
		t.Fatal(err)
	}
	one, two := numbered("one", "a/b", upTo(1, 100)...), numbered("two", "a/b", upTo(1, 3)...)
	two[1].Owner = "w2"
	long := lockagent.Name(strings.Repeat("a/", 20))
	before := time.Now()
	store(t, js, prefix+".one.lock.a.b", events.BatchContentType, logtest.BatchOf(one)) // 1
	store(t, js, prefix+".two.lock.a.b", events.BatchContentType, logtest.BatchOf(two)) // 2
	// 3: another prefix.
	store(t, js, "site.b.locks.one.lock.a.b", events.BatchContentType, logtest.BatchOf(one))
	store(t, js, prefix+".one.lock.a.c", events.ContentType, events.Append(nil, numbered("one", "a/c", 101)[0]))  // 4
	store(t, js, string(events.AppendSubject(nil, prefix, "one", lockagent.EventHeld, long)), events.ContentType, // 5
		events.Append(nil, numbered("one", long, 102)[0]))

	c.Logger = testLogger(t)
	r, err := OpenReader(ReaderConfig{Connection: c, Stream: stream, Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	read := func(from From, filter events.Filter) (all []string) {
		t.Helper()
		err := r.Replay(waittest.Context(t), from, filter, func(r *events.Record, err error) error {
			if err == nil && (r.Stored.Before(before.Add(-time.Minute)) || r.Stored.Location() != time.UTC) {
				err = fmt.Errorf("stored at %v", r.Stored)
			}
			all = append(all, fmt.Sprintf("%d:%s:%d", r.Position, r.Agent, r.Seq))
			return err
		})
		if err != nil {
			t.Error(err)
		}
		return all
	}
	var batch []string
	for seq := range 100 {
		batch = append(batch, fmt.Sprint("1:one:", seq+1))
	}
	second, rest := []string{"2:two:1", "2:two:2", "2:two:3"}, []string{"4:one:101", "5:one:102"}
	for name, test := range map[string]struct{ got, want []string }{
		"All":         {read(From{}, events.Filter{}), slices.Concat(batch, second, rest)},
		"FromSecond":  {read(FromPosition(2), events.Filter{}), slices.Concat(second, rest)},
		"FromSkipped": {read(FromPosition(3), events.Filter{}), rest},
		"Lock":        {read(From{}, events.Filter{Lock: "a/c"}), rest[:1]},
		"Pattern":     {read(FromPosition(2), events.Filter{Pattern: "a/*"}), slices.Concat(second, rest[:1])},
		"LongName":    {read(FromPosition(2), events.Filter{Pattern: "a/*/a/>"}), rest[1:]},
		"Agents":      {read(FromPosition(2), events.Filter{Agents: []lockagent.AgentID{"two", "three"}}), second},
		"Owner":       {read(From{}, events.Filter{Owner: "w2"}), second[1:2]},
		"Nothing":     {read(From{}, events.Filter{Owner: "nobody"}), nil},
	} {
		if !slices.Equal(test.got, test.want) {
			t.Errorf("%s: got %q, want %q", name, test.got, test.want)
		}
	}
	t.Run("VisitEndsInABatch", func(t *testing.T) {
		var got []uint64
		if err := r.Replay(waittest.Context(t), From{}, events.Filter{}, seqs(&got, 7)); !errors.Is(err, errEnough) ||
			!slices.Equal(got, upTo(1, 7)) {
			t.Errorf("got %v, %v", got, err)
		}
	})
}

// TestMessagesThatDoNotFit has records in messages in which they must not be.
func TestMessagesThatDoNotFit(t *testing.T) {
	c := Connection{InProcess: natstest.Start(t, natsserver.Config{})}
	js := client(t, c)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: DefaultStream, Subjects: []string{events.AllSubjects},
	}); err != nil {
		t.Fatal(err)
	}
	good := numbered("a", "x", 1, 2, 3)
	otherLock, otherAgent, lost := slices.Clone(good), slices.Clone(good), slices.Clone(good)
	otherLock[1].Lock = "y"
	otherAgent[1].Agent = "b"
	lost[1].Kind = lockagent.EventLost
	later := strings.Replace(string(events.Append(nil, good[0])), "lock.held.v1", "lock.upgraded.v1", 1)
	for _, m := range []struct{ subject, contentType, data string }{
		{"a.lock.x", events.BatchContentType, string(logtest.BatchOf(good))},
		{"a.lock.y", events.BatchContentType, string(logtest.BatchOf(good))},
		{"b.lock.x", events.BatchContentType, string(logtest.BatchOf(good))},
		{"a.lost.x", events.BatchContentType, string(logtest.BatchOf(good))},
		{"a.lock.x", events.BatchContentType, string(logtest.BatchOf(otherLock))},
		{"a.lock.x", events.BatchContentType, string(logtest.BatchOf(otherAgent))},
		{"a.lock.x", events.BatchContentType, string(logtest.BatchOf(lost))},
		{"a.lock.x", "text/plain", string(logtest.BatchOf(good))},
		{"a.upgraded.x", events.ContentType, later},
		{"b.upgraded.x", events.ContentType, later},
	} {
		store(t, js, events.DefaultPrefix+"."+m.subject, m.contentType, []byte(m.data))
	}
	var got []string
	err := newReader(t, c).Replay(waittest.Context(t), From{}, events.Filter{}, func(r *events.Record, err error) error {
		if err != nil {
			var decode *events.DecodeError
			if !errors.As(err, &decode) || decode.Position != r.Position || *r != (events.Record{Position: r.Position}) {
				t.Errorf("got %+v, %v", r, err)
			}
			got = append(got, fmt.Sprint(r.Position, ": bad"))
			return nil
		}
		if r.Kind == 0 && r.Raw != later {
			t.Errorf("got %q", r.Raw)
		}
		got = append(got, fmt.Sprint(r.Position, ": ", r.Seq))
		return nil
	})
	want := []string{
		"1: 1", "1: 2", "1: 3", "2: bad", "3: bad", "4: bad", "5: 1", "5: bad", "6: 1", "6: bad", "7: 1", "7: bad", "8: bad",
		"9: 1", "10: bad",
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

// TestLinesOfALaterVersion passes unknown things through a file.
func TestLinesOfALaterVersion(t *testing.T) {
	line := strings.NewReplacer(
		"lock.held.v1", "lock.upgraded.v1", `"handoff"`, `"magic"`, `"data":{`, `"data":{"shape":[1, 2],"reason":"bored",`,
	).
		Replace(string(events.Append(nil, events.Record{Event: eventstest.Typical(1), Epoch: 3, Seq: 1}))) + "\n"
	var again strings.Builder
	err := events.ReadLines(strings.NewReader(line), func(r *events.Record, err error) error {
		return errors.Join(err, events.WriteLine(&again, *r))
	})
	if err != nil || again.String() != line {
		t.Errorf("got  %s%v\nwant %s", again.String(), err, line)
	}
}
