package saved

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
)

func TestStampTellsTheLongerTime(t *testing.T) {
	wall := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	at := Stamp{Wall: wall, Boot: "x", Up: time.Hour}
	nowhere := Stamp{Wall: wall}
	for name, tt := range map[string]struct {
		stamp  Stamp
		wall   time.Duration
		boot   string
		up     time.Duration
		passed time.Duration
		known  bool
	}{
		"as long":                           {at, time.Minute, "x", time.Hour + time.Minute, time.Minute, true},
		"set back":                          {at, -time.Hour, "x", time.Hour + time.Minute, time.Minute, true},
		"set forward":                       {at, 2 * time.Minute, "x", time.Hour + time.Minute, 2 * time.Minute, true},
		"booted":                            {at, time.Minute, "y", time.Minute, 0, false},
		"the system does not tell":          {nowhere, time.Minute, "", 0, time.Minute, true},
		"and the clock was set back":        {nowhere, -time.Minute, "", 0, -time.Minute, false},
		"the system does not tell any more": {at, time.Minute, "", 0, 0, false},
	} {
		age, known := tt.stamp.since(wall.Add(tt.wall), tt.boot, tt.up)
		if known != tt.known || known && age != tt.passed {
			t.Errorf("%s: %v, %v", name, age, known)
		}
	}
}

// lived is an agent with all that an agent can have.
func lived() Agent {
	request := func(id lockstate.RequestID, of lockstate.Request, tenure uint64) Request {
		of.ID, of.Owner = id, "ann"
		r := Request{SavedRequest: lockstate.SavedRequest{Request: of, Tenure: tenure}}
		if tenure != 0 {
			r.Token, r.Since = lockagent.Token(id), lockstate.Instant(id)
		}
		return r
	}
	tagged := request(7, lockstate.Request{Arrived: 9, Permits: 3, Try: true, NoRest: true}, 0)
	tagged.Tag, tagged.Until, tagged.Part = "a tag", 50, 8
	fixed := request(4, lockstate.Request{Mode: lockstate.Shared, Lease: time.Hour, Session: true, Outlive: true}, 5)
	fixed.Since, fixed.Fixed, fixed.Own, fixed.Confirmed = 1, 2, 3, 4
	fixed.Total = 5
	return Agent{
		Stay: Stay{ID: "agent", First: 1, Last: 9, Taken: Stamp{Wall: time.Unix(3, 4), Boot: "x", Up: 5, At: 6}},
		Locks: []Lock{
			{Name: "/floor", Kind: lockagent.PlainLock, Floor: 3},
			{Name: "a/tenure/5", Kind: lockagent.ReadWriteLock, Tenures: []lockstate.SavedTenure{{
				Number: 5, Mode: lockstate.Shared, Began: 1, Sent: 2, Replied: 3, Deadline: 4, Until: 5, Lease: 6,
				Open:       7,
				Unanswered: true, StoreTime: 8, Incarnation: "one", Replicas: 9, First: 10, Last: 11, Holds: 12,
				Outsiders: true, Contested: true, Wanted: true,
			}}, Requests: []Request{fixed, request(6, lockstate.Request{}, 5)}},
			{Name: "\x00\xff", Kind: lockagent.FairLock, Tenures: []lockstate.SavedTenure{
				{Number: 2, Part: 8, Asks: true, Queued: true, Arrived: 3, Open: 1, Until: 2}, {Number: 3},
			}, Requests: []Request{tagged}},
		},
	}
}

// What an agent has written says the same when it is read.
func TestRead(t *testing.T) {
	want := lived()
	slices.SortFunc(want.Locks, byName)
	records := map[string][]byte{"memory/clock": []byte("of others")}
	for _, c := range want.Changes() {
		records[c.Key] = c.Data
	}
	got, err := Read(records)
	if err != nil || !reflect.DeepEqual(*got, want) {
		t.Errorf("read %+v, %v\nwant %+v", got, err, want)
	}
	if err := got.Check(); err == nil { // its names have every byte, and a lock may not
		t.Error("a name with a zero is good")
	}
	if none, err := Read(map[string][]byte{"memory/clock": nil}); none != nil || err != nil {
		t.Errorf("nothing is read as %+v, %v", none, err)
	}
}

