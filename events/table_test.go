package events

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events/internal/eventstest"
	"github.com/lockagent/lockagent/events/internal/wire"
)

// typicalHolds returns records that make one table.
func typicalHolds(n int) []Record {
	holds := make([]Record, n)
	for i := range holds {
		r := typicalRecord(uint64(i) + 9)
		r.Time = r.Time.Add(time.Duration(i) * 400 * time.Millisecond)
		r.Owner = lockagent.Owner(fmt.Sprint("worker-", i))
		r.Token += lockagent.Token(i)
		r.StoreTime += lockagent.StoreTime(i)
		r.Confirmed = r.StoreTime
		r.Until, r.Returned = r.StoreTime+100, r.StoreTime+lockagent.StoreTime(i)*90
		holds[i] = r
	}
	return holds
}

// decodeBatch decodes a batch with a decoder of its own.
func decodeBatch(text []byte) ([]Record, error) {
	return newDecoder().batch(nil, BatchContentType, text)
}

func TestTable(t *testing.T) {
	holds := typicalHolds(2)
	holds[1].How, holds[1].Time = lockagent.ByStore, holds[0].Time.Add(time.Hour)
	holds[0].Replicas, holds[1].Replicas = 2, 2
	const want = `[{"specversion":"1.0","id":"3:9","source":"/lockagent/agent/3f0c1a52-7b6e-4d7f-9a38-5a1d6f0e2b91",` +
		`"type":"io.lockagent.lock.holds.v1","subject":"billing/invoices/42","time":"2026-11-21T02:03:04.000005Z",` +
		`"data":{"store":"5a6d2f0e-0c55-4b8e-8f6c-0d5d1a7c2b11","lock":"billing/invoices/42","kind":"plain",` +
		`"mode":"exclusive","count":0,"replicas":2,` +
		`"lease_us":10000000,"incarnation":"3f0c1a527b6e4d7f9a385a1d6f0e2b913f0c1a52",` +
		`"columns":["time","owner","request","tenure","token","how","waited_us","held_us","store_time_us","until_us",` +
		`"returned_us"],"rows":[` +
		`["2026-11-21T02:03:04.000005Z","worker-0",9,12,1795000000000019,"handoff",150,1600,1795000000000019,` +
		`1795000000000119,1795000000000019],` +
		`["2026-11-21T03:03:04.000005Z","worker-1",10,12,1795000000000020,"store",150,1600,1795000000000020,` +
		`1795000000000120,1795000000000110]]}}]`
	text := AppendBatch(nil, holds)
	if string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
	if got, err := decodeBatch(text); err != nil || !slices.Equal(got, holds) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, holds)
	}
}

// TestTableIsShort: that is what it is for.
func TestTableIsShort(t *testing.T) {
	holds := typicalHolds(100)
	if table, all := len(AppendBatch(nil, holds)), len(batchOf(holds)); table*3 > all {
		t.Errorf("a table takes %d bytes, its holds take %d", table, all)
	}
}

