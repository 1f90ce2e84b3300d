package events

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events/internal/wire"
)

// A batch repeats text of the record before. Whatever differs from that record is encoded anew.
func TestBatchRepeatsOnlyWhatIsTheSame(t *testing.T) {
	for name, change := range map[string]func(*Record){
		"Nothing":  func(*Record) {},
		"Lock":     func(r *Record) { r.Lock = "another" },
		"Kind":     func(r *Record) { r.Kind = lockagent.EventReleased },
		"Second":   func(r *Record) { r.Time = r.Time.Add(time.Second) },
		"Micros":   func(r *Record) { r.Time = r.Time.Add(time.Microsecond) },
		"NoTime":   func(r *Record) { r.Time = time.Time{} },
		"Store":    func(r *Record) { r.Store = "another" },
		"LockKind": func(r *Record) { r.LockKind = "another" },
		"Mode":     func(r *Record) { r.Mode = lockagent.Shared },
		"Owner":    func(r *Record) { r.Owner = "another" },
	} {
		first := fullRecord(lockagent.EventGranted)
		second := first
		second.Seq++
		change(&second)
		// Back and forth, so that the record before is the changed one, too.
		var batch, want []byte
		var last wire.Before
		for _, r := range []Record{first, second, first, second} {
			batch, want = wire.AppendRecord(batch, &r.Event, r.added(), &last), Append(want, r)
		}
		if string(batch) != string(want) {
			t.Errorf("%s:\ngot  %s\nwant %s", name, batch, want)
		}
	}
}
