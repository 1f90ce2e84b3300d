package wire

import (
	"strconv"
	"time"
	"unicode"

	"github.com/lockagent/lockagent"
)

const (
	SpecVersion = "1.0"
	SourceRoot  = "/lockagent/agent/"
)

// TypeOf is the CloudEvents type of each kind.
var TypeOf = func() []string {
	kinds := lockagent.EventKinds()
	types := make([]string, len(kinds)+1)
	for _, k := range kinds {
		types[k] = TypeRoot + "lock." + k.String() + TypeVersion
	}
	for k, name := range map[lockagent.EventKind]string{
		lockagent.EventStoreReset:   "store.reset",
		lockagent.EventGraceBegan:   "store.gracebegan",
		lockagent.EventGraceEnded:   "store.graceended",
		lockagent.EventAgentStarted: "agent.started",
		lockagent.EventAgentStopped: "agent.stopped",
		lockagent.EventAlive:        "agent.alive",
		lockagent.EventDropped:      "agent.dropped",
	} {
		types[k] = TypeRoot + name + TypeVersion
	}
	return types
}()

const (
	TypeRoot    = "io.lockagent."
	TypeVersion = ".v1"
)

// Added is what a record has beside its event.
type Added struct {
	Epoch, Seq               uint64
	FollowsEpoch, FollowsSeq uint64         // the record that it follows, or 0
	Dropped                  *[Drops]uint32 // by kind, or nil
}

// Drops is of how many kinds a record can say how many events were dropped.
const Drops = 32

// Before says where in a batch the record before has what the next one is likely to have as
// well. To copy that is several times as fast as to encode it again.
type Before struct {
	head  section // from the source to the seconds of the time
	names section // from the store to the mode
	who   section // all of it
	of    lockagent.Who

	kind     lockagent.EventKind
	second   int64 // of the time
	store    string
	lock     lockagent.Name
	lockKind lockagent.LockKind
	mode     lockagent.Mode
}

// section is a part of a text. One that ends at 0 is none.
type section struct{ from, to int }

// AppendRecord appends a record to the records of a batch, which are all of one agent.
func AppendRecord(b []byte, e *lockagent.Event, with Added, last *Before) []byte {
	b = append(b, `{"specversion":"`+SpecVersion+`","id":"`...)
	b = AppendID(b, with.Epoch, with.Seq)
	start, second, timed := len(b), e.Time.Unix(), encodable(e.Time)
	if head := last.head; timed && head.to > 0 && last.lock == e.Lock && last.kind == e.Kind && last.second == second {
		b = append(b, b[head.from:head.to]...)
	} else {
		b = appendHead(b, e, TypeOf[e.Kind], timed)
	}
	last.head = section{}
	if timed {
		last.head = section{start, len(b)}
		b = append(appendPadded(b, uint64(e.Time.Nanosecond()/1000), 6), 'Z', '"')
	}
	b = appendText(b, `,"traceparent":`, e.TraceParent)
	b = AppendData(append(b, `,"data":`...), e, with, last)
	last.kind, last.second, last.store = e.Kind, second, e.Store
	last.lock, last.lockKind, last.mode = e.Lock, e.LockKind, e.Mode
	return append(b, '}')
}

// AppendData appends what the envelope has no place for.
func AppendData(b []byte, e *lockagent.Event, with Added, last *Before) []byte {
	start := len(b)
	if names := last.names; names.to > 0 && last.lock == e.Lock && last.store == e.Store && last.lockKind == e.LockKind &&
		last.mode == e.Mode {
		b = append(b, b[names.from:names.to]...)
	} else {
		b = appendNames(b, e)
	}
	last.names = section{start, len(b)}
	b = appendRest(b, e, last)
	b = appendFollows(b, with.FollowsEpoch, with.FollowsSeq)
	if with.Dropped != nil {
		b = appendDropped(b, with.Dropped)
	}
	return closeObject(b, start)
}

// appendHead appends what the envelope has after the id, up to the seconds of the time.
func appendHead(b []byte, e *lockagent.Event, kind string, timed bool) []byte {
	b = append(b, `","source":"`+SourceRoot...)
	b = append(b, e.Agent...)
	b = append(b, `","type":"`...)
	b = append(b, kind...)
	b = append(b, '"')
	if Attribute(string(e.Lock)) {
		b = appendText(b, `,"subject":`, string(e.Lock))
	}
	if timed {
		b = appendSeconds(append(b, `,"time":"`...), e.Time)
	}
	return b
}