// The first journals did not tell how many permits there were. That was the last number in the record of a hold.
func TestReadAFirstJournal(t *testing.T) {
	n := lived()
	records := make(map[string][]byte)
	for _, c := range n.Changes() {
		records[c.Key] = c.Data
	}
	held, asks := 0, 0
	for l := range n.Locks {
		for i := range n.Locks[l].Requests {
			r := &n.Locks[l].Requests[i]
			if r.Tenure == 0 {
				continue
			}
			held++
			key := RequestKey(n.Locks[l].Name, r.ID)
			var total encoder
			total.int(int64(r.Total))
			records[key] = bytes.TrimSuffix(records[key], total.b)
			r.Total = 0
		}
		for i := range n.Locks[l].Tenures {
			t := &n.Locks[l].Tenures[i]
			if !t.Asks {
				continue
			}
			asks++
			key := TenureKey(n.Locks[l].Name, t.Number)
			var arrived encoder
			arrived.int(int64(t.Arrived))
			records[key] = bytes.TrimSuffix(records[key], arrived.b)
			t.Arrived = 0
		}
	}
	got, err := Read(records)
	slices.SortFunc(n.Locks, byName)
	if err != nil || !reflect.DeepEqual(got, &n) || held == 0 || asks == 0 {
		t.Errorf("read %+v, %v, of %d holds and %d attempts", got, err, held, asks)
	}
}

// Each kind of record is named by one key, whatever the name of the lock is.
func TestKeysAreUnambiguous(t *testing.T) {
	seen := make(map[string]string)
	for _, name := range []lockagent.Name{
		"a", "a/floor", "a/tenure/5", "a/request/5", "a/tenure", "/", "", "floor", "tenure/5", "a/tenure/5/floor",
	} {
		for what, key := range map[string]string{
			floor: FloorKey(name), tenures: TenureKey(name, 5), requests: RequestKey(name, 5),
		} {
			of := fmt.Sprintf("%q %s", name, what)
			if other, twice := seen[key]; twice {
				t.Errorf("%q is the key of %s and of %s", key, of, other)
			}
			seen[key] = of
			gotName, gotWhat, number, ok := splitKey(key)
			if !ok || gotName != name || gotWhat != what || what != floor && number != 5 {
				t.Errorf("%q is split in %q, %q and %d", key, gotName, gotWhat, number)
			}
		}
	}
}

// A record that no agent has written is an error that names it.
func TestReadRefuses(t *testing.T) {
	for what, spoil := range map[string]func(map[string][]byte){
		"no agent":             func(r map[string][]byte) { delete(r, agentKey) },
		"a record that is cut": func(r map[string][]byte) { r[TenureKey("a/tenure/5", 5)] = []byte{1} },
		"a longer record":      func(r map[string][]byte) { r[FloorKey("/floor")] = append(r[FloorKey("/floor")], 0) },
		"another kind": func(r map[string][]byte) {
			r[FloorKey("a/tenure/5")] = FloorRecord("", lockagent.PlainLock, 1).Data
		},
		"no floor":       func(r map[string][]byte) { r[FloorKey("a")] = FloorRecord("a", lockagent.PlainLock, 0).Data },
		"an unknown key": func(r map[string][]byte) { r["lock/a/what/5"] = nil },
		"a bad number":   func(r map[string][]byte) { r["lock/a/tenure/-"] = nil },
		"no name":        func(r map[string][]byte) { r["lock/"] = nil },
	} {
		records, n := make(map[string][]byte), lived()
		for _, c := range n.Changes() {
			records[c.Key] = bytes.Clone(c.Data)
		}
		spoil(records)
		if got, err := Read(records); err == nil {
			t.Errorf("%s: read %+v", what, got)
		}
	}
}