// TestNoTable changes one thing about the second of three holds: only what a row can say is in a table.
func TestNoTable(t *testing.T) {
	for name, change := range map[string]struct {
		change func(*Record)
		tables int
	}{
		"Nothing":     {func(*Record) {}, 1},
		"Owner":       {func(r *Record) { r.Owner = "" }, 1},
		"Texts":       {func(r *Record) { r.Owner = lockagent.Owner(strings.Repeat("x", 800)) }, 1},
		"LongTexts":   {func(r *Record) { r.Owner = lockagent.Owner(strings.Repeat("x", wire.MaxText)) }, 0},
		"Request":     {func(r *Record) { r.Request = 0 }, 1},
		"How":         {func(r *Record) { r.How = 0 }, 1},
		"Negative":    {func(r *Record) { r.Held = -time.Hour }, 1},
		"Returned":    {func(r *Record) { r.Returned = 0 }, 1},
		"Kind":        {func(r *Record) { r.Kind = lockagent.EventReleased }, 0},
		"Lock":        {func(r *Record) { r.Lock = "other" }, 0},
		"LockKind":    {func(r *Record) { r.LockKind = "fair" }, 0},
		"Mode":        {func(r *Record) { r.Mode = lockagent.Shared }, 0},
		"Store":       {func(r *Record) { r.Store = "" }, 0},
		"Replicas":    {func(r *Record) { r.Replicas = 1 }, 0},
		"Holds":       {func(r *Record) { r.Holds = 2 }, 0},
		"Incarnation": {func(r *Record) { r.Incarnation = "other" }, 0},
		"Lease":       {func(r *Record) { r.Lease++ }, 0},
		"Fixed":       {func(r *Record) { r.Fixed = true }, 0},
		"Renewed":     {func(r *Record) { r.Confirmed++ }, 0},
		"Count":       {func(r *Record) { r.Count = 1 }, 0},
		"Reason":      {func(r *Record) { r.Reason = lockagent.LostDenied }, 0},
		"Error":       {func(r *Record) { r.Err = "x" }, 0},
		"Traced": {
			func(r *Record) { r.TraceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" }, 0,
		},
		"NoTime":  {func(r *Record) { r.Time = time.Time{} }, 0},
		"Agent":   {func(r *Record) { r.Agent = "other" }, 0},
		"Epoch":   {func(r *Record) { r.Epoch = 4 }, 0},
		"Gap":     {func(r *Record) { r.Seq = 99 }, 0},
		"Follows": {func(r *Record) { r.Follows = Place{1, 2} }, 0},
		"Dropped": {func(r *Record) { r.Dropped[1] = 2 }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			holds := typicalHolds(3)
			change.change(&holds[1])
			text := AppendBatch(nil, holds)
			if tables := strings.Count(string(text), wire.TableType); tables != change.tables {
				t.Errorf("there are %d tables in %s", tables, text)
			}
			if change.tables == 0 {
				checkBatch(t, text, batchOf(holds))
			}
			want, err := decodeBatch(batchOf(holds)) // which cuts the lease to microseconds
			if got, err2 := decodeBatch(text); err != nil || err2 != nil || !slices.EqualFunc(got, want, equal) {
				t.Errorf("got  %+v, %v\nwant %+v, %v", got, err2, want, err)
			}
		})
	}
	later, err := Decode(
		[]byte(strings.Replace(string(Append(nil, typicalHolds(2)[1])), `"data":{`, `"data":{"colour":"red",`, 1)),
	)
	if err != nil {
		t.Fatal(err)
	}
	holds := []Record{typicalHolds(1)[0], later}
	checkBatch(t, AppendBatch(nil, holds), batchOf(holds))
}

