package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/lockagent/lockagent/actor"
	"github.com/lockagent/lockagent/internal/saved"
	"github.com/lockagent/lockagent/memstore"
)

// written is the content of a file of several goroutines that have used locks so many times each. After three times, it
// has records of all kinds.
func written(t testing.TB, times int) (path string, content []byte) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "journal")
	j, _ := opened(t, path)
	a := begun(t, j)
	use(t, a, j, times)
	if err := j.Flush(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, content
}

// starts are where the frames of a file start.
func starts(content []byte) (at []int) {
	for rest := content[preludeLen:]; len(rest) > 0; {
		at = append(at, len(content)-len(rest))
		_, rest, _, _ = nextFrame(rest)
	}
	return at
}

// A file that ends anywhere says what its whole records say.
func TestCutOff(t *testing.T) {
	path, content := written(t, 1)
	at := append(starts(content), len(content))
	frame := 0
	for n := range len(content) + 1 {
		for frame+1 < len(at) && at[frame+1] <= n {
			frame++
		}
		s, err := parse(path, content[:n])
		if n < at[1] {
			if _, ok := errors.AsType[*DamagedError](err); !ok {
				t.Fatalf("%d bytes, without a header: %v", n, err)
			}
			continue
		}
		if err != nil || s.dropped != int64(n-at[frame]) {
			t.Fatalf("%d of %d bytes: %v, dropped %d", n, len(content), err, s.dropped)
		}
	}
}

// What was written at once is in the file as a whole, or not at all.
func TestChangesAreCutOffTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j, _ := opened(t, path)
	j.Begin([]saved.Change{{Key: "one", Data: []byte("before")}})
	at := int(j.size)
	j.Write([]saved.Change{{Key: "one"}, {Key: "two", Data: []byte("after")}, {Key: "three", Data: []byte("after")}}, true)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for n := at; n <= len(content); n++ {
		s, err := parse(path, content[:n])
		if err != nil {
			t.Fatal(err)
		}
		want := map[string][]byte{"one": []byte("before")}
		if n == len(content) {
			want = map[string][]byte{"two": []byte("after"), "three": []byte("after")}
		}
		if !reflect.DeepEqual(s.records, want) {
			t.Fatalf("%d of %d bytes say %q", n, len(content), s.records)
		}
	}
}

// No damaged byte goes unnoticed. The error tells where it is, and the file stays as it is.
func TestDamage(t *testing.T) {
	path, content := written(t, 1)
	at := starts(content)
	frame := -1
	for n := range content {
		if frame+1 < len(at) && at[frame+1] <= n {
			frame++
		}
		spoilt := bytes.Clone(content)
		spoilt[n] ^= 1 << (n % 8)
		_, err := parse(path, spoilt)
		damaged, ok := errors.AsType[*DamagedError](err)
		_, other := errors.AsType[*FormatError](err)
		switch {
		case n >= len(magic) && n < preludeLen: // the format
			if !ok && !other {
				t.Fatalf("byte %d: %v", n, err)
			}
		case !ok || damaged.Path != path || frame >= 0 && damaged.Offset != int64(at[frame]):
			t.Fatalf("byte %d: %v", n, err)
		}
	}
	spoilt := bytes.Clone(content)
	spoilt[at[2]+frameHeader] ^= 1
	if err := os.WriteFile(path, spoilt, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Open(path); err == nil || !strings.Contains(err.Error(), path) || !errors.Is(err, errChecksum) {
		t.Errorf("%v", err)
	}
	if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, spoilt) {
		t.Errorf("the file has changed: %v", err)
	}
}

// The file of another version is refused, and stays as it is.
func TestOtherFormats(t *testing.T) {
	path, content := written(t, 1)
	for _, of := range []uint32{0, format - 1, format + 1} {
		binary.LittleEndian.PutUint32(content[len(magic):], of)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		_, _, err := Open(path)
		if other, ok := errors.AsType[*FormatError](err); !ok || other.Format != of || other.Path != path {
			t.Errorf("format %d: %v", of, err)
		}
		if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, content) {
			t.Errorf("the file has changed: %v", err)
		}
	}
}

// A record of the agent that cannot be read is damage, also if its checksum is right.
func TestUnreadableRecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j, _ := opened(t, path)
	begun(t, j)
	j.Put(saved.TenureKey("door", 1), []byte{1})
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	_, _, err := Open(path)
	if damaged, ok := errors.AsType[*DamagedError](err); !ok || !strings.Contains(err.Error(), "lock/door/tenure/1") {
		t.Errorf("%v, %+v", err, damaged)
	}
}

// After another boot, damage does not matter, and nothing goes on.
func TestAnotherBoot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	store := memstore.New()
	j, _ := opened(t, path)
	a, err := actor.New(actor.Config{Store: store.Share(), Journal: j})
	if err != nil {
		t.Fatal(err)
	}
	if g := a.Lock(background, "door", actor.Request{Owner: "ann"}); g.Err() != nil {
		t.Fatal(g.Err())
	}
	_ = a.Acquire(background, "door", actor.Request{Owner: "bob"})
	a.Detach()
	j.mu.Lock()
	n := agentOf(t, j.records)
	n.Taken.Boot, j.boot = "another", "another"
	of := n.Record()
	j.records[of.Key] = of.Data
	content := j.all()
	j.mu.Unlock()
	content = append(content, make([]byte, 4096)...)
	if err := errors.Join(a.Close(), j.Close(), os.WriteFile(path, content, 0o600)); err != nil {
		t.Fatal(err)
	}
	j, r := opened(t, path)
	if r.SameBoot || r.Dropped != 4096 {
		t.Errorf("recovered %+v", r)
	}
	next, err := actor.Resume(actor.Config{Store: store.Share(), Journal: j}, *r.Agent)
	if err != nil {
		t.Fatal(err)
	}
	if resumed := next.Resumed(); len(resumed) != 0 {
		t.Errorf("resumed %+v", resumed)
	}
	if n := agentOf(t, parsed(t, path).records); len(n.Locks) != 1 || len(n.Locks[0].Requests) != 0 {
		t.Errorf("the new file has %+v", n)
	}
	if err := next.Close(); err != nil {
		t.Error(err)
	}
}

// Whatever is in a file, it is read or refused. What is read can be written and read again.
func FuzzParse(f *testing.F) {
	_, content := written(f, 3)
	f.Add(content)
	for _, at := range starts(content) {
		f.Add(content[:at])
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		s, err := parse("fuzz", content)
		if err != nil {
			return
		}
		_, _ = s.recovered("fuzz")
		j := &Journal{records: s.records}
		again, err := parse("fuzz", j.all())
		if err != nil {
			t.Fatal(err)
		}
		same(t, j, again)
	})
}

// The same without the frames, whose checksums a fuzzer does not find.
func FuzzPayload(f *testing.F) {
	_, content := written(f, 3)
	for rest := content[preludeLen:]; len(rest) > 0; {
		payload, next, _, _ := nextFrame(rest)
		f.Add(payload)
		rest = next
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		_, _ = readHeader(payload)
		changes, err := readChanges(payload)
		if err != nil {
			return
		}
		var b []byte
		for i := range changes {
			b = appendChange(b, &changes[i])
		}
		if again, err := readChanges(b); err != nil || !reflect.DeepEqual(changes, again) {
			t.Errorf("%q\n%q, %v", changes, again, err)
		}
	})
}