// Whatever a record has, it is read or refused. What is read can be written and read again.
func FuzzRead(f *testing.F) {
	n := lived()
	for _, c := range n.Changes() {
		f.Add(c.Key, c.Data)
	}
	f.Add(FloorKey("a"), FloorRecord("a", lockagent.PlainLock, 0).Data)
	f.Fuzz(func(t *testing.T, key string, data []byte) {
		records := map[string][]byte{agentKey: n.Record().Data, key: data}
		got, err := Read(records)
		if err != nil {
			return
		}
		again := make(map[string][]byte)
		for _, c := range got.Changes() {
			again[c.Key] = c.Data
		}
		twice, err := Read(again)
		if err != nil || !reflect.DeepEqual(got, twice) {
			t.Errorf("%q %x: %+v\n%+v, %v", key, data, got, twice, err)
		}
		_ = got.Check()
	})
}

func TestCheck(t *testing.T) {
	good := func() Agent {
		held := func(id lockstate.RequestID) Request {
			of := lockstate.SavedRequest{Request: lockstate.Request{ID: id, Owner: "ann"}, Tenure: 5, Token: 1}
			return Request{SavedRequest: of}
		}
		return Agent{Stay: Stay{ID: "agent", Last: 7}, Locks: []Lock{
			{Name: "a", Kind: lockagent.PlainLock, Floor: 3},
			{
				Name: "b", Kind: lockagent.PlainLock, Tenures: []lockstate.SavedTenure{{Number: 5}},
				Requests: []Request{held(4), held(6)},
			},
		}}
	}
	if n := good(); n.Check() != nil {
		t.Fatal(n.Check())
	}
	for name, spoil := range map[string]func(*Agent){
		"agent":               func(n *Agent) { n.ID = "" },
		"last number":         func(n *Agent) { n.Last = lockagent.MaxTenure + 1 },
		"numbers":             func(n *Agent) { n.First = n.Last + 1 },
		"one lock twice":      func(n *Agent) { n.Locks[0].Name = "b" },
		"name":                func(n *Agent) { n.Locks[0].Name = "" },
		"kind":                func(n *Agent) { n.Locks[0].Kind = "door" },
		"a latch":             func(n *Agent) { n.Locks[1].Kind = lockagent.Latch },
		"tenure to come":      func(n *Agent) { n.Locks[1].Tenures[0].Number = 8 },
		"grants of no tenure": func(n *Agent) { n.Locks[1].Tenures[0].Number = 4 },
		"tenure without one":  func(n *Agent) { n.Locks[1].Tenures[0].Number = 0 },
		"holds in an attempt": func(n *Agent) { n.Locks[1].Tenures[0].Asks = true },
		"mode of a tenure":    func(n *Agent) { n.Locks[1].Tenures[0].Mode = 2 },
		"one tenure twice": func(n *Agent) {
			n.Locks[1].Tenures = append(n.Locks[1].Tenures, lockstate.SavedTenure{Number: 5})
		},
		"one part twice": func(n *Agent) {
			n.Locks[1].Tenures[0].Part = 3
			n.Locks[1].Tenures = append(n.Locks[1].Tenures, lockstate.SavedTenure{Number: 6, Part: 3})
		},
		"owner":               func(n *Agent) { n.Locks[1].Requests[0].Owner = "" },
		"lease":               func(n *Agent) { n.Locks[1].Requests[0].Lease = 1 },
		"end without a lease": func(n *Agent) { n.Locks[1].Requests[0].Fixed = 1 },
		"no request":          func(n *Agent) { n.Locks[1].Requests[0].ID = 0 },
		"request to come":     func(n *Agent) { n.Locks[1].Requests[0].ID = 8 },
		"one request twice":   func(n *Agent) { n.Locks[1].Requests[0].ID = 6 },
		"no token":            func(n *Agent) { n.Locks[1].Requests[0].Token = 0 },
		"no tenure":           func(n *Agent) { n.Locks[1].Requests[0].Tenure = 0 },
		"mode of a request":   func(n *Agent) { n.Locks[1].Requests[0].Mode = 2 },
	} {
		n := good()
		if spoil(&n); n.Check() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