// AppendID appends the id of a record, which tells it from all others of the same source.
func AppendID(b []byte, epoch, seq uint64) []byte {
	b = append(appendNumber(b, epoch), ':')
	return appendNumber(b, seq)
}

// Attribute reports whether CloudEvents allows s as the value of an attribute: it
// must not have control characters or what Unicode calls noncharacters, and some
// implementations refuse blanks.
func Attribute(s string) bool {
	blank := true
	for _, c := range s {
		if ' ' < c && c < 0x7f {
			blank = false
			continue
		}
		if unicode.IsControl(c) || 0xfdd0 <= c && c <= 0xfdef || c&0xfffe == 0xfffe {
			return false
		}
		blank = blank && unicode.IsSpace(c)
	}
	return !blank
}

// Counted reports whether the data of a record of kind k always has a count. A proof cannot
// rest on a number that is perhaps missing.
func Counted(k lockagent.EventKind) bool {
	return k == lockagent.EventGranted || k == lockagent.EventReentered || k == lockagent.EventHolding || k.EndsHold()
}

// appendNames appends the first fields, each with a comma in front.
func appendNames(b []byte, e *lockagent.Event) []byte {
	b = appendText(b, `,"store":`, e.Store)
	b = appendText(b, `,"lock":`, string(e.Lock))
	b = appendText(b, `,"kind":`, string(e.LockKind))
	return appendText(b, `,"mode":`, string(e.Mode))
}

// appendRest appends the other fields.
func appendRest(b []byte, e *lockagent.Event, last *Before) []byte {
	b = appendText(b, `,"owner":`, string(e.Owner))
	b = appendUint(b, `,"request":`, e.Request)
	b = appendUint(b, `,"tenure":`, e.Tenure)
	b = appendUint(b, `,"token":`, uint64(e.Token))
	b = appendText(b, `,"how":`, e.How.String())
	if e.Count == 0 && Counted(e.Kind) {
		b = append(b, `,"count":0`...)
	}
	b = appendInt(b, `,"count":`, int64(e.Count))
	if e.Sum != 0 {
		b = append(appendHex(append(b, `,"sum":"`...), e.Sum), '"')
	}
	b = appendInt(b, `,"permits":`, int64(e.Permits))
	b = appendInt(b, `,"total":`, int64(e.Total))
	b = appendText(b, `,"op":`, string(e.Op))
	b = appendText(b, `,"permit":`, string(e.Permit))
	b = appendInt(b, `,"replicas":`, int64(e.Replicas))
	b = appendInt(b, `,"holds":`, int64(e.Holds))
	b = appendInt(b, `,"waiters":`, int64(e.Waiters))
	b = appendText(b, `,"holder":`, e.Holder)
	b = appendDuration(b, `,"waited_us":`, e.Waited)
	b = appendDuration(b, `,"held_us":`, e.Held)
	b = appendDuration(b, `,"lease_us":`, e.Lease)
	b = appendDuration(b, `,"remaining_us":`, e.Remaining)
	if e.Fixed {
		b = append(b, `,"fixed":true`...)
	}
	b = appendInt(b, `,"store_time_us":`, int64(e.StoreTime))
	if e.Kind != lockagent.EventHeld || e.Confirmed != e.StoreTime {
		b = appendInt(b, `,"confirmed_us":`, int64(e.Confirmed))
	}
	b = appendInt(b, `,"until_us":`, int64(e.Until))
	b = appendInt(b, `,"returned_us":`, int64(e.Returned))
	b = appendText(b, `,"incarnation":`, e.Incarnation)
	b = appendText(b, `,"reason":`, e.Reason.String())
	b = appendText(b, `,"operator":`, e.Operator)
	b = appendText(b, `,"error":`, e.Err)
	b = appendReset(b, &e.Reset)
	b = appendGrace(b, e.Grace)
	if e.Process != (lockagent.Process{}) {
		b = appendProcess(b, `,"process":`, &e.Process)
	}
	return appendWho(b, e.Who, last)
}

func appendReset(b []byte, r *lockagent.Reset) []byte {
	if *r == (lockagent.Reset{}) {
		return b
	}
	b = append(b, `,"reset":`...)
	start := len(b)
	b = appendText(b, `,"from":`, r.From)
	b = appendText(b, `,"to":`, r.To)
	b = appendText(b, `,"reason":`, r.Reason)
	b = appendInt(b, `,"after_us":`, int64(r.After))
	b = appendInt(b, `,"before_us":`, int64(r.Before))
	b = appendDuration(b, `,"step_us":`, r.Step)
	b = appendText(b, `,"store":`, r.Store)
	return closeObject(b, start)
}

