package events

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events/internal/wire"
)

// The fields of the data, in the order in which Append writes them.
const (
	fieldStore = iota
	fieldLock
	fieldKind
	fieldMode
	fieldOwner
	fieldRequest
	fieldTenure
	fieldToken
	fieldHow
	fieldCount
	fieldSum
	fieldPermits
	fieldTotal
	fieldOp
	fieldPermit
	fieldReplicas
	fieldHolds
	fieldWaiters
	fieldHolder
	fieldWaited
	fieldHeld
	fieldLease
	fieldRemaining
	fieldFixed
	fieldStoreTime
	fieldConfirmed
	fieldUntil
	fieldReturned
	fieldIncarnation
	fieldReason
	fieldOperator
	fieldError
	fieldReset
	fieldGrace
	fieldProcess
	fieldWho
	fieldFollows
	fieldDropped
)

var fieldNames = newNames([]string{
	fieldStore:       "store",
	fieldLock:        "lock",
	fieldKind:        "kind",
	fieldMode:        "mode",
	fieldOwner:       "owner",
	fieldRequest:     "request",
	fieldTenure:      "tenure",
	fieldToken:       "token",
	fieldHow:         "how",
	fieldCount:       "count",
	fieldSum:         "sum",
	fieldPermits:     "permits",
	fieldTotal:       "total",
	fieldOp:          "op",
	fieldPermit:      "permit",
	fieldReplicas:    "replicas",
	fieldHolds:       "holds",
	fieldWaiters:     "waiters",
	fieldHolder:      "holder",
	fieldWaited:      "waited_us",
	fieldHeld:        "held_us",
	fieldLease:       "lease_us",
	fieldRemaining:   "remaining_us",
	fieldFixed:       "fixed",
	fieldStoreTime:   "store_time_us",
	fieldConfirmed:   "confirmed_us",
	fieldUntil:       "until_us",
	fieldReturned:    "returned_us",
	fieldIncarnation: "incarnation",
	fieldReason:      "reason",
	fieldOperator:    "operator",
	fieldError:       "error",
	fieldReset:       "reset",
	fieldGrace:       "grace",
	fieldProcess:     "process",
	fieldWho:         "who",
	fieldFollows:     "follows",
	fieldDropped:     "dropped",
}...)

// data reads the data of an event whose Kind is known, or whose type is of this version.
func (d *decoder) data(r *Record, text []byte) error {
	t := &d.inside
	t.read(text)
	seen := !wire.Counted(r.Kind)
	t.open('{', "an object")
	for t.more() {
		if field, v, _ := d.member(t, fieldNames); field >= 0 {
			d.into(t, field, v, r)
			seen = seen || field == fieldCount
		}
	}
	if t.err == nil && !seen {
		return errors.New("a grant or an end has no count")
	}
	r.imply()
	return t.err
}

// into reads the value of a field, and says which field it is if the value is none for it.
func (d *decoder) into(t *tokens, field int, v jsontext.Value, r *Record) {
	if err := d.field(field, v, r); err != nil {
		t.fail("%s: %w", fieldNames.list[field], err)
	}
}