func checkBatch(t *testing.T, got, want []byte) {
	t.Helper()
	if string(got) != string(want) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// drawHold draws a hold of one lock, which is mostly like others.
func drawHold(t *rapid.T) Record {
	us := func(name string) time.Duration {
		return time.Duration(rapid.Int64Range(-9e15, 9e15).Draw(t, name)) * time.Microsecond
	}
	at := func(name string) lockagent.StoreTime { return lockagent.StoreTime(rapid.Int64().Draw(t, name)) }
	r := typicalRecord(1)
	r.Time = time.UnixMicro(rapid.Int64Range(-62167219200e6, 253402300799e6).Draw(t, "time")).UTC()
	r.Owner = lockagent.Owner(rapid.String().Draw(t, "owner"))
	r.Request, r.Tenure = rapid.Uint64().Draw(t, "request"), rapid.Uint64().Draw(t, "tenure")
	r.Token = lockagent.Token(rapid.Uint64Range(0, uint64(lockagent.MaxToken)).Draw(t, "token"))
	r.How = rapid.SampledFrom([]lockagent.How{0, lockagent.ByStore, lockagent.ByHandOff, lockagent.ByRest}).
		Draw(t, "how")
	r.Waited, r.Held = us("waited"), us("held")
	r.StoreTime, r.Until, r.Returned = at("store time"), at("until"), at("returned")
	r.Confirmed = r.StoreTime
	switch rapid.IntRange(0, 9).Draw(t, "another") {
	case 0:
		r.Fixed = true
	case 1:
		r.Confirmed = at("confirmed")
		r.imply()
	case 2:
		r.Kind = lockagent.EventGranted
	}
	return r
}

func FuzzTable(f *testing.F) {
	table := AppendBatch(nil, typicalHolds(2))
	f.Add(table[1 : len(table)-1])
	f.Add(
		[]byte(
			`{"data":{"rows":[["red",1]],"columns":["colour","count"]},"specversion":"1.0","id":"1:1",` +
				`"source":"/lockagent/agent/a","type":"io.lockagent.lock.holds.v1"}`,
		),
	)
	f.Fuzz(func(t *testing.T, text []byte) {
		records, err := newDecoder().batch(nil, ContentType, text)
		if err != nil && len(records) > 0 {
			t.Fatalf("%q: records beside %v", text, err)
		}
		for _, r := range records {
			line := Append(nil, r)
			if again, err := Decode(line); err != nil || !again.Equal(&r) {
				t.Errorf("%q has the record %+v\nas a line %s\nit is %+v, %v", text, r, line, again, err)
			}
		}
	})
}

// manyRows is a batch with a table of n rows without columns.
func manyRows(n int) []byte {
	return []byte(`[{"specversion":"1.0","id":"1:1","source":"/lockagent/agent/a",` +
		`"type":"io.lockagent.lock.holds.v1","colour":"red",` +
		`"data":{"lock":"a","kind":"plain","mode":"exclusive","owner":"w","request":1,"tenure":1,"token":1,` +
		`"how":"store","count":0,"columns":[],"rows":[` +
		strings.Repeat("[],", n-1) + `[]]}}]`)
}

// TestManyRows: a small text does not make many records, which may each have all of it as Raw.
func TestManyRows(t *testing.T) {
	if got, err := decodeBatch(manyRows(wire.MaxRecords)); err != nil || len(got) != wire.MaxRecords {
		t.Errorf("got %d records, %v", len(got), err)
	}
	if got, err := decodeBatch(manyRows(wire.MaxRecords + 1)); err == nil ||
		!strings.Contains(err.Error(), "more than 256 rows") || len(got) > 0 {
		t.Errorf("got %d records, %v", len(got), err)
	}
	common := AppendBatch(nil, typicalHolds(wire.MaxRecords+1))
	if _, err := decodeBatch(common); err == nil || !strings.Contains(err.Error(), "more than 256 rows") {
		t.Errorf("of an agent: %v", err)
	}
	var seen []error
	text := strings.NewReader(string(AppendBatch(nil, typicalHolds(3))[1:]))
	err := ReadLines(text, func(_ *Record, err error) error {
		seen = append(seen, err)
		return nil
	})
	if err != nil || len(seen) != 1 || seen[0] == nil ||
		!strings.Contains(seen[0].Error(), "a table of several holds") {
		t.Errorf("as a line: %v, %v", seen, err)
	}
}

// TestTextBehind: what stands behind an event is an error, and then the event does not count.
func TestTextBehind(t *testing.T) {
	table := AppendBatch(nil, typicalHolds(2))
	for _, text := range [][]byte{Append(nil, typicalRecord(9)), table[1 : len(table)-1]} {
		got, err := newDecoder().batch(nil, ContentType, append(slices.Clone(text), "xyz"...))
		if err == nil || len(got) > 0 {
			t.Errorf("got %d records, %v", len(got), err)
		}
	}
}

// TestTableOfLaterVersion: each row passes on what is unknown.
func TestTableOfLaterVersion(t *testing.T) {
	holds := typicalHolds(2)
	table := string(AppendBatch(nil, holds))
	for name, change := range map[string][2]string{
		"Attribute":     {`"data":{`, `"colour":"red","data":{`},
		"Field":         {`"columns"`, `"colour":{"red":[1]},"columns"`},
		"NewLine":       {`"columns"`, "\n\"colour\":\n1,\"columns\""},
		"How":           {`"how",`, `"how",`},
		"FieldBehind":   {`]]}}`, `]],"colour":7}}`},
		"IDBehind":      {`"id":"3:9",`, ``},
		"Sequence":      {`"data":{`, `"colour":"red","sequence":"3-9","data":{`},
		"SequenceFirst": {`{"specversion"`, `{"sequence":"3-9","colour":"red","specversion"`},
		"Number":        {`"columns":["time"`, `"columns":["colour","time"`},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(table, change[0], change[1], 1)
			switch name {
			case "Number":
				for _, value := range []string{`{"a":[1]}`, `-1.5e7`} {
					text = strings.Replace(text, `["2026-`, `[`+value+`,"2026-`, 1)
				}
			case "How":
				text = strings.ReplaceAll(text, `"handoff"`, `"magic"`)
			case "IDBehind":
				text = strings.Replace(text, `]]}}`, `]]},"id":"3:9","colour":"red"}`, 1)
			}
			got, err := decodeBatch([]byte(text))
			if err != nil || len(got) != 2 {
				t.Fatalf("got %+v, %v", got, err)
			}
			for i, r := range got {
				if r.Raw == "" || strings.Contains(r.Raw, "\n") {
					t.Errorf("row %d has Raw %q", i, r.Raw)
				}
				again, err := Decode(Append(nil, r))
				if err != nil || !again.Equal(&r) {
					t.Errorf("row %d becomes %+v, %v\nand was %+v", i, again, err, r)
				}
				r.Raw = ""
				want := holds[i]
				if name == "How" {
					want.How = 0
				}
				if r != want {
					t.Errorf("got  %+v\nwant %+v", r, want)
				}
			}
		})
	}
	// A column is known, or each value of it is passed on.
	text := strings.Replace(table, `"columns":["time",`, `"columns":["colour",`, 1)
	got, err := decodeBatch([]byte(text))
	if err != nil || len(got) != 2 || !strings.Contains(got[1].Raw, `"2026-11-21T02:03:04.400005Z"`) ||
		strings.Contains(got[1].Raw, "worker-0") ||
		!strings.Contains(got[1].Raw, `"id":"3:10"`) || got[1].Time != holds[0].Time {
		t.Errorf("got %+v, %v", got, err)
	}
	// Only one of the rows has something unknown.
	if got, err := decodeBatch([]byte(strings.Replace(table, `"handoff"`, `"magic"`, 1))); err != nil ||
		got[0].Raw == "" || got[1] != holds[1] {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestBadTables(t *testing.T) {
	table := string(AppendBatch(nil, typicalHolds(2)))
	for name, c := range map[string][3]string{
		"NoColumns":      {`"columns"`, `"colums"`, "no columns or no rows"},
		"NoRows":         {`"rows"`, `"row"`, "no columns or no rows"},
		"NullRows":       {`"rows":[`, `"rows":null,"colour":[`, "no columns or no rows"},
		"EmptyRows":      {`"rows":[`, `"rows":[],"colour":[`, "a table has no rows"},
		"Columns":        {`"columns":[`, `"columns":7,"colour":[`, "a list of columns is wanted"},
		"Rows":           {`"rows":[`, `"rows":7,"colour":[`, "a list of rows is wanted"},
		"Row":            {`"rows":[`, `"rows":[7,`, "a row is wanted"},
		"RowsTwice":      {`"rows":[`, `"rows":[],"rows":[`, `duplicate object member name "rows"`},
		"ColumnTwice":    {`["time","owner"`, `["owner","owner"`, `the column "owner" comes twice`},
		"TimeTwice":      {`["time","owner"`, `["time","time"`, `the column "time" comes twice`},
		"FieldAndColumn": {`"count":0`, `"count":0,"owner":"w"`, `the column "owner" comes twice`},
		"Store":          {`["time"`, `["store"`, `"store" cannot be a column`},
		"Reset":          {`["time"`, `["reset"`, `"reset" cannot be a column`},
		"RowsAsColumn":   {`["time"`, `["rows"`, `"rows" cannot be a column`},
		"ColumnNoText":   {`["time"`, `[7`, "a string is wanted"},
		"Short":          {`,150,1600,1795000000000019,`, `,150,1600,`, "the row has 10 values instead of 11"},
		"Long": {
			`,150,1600,1795000000000019,`, `,150,1600,1,1795000000000019,`, "the row has more than 11 values",
		},
		"Time":          {`["2026-11-21T`, `["2026-13-21T`, `time "2026-13-21T`},
		"AttributeTime": {`"time":"2026-11-21T`, `"time":"2026-13-21T`, `time "2026-13-21T`},
		"NoCount":       {`"count":0,`, ``, "no count"},
		"NullCount":     {`"count":0,`, `"count":null,`, "no count"},
		"Sequence":      {`"3:9"`, `"3:9999999999999999"`, "the number of row 2 is out of range"},
		"NoSequence":    {`"3:9"`, `"3:0"`, "is not <epoch>:<sequence>"},
		"BadSequence":   {`"data":{`, `"sequence":"garbage","data":{`, `sequence is "garbage"`},
		"NullColumns":   {`"columns":[`, `"columns":null,"colour":[`, "no columns or no rows"},
		"UnknownTwice":  {`["time","owner"`, `["colour","colour"`, `the column "colour" comes twice`},
		"OwnerFirst":    {`"count":0`, `"owner":"w","count":0`, `the column "owner" comes twice`},
		"RequestFirst":  {`"count":0`, `"request":7,"count":0`, `the column "request" comes twice`},
		"TenureFirst":   {`"count":0`, `"tenure":7,"count":0`, `the column "tenure" comes twice`},
		"TokenFirst":    {`"count":0`, `"token":7,"count":0`, `the column "token" comes twice`},
		"HowFirst":      {`"count":0`, `"how":"store","count":0`, `the column "how" comes twice`},
		"WaitedFirst":   {`"lease_us"`, `"waited_us":7,"lease_us"`, `the column "waited_us" comes twice`},
		"HeldFirst":     {`"lease_us"`, `"held_us":7,"lease_us"`, `the column "held_us" comes twice`},
		"StoreTimeFirst": {
			`"incarnation"`, `"store_time_us":7,"incarnation"`, `the column "store_time_us" comes twice`,
		},
		"UntilFirst":    {`"incarnation"`, `"until_us":7,"incarnation"`, `the column "until_us" comes twice`},
		"ReturnedFirst": {`"incarnation"`, `"returned_us":7,"incarnation"`, `the column "returned_us" comes twice`},
		"Subject":       {`"subject":"billing`, `"subject":"shipping`, "is not the lock"},
		"Token":         {`,1795000000000020,`, `,-1795000000000020,`, "out of range"},
		"Owner":         {`"worker-1"`, `8`, "a string is wanted"},
		"Unfinished":    {`]]}}]`, ``, "unexpected EOF"},
	} {
		text := strings.Replace(table, c[0], c[1], 1)
		if text == table {
			t.Fatalf("%s: %q is not in %s", name, c[0], table)
		}
		got, err := decodeBatch([]byte(text))
		if err == nil || !strings.Contains(err.Error(), c[2]) ||
			!strings.HasPrefix(err.Error(), "event 1 of the batch: events: decode: ") || len(got) > 0 {
			t.Errorf("%s: got %d records, %v", name, len(got), err)
		}
	}
	one := table[1 : len(table)-1]
	if r, err := Decode([]byte(one)); err == nil || !strings.Contains(err.Error(), "a table of several holds") ||
		r != (Record{}) {
		t.Errorf("Decode: got %+v, %v", r, err)
	}
}

// TestTableOfOneRow: no agent writes one, but Raw of a later version is one.
func TestTableOfOneRow(t *testing.T) {
	want := typicalHolds(1)[0]
	text := `{"specversion":"1.0","id":"3:9","source":"/lockagent/agent/` + string(eventstest.Agent) + `",` +
		`"type":"io.lockagent.lock.holds.v1","time":"2026-11-21T02:03:04.000005Z",` +
		`"data":{"store":"` + want.Store + `","lock":"billing/invoices/42","kind":"plain","mode":"exclusive",` +
		`"lease_us":10000000,"incarnation":"` + want.Incarnation + `",` +
		`"columns":["count","owner","request","tenure","token","how","waited_us","held_us","store_time_us",` +
		`"until_us","returned_us"],"rows":[` +
		`[0,"worker-0",9,12,1795000000000019,"handoff",150,1600,1795000000000019,1795000000000119,null]]}}`
	want.Returned = 0
	if got, err := Decode([]byte(text)); err != nil || !got.Equal(&want) {
		t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
	}
	if _, err := Decode([]byte(strings.Replace(text, `[0,"worker`, `[null,"worker`, 1))); err == nil ||
		!strings.Contains(err.Error(), "no count") {
		t.Errorf("without a count: %v", err)
	}
}

// TestTables writes random holds of one lock, and reads them back.
func TestTables(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.Custom(drawHold), 1, 20).Draw(t, "holds")
		for i := range want {
			want[i].Seq = uint64(i) + 5
		}
		text := AppendBatch(nil, want)
		if got, err := decodeBatch(text); err != nil || !slices.EqualFunc(got, want, equal) {
			t.Fatalf("%s\ngot  %+v, %v\nwant %+v", text, got, err, want)
		}
		// As another program would write it: the fields in the order of the alphabet, with blanks.
		var any []map[string]any
		d := json.NewDecoder(strings.NewReader(string(text)))
		d.UseNumber()
		if err := d.Decode(&any); err != nil {
			t.Fatal(err)
		}
		other, err := json.MarshalIndent(any, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := decodeBatch(other); err != nil || !slices.EqualFunc(got, want, equal) {
			t.Fatalf("%s\ngot  %+v, %v\nwant %+v", other, got, err, want)
		}
	})
}