func appendGrace(b []byte, g *lockagent.GracePeriod) []byte {
	if g == nil {
		return b
	}
	b = append(b, `,"grace":`...)
	start := len(b)
	b = appendText(b, `,"incarnation":`, g.Incarnation)
	b = appendText(b, `,"reason":`, g.Reason)
	b = appendInt(b, `,"began_us":`, int64(g.Began))
	b = appendInt(b, `,"ended_us":`, int64(g.Ended))
	for i, agent := range g.Roll {
		b = append(b, rollSeparator[min(i, 1)]...)
		b = appendString(b, string(agent))
	}
	if len(g.Roll) > 0 {
		b = append(b, ']')
	}
	b = appendInt(b, `,"more":`, int64(g.More))
	return closeObject(b, start)
}

// rollSeparator stands before the first agent of a roll, and before each other one.
var rollSeparator = [...]string{`,"roll":[`, `,`}

func appendProcess(b []byte, key string, p *lockagent.Process) []byte {
	b = append(b, key...)
	start := len(b)
	b = appendText(b, `,"host":`, p.Host)
	b = appendText(b, `,"program":`, p.Program)
	b = appendText(b, `,"version":`, p.Version)
	b = appendInt(b, `,"pid":`, int64(p.PID))
	b = appendText(b, `,"user":`, p.User)
	b = appendText(b, `,"command":`, p.Command)
	return closeObject(b, start)
}

func appendFollows(b []byte, epoch, seq uint64) []byte {
	if epoch == 0 && seq == 0 {
		return b
	}
	b = append(b, `,"follows":`...)
	start := len(b)
	b = appendUint(b, `,"epoch":`, epoch)
	b = appendUint(b, `,"seq":`, seq)
	return closeObject(b, start)
}

func appendDropped(b []byte, d *[Drops]uint32) []byte {
	if *d == ([Drops]uint32{}) {
		return b
	}
	b = append(b, `,"dropped":`...)
	start := len(b)
	for i, key := range dropKeys {
		b = appendUint(b, key, uint64(d[i+1]))
	}
	return closeObject(b, start)
}

// dropKeys has the key of each kind, from the first.
var dropKeys = func() (keys []string) {
	for _, k := range lockagent.EventKinds() {
		keys = append(keys, `,"`+k.String()+`":`)
	}
	return keys
}()

// closeObject makes an object of the fields that were appended from start on,
// each with a comma in front.
func closeObject(b []byte, start int) []byte {
	if len(b) == start {
		b = append(b, '{')
	}
	b[start] = '{'
	return append(b, '}')
}

func appendUint(b []byte, key string, n uint64) []byte {
	if n == 0 {
		return b
	}
	return appendNumber(append(b, key...), n)
}

// appendHex appends 16 hexadecimal digits. As a number of JSON many programs would round it.
func appendHex(b []byte, n uint64) []byte {
	const digits = "0123456789abcdef"
	for shift := 60; shift >= 0; shift -= 4 {
		b = append(b, digits[n>>shift&15])
	}
	return b
}

func appendInt(b []byte, key string, n int64) []byte {
	if n == 0 {
		return b
	}
	return appendSigned(append(b, key...), n)
}

func appendSigned(b []byte, n int64) []byte {
	if n < 0 {
		return strconv.AppendInt(b, n, 10)
	}
	return appendNumber(b, uint64(n))
}

func appendDuration(b []byte, key string, d time.Duration) []byte {
	return appendInt(b, key, d.Microseconds())
}

// The first and the last second of the years that have four digits, since 1970.
const (
	firstSecond = -62167219200
	LastSecond  = 253402300799
)

// encodable reports whether the text of a record has the time t.
func encodable(t time.Time) bool {
	second := t.Unix()
	return !t.IsZero() && firstSecond <= second && second <= LastSecond
}

// appendSeconds appends t in UTC up to the point behind the seconds. It is several times as fast
// as Time.AppendFormat. Microseconds, the resolution of a store's clock, follow.
func appendSeconds(b []byte, t time.Time) []byte {
	t = t.UTC()
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	b = appendPadded(b, uint64(year), 4)
	b = appendPart(b, '-', int(month))
	b = appendPart(b, '-', day)
	b = appendPart(b, 'T', hour)
	b = appendPart(b, ':', minute)
	b = appendPart(b, ':', second)
	return append(b, '.')
}

// appendPart appends a separator and two digits.
func appendPart(b []byte, separator byte, n int) []byte {
	return append(b, separator, byte('0'+n/10), byte('0'+n%10))
}