// field reads the value of a field.
func (d *decoder) field(field int, v jsontext.Value, r *Record) error {
	switch field {
	case fieldStore:
		return d.word(v, &r.Store)
	case fieldLock:
		return d.word(v, (*string)(&r.Lock))
	case fieldKind:
		return d.word(v, (*string)(&r.LockKind))
	case fieldMode:
		return d.word(v, (*string)(&r.Mode))
	case fieldOwner:
		return d.word(v, (*string)(&r.Owner))
	case fieldRequest:
		return whole(v, &r.Request)
	case fieldTenure:
		return whole(v, &r.Tenure)
	case fieldToken:
		return whole(v, (*uint64)(&r.Token))
	case fieldHow:
		return d.how(v, &r.How)
	case fieldCount:
		return amount(v, &r.Count)
	case fieldSum:
		return hexadecimal(v, &r.Sum)
	case fieldPermits:
		return amount(v, &r.Permits)
	case fieldTotal:
		return amount(v, &r.Total)
	case fieldOp:
		return d.word(v, (*string)(&r.Op))
	case fieldPermit:
		return d.word(v, (*string)(&r.Permit))
	case fieldReplicas:
		return amount(v, &r.Replicas)
	case fieldHolds:
		return amount(v, &r.Holds)
	case fieldWaiters:
		return amount(v, &r.Waiters)
	case fieldHolder:
		return d.word(v, &r.Holder)
	case fieldWaited:
		return duration(v, &r.Waited)
	case fieldHeld:
		return duration(v, &r.Held)
	case fieldLease:
		return duration(v, &r.Lease)
	case fieldRemaining:
		return duration(v, &r.Remaining)
	case fieldFixed:
		return boolean(v, &r.Fixed)
	case fieldStoreTime:
		return storeTime(v, &r.StoreTime)
	case fieldConfirmed:
		return storeTime(v, &r.Confirmed)
	case fieldUntil:
		return storeTime(v, &r.Until)
	case fieldReturned:
		return storeTime(v, &r.Returned)
	case fieldIncarnation:
		return d.word(v, &r.Incarnation)
	case fieldReason:
		return d.reason(v, &r.Reason)
	case fieldOperator:
		return d.word(v, &r.Operator)
	case fieldError:
		return d.word(v, &r.Err)
	case fieldReset:
		return d.members(v, resetNames, r, (*decoder).reset)
	case fieldGrace:
		r.Grace = new(lockagent.GracePeriod)
		return d.members(v, graceNames, r, (*decoder).grace)
	case fieldProcess:
		return d.members(v, processNames, r, (*decoder).process)
	case fieldWho:
		return d.who(v, r)
	case fieldFollows:
		return d.members(v, followsNames, r, (*decoder).follows)
	case fieldDropped:
		return d.members(v, droppedNames, r, (*decoder).dropped)
	}
	return nil
}

// members reads the members of a field that is an object.
func (d *decoder) members(
	v jsontext.Value, n names, r *Record, read func(*decoder, int, jsontext.Value, *Record) error,
) error {
	t := &d.object
	t.read(v)
	t.open('{', "an object")
	for t.more() {
		if i, v, _ := d.member(t, n); i >= 0 {
			if err := read(d, i, v, r); err != nil {
				t.fail("%s: %w", n.list[i], err)
			}
		}
	}
	return t.err
}

var resetNames = newNames("from", "to", "reason", "after_us", "before_us", "store", "step_us")

func (d *decoder) reset(i int, v jsontext.Value, r *Record) error {
	switch i {
	case 0:
		return d.word(v, &r.Reset.From)
	case 1:
		return d.word(v, &r.Reset.To)
	case 2:
		return d.word(v, &r.Reset.Reason)
	case 3:
		return storeTime(v, &r.Reset.After)
	case 4:
		return storeTime(v, &r.Reset.Before)
	case 5:
		return d.word(v, &r.Reset.Store)
	}
	return duration(v, &r.Reset.Step)
}

var graceNames = newNames("incarnation", "reason", "began_us", "ended_us", "roll", "more")

func (d *decoder) grace(i int, v jsontext.Value, r *Record) error {
	switch g := r.Grace; i {
	case 0:
		return d.word(v, &g.Incarnation)
	case 1:
		return d.word(v, &g.Reason)
	case 2:
		return storeTime(v, &g.Began)
	case 3:
		return storeTime(v, &g.Ended)
	case 4:
		return d.roll(v, &g.Roll)
	default:
		return amount(v, &g.More)
	}
}

// roll reads the names of agents. The rows of a table are read later.
func (d *decoder) roll(v jsontext.Value, to *[]lockagent.AgentID) error {
	t := &d.rows
	t.read(v)
	t.open('[', "a list of agents")
	for t.more() {
		var agent string
		if v, _ := t.value(); t.err == nil {
			if err := d.word(v, &agent); err != nil {
				t.fail("%w", err)
			}
		}
		*to = append(*to, lockagent.AgentID(agent))
	}
	return t.err
}

var processNames = newNames("host", "program", "version", "pid", "user", "command")

func (d *decoder) process(i int, v jsontext.Value, r *Record) error {
	return d.processField(i, v, &r.Process)
}

func (d *decoder) processField(i int, v jsontext.Value, p *lockagent.Process) error {
	switch i {
	case 0:
		return d.word(v, &p.Host)
	case 1:
		return d.word(v, &p.Program)
	case 2:
		return d.word(v, &p.Version)
	case 3:
		return amount(v, &p.PID)
	case 4:
		return d.word(v, &p.User)
	}
	return d.word(v, &p.Command)
}

var followsNames = newNames("epoch", "seq")

func (d *decoder) follows(i int, v jsontext.Value, r *Record) error {
	if i == 0 {
		return whole(v, &r.Follows.Epoch)
	}
	return whole(v, &r.Follows.Seq)
}

// droppedNames has the name of each kind, from the first.
var droppedNames = func() names {
	var kinds []string
	for _, k := range lockagent.EventKinds() {
		kinds = append(kinds, k.String())
	}
	return newNames(kinds...)
}()

func (d *decoder) dropped(i int, v jsontext.Value, r *Record) error {
	n, err := unsigned(v)
	if err == nil && n > math.MaxUint32 {
		err = errRange
	}
	r.Dropped[i+1] = uint32(n)
	return err
}

// word reads a string. Most come again and again.
func (d *decoder) word(v jsontext.Value, to *string) error {
	text, err := textOf(v)
	*to = d.texts.text(text)
	return err
}

func whole(v jsontext.Value, to *uint64) (err error) {
	*to, err = unsigned(v)
	return err
}

// hexadecimal reads a number as appendHex of package wire writes it.
func hexadecimal(v jsontext.Value, to *uint64) error {
	text, err := textOf(v)
	if err != nil {
		return err
	}
	n := uint64(0)
	for _, c := range text {
		digit := strings.IndexByte("0123456789abcdef", c)
		if digit < 0 || len(text) != 16 {
			return fmt.Errorf("%.20q is not 16 hexadecimal digits in lower case", text)
		}
		n = n<<4 | uint64(digit)
	}
	*to = n
	return nil
}

func amount(v jsontext.Value, to *int) error {
	n, err := signed(v)
	*to = int(n)
	return err
}

func storeTime(v jsontext.Value, to *lockagent.StoreTime) error {
	n, err := signed(v)
	*to = lockagent.StoreTime(n)
	return err
}

func duration(v jsontext.Value, to *time.Duration) error {
	const limit = math.MaxInt64 / int64(time.Microsecond)
	us, err := signed(v)
	if err == nil && (us > limit || us < -limit) {
		err = errRange
	}
	*to = time.Duration(us) * time.Microsecond
	return err
}

func boolean(v jsontext.Value, to *bool) error {
	*to = v.Kind() == 't'
	if !*to && v.Kind() != 'f' {
		return fmt.Errorf("%s stands where true or false is wanted", v.Kind())
	}
	return nil
}

func (d *decoder) how(v jsontext.Value, to *lockagent.How) error {
	how, err := textOf(v)
	switch string(how) {
	case "":
	case lockagent.ByStore.String():
		*to = lockagent.ByStore
	case lockagent.ByHandOff.String():
		*to = lockagent.ByHandOff
	case lockagent.ByRest.String():
		*to = lockagent.ByRest
	default:
		d.unknown = true
	}
	return err
}

func (d *decoder) reason(v jsontext.Value, to *lockagent.LossReason) error {
	text, err := textOf(v)
	reason, ok := lockagent.ParseLossReason(d.texts.text(text))
	if !ok {
		d.unknown = true
		reason = lockagent.LostUnknown
	}
	*to = reason
	return err
}
